"""kubectl itself, run as the agent's user through a kube proxy, with an empty home and none of our environment."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sregym import process
from sregym.cluster.objects import Obj
from sregym.errors import CommandError

KEEP = 4 * 1024 * 1024
"""Characters of output that are kept of one command."""
WITHIN_S = 50.0
"""Below the 60 s after which many MCP clients give up."""
TIMED_OUT = 124
"""Of timeout(1), which sends SIGINT, so that what was said until then is not lost."""
_BACKSTOP_S = 10.0


class KubectlFailed(Exception):
    """kubectl ended with an error; the text is what it said."""


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What became of one command."""

    code: int
    stdout: str
    stderr: str
    cut: bool
    """There was more output than is kept."""

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def timed_out(self) -> bool:
        return self.code == TIMED_OUT

    @property
    def said(self) -> str:
        return (self.stderr.strip() or self.stdout.strip())[:4000]


@dataclass(frozen=True, kw_only=True)
class Kubectl:
    """Runs kubectl.

    Attributes:
        program: How it is called here, e.g. `(path_of_kube, "kubectl")`.
        kubeconfig: Of the agent's user.
        home: An empty folder of its own; its discovery cache is kept there.
    """

    program: Sequence[str | Path]
    kubeconfig: Path
    home: Path

    async def run(self, argv: Sequence[str], *, stdin: str = "", within: float = WITHIN_S) -> Ran:
        """Run one command to its end, or to its deadline.

        Raises CommandError where it cannot be run at all, PrerequisiteError where there is no such program.
        """
        command = [
            *("timeout", "--signal=INT", "--kill-after=2", f"{within:g}", "env", "-i"),
            *(f"HOME={self.home}", f"KUBECONFIG={self.kubeconfig}", f"KUBECACHEDIR={self.home}/cache", "KUBERC=off"),
            *("TZ=UTC", "LANG=C.UTF-8", *map(str, self.program), *argv),
        ]
        try:
            done = await process.run(
                command, cwd=self.home, stdin=stdin.encode() if stdin else None, check=False, keep=KEEP,
                within=within + _BACKSTOP_S,
            )  # fmt: skip
        except OSError as error:
            raise CommandError(f"kubectl cannot be run: {error.strerror}") from error
        cut = len(done.stdout) >= KEEP
        return Ran(code=done.code, stdout=done.stdout, stderr=done.stderr, cut=cut)

    async def objects(self, argv: Sequence[str], *, stdin: str = "") -> list[Obj]:
        """The objects that a command with `-o json` prints. Raises KubectlFailed."""
        ran = await self.run(argv, stdin=stdin)
        if not ran.ok:
            raise KubectlFailed(ran.said or f"kubectl ended with status {ran.code}")
        if ran.cut:
            raise KubectlFailed("these are more objects than one command may touch here; name fewer")
        return listed(ran.stdout)

    async def present(self, objects: Sequence[Obj]) -> list[Obj]:
        """The named objects as they are now, without those that are not there. Raises KubectlFailed."""
        if not objects:
            return []
        stubs = {"apiVersion": "v1", "kind": "List", "items": [_stub(obj) for obj in objects]}
        argv = ["get", "-f", "-", "-o", "json", "--ignore-not-found"]
        return await self.objects(argv, stdin=json.dumps(stubs))

    async def patch(self, obj: Obj, operations: Sequence[Mapping[str, Any]]) -> Ran:
        """Apply a JSON patch (RFC 6902) to an object."""
        file = self.home / "patch.json"
        file.write_text(json.dumps(list(operations)), encoding="utf-8")
        argv = ["patch", "-f", "-", "--type=json", f"--patch-file={file}"]
        return await self.run(argv, stdin=json.dumps(_stub(obj)))


def listed(text: str) -> list[Obj]:
    """Objects in kubectl's JSON: a List, one object, several one behind the other, or nothing."""
    decoder = json.JSONDecoder()
    found: list[Obj] = []
    rest = text.strip()
    while rest:
        try:
            value, end = decoder.raw_decode(rest)
        except ValueError as error:
            raise KubectlFailed(f"kubectl's answer is not understood: {error}") from error
        found += _items(value)
        rest = rest[end:].strip()
    return found


def _items(value: Any) -> list[Obj]:
    if isinstance(value, dict) and str(value.get("kind", "")).endswith("List") and "items" in value:
        return [item for item in value["items"] or [] if isinstance(item, dict)]
    return [value] if isinstance(value, dict) and "metadata" in value else []


def _stub(obj: Obj) -> Obj:
    meta = obj["metadata"]
    place = {"namespace": meta["namespace"]} if meta.get("namespace") else {}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": {"name": meta["name"], **place}}
