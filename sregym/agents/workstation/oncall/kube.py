"""kubectl, as a function: objects as JSON, and a record of every change on standard output."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import Any

from .desk import say

Obj = dict[str, Any]
WORKLOADS = ("deployments", "statefulsets", "daemonsets")


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def ok(self) -> bool:
        return self.code == 0


def kubectl(*argv: str, stdin: str = "", within: float = 60.0) -> Done:
    """Run one command. A command that is not done in time counts as failed."""
    try:
        done = subprocess.run(
            ["kubectl", *argv], input=stdin, capture_output=True, text=True, timeout=within, check=False
        )
    except subprocess.TimeoutExpired:
        return Done(124, "", f"not done within {within:g} s")
    return Done(done.returncode, done.stdout, done.stderr)


def change(*argv: str, stdin: str = "", within: float = 60.0) -> Done:
    """Run a command that changes something, and say so."""
    done = kubectl(*argv, stdin=stdin, within=within)
    say(f"$ kubectl {' '.join(argv)}\n{(done.out + done.err).strip()}")
    return done


def items(resource: str, namespace: str, *more: str) -> list[Obj]:
    """All objects of a kind in a namespace; none where they cannot be read."""
    done = kubectl("get", resource, "-n", namespace, "-o", "json", *more)
    if not done.ok:
        say(f"cannot read {resource}: {done.err.strip()}")
        return []
    found: list[Obj] = json.loads(done.out)["items"]
    return found


def one(resource: str, name: str, namespace: str) -> Obj | None:
    """One object, or None."""
    done = kubectl("get", resource, name, "-n", namespace, "-o", "json")
    if not done.ok:
        return None
    found: Obj = json.loads(done.out)
    return found


def patch(resource: str, name: str, namespace: str, body: Any, kind: str = "strategic") -> Done:
    """Patch an object: kind is strategic, merge or json."""
    return change("patch", resource, name, "-n", namespace, "--type", kind, "-p", json.dumps(body))


def rolled_out(resource: str, name: str, namespace: str, within: int = 120) -> bool:
    """Wait for a roll-out."""
    timeout = f"--timeout={within}s"
    return change("rollout", "status", f"{resource}/{name}", "-n", namespace, timeout, within=within + 10).ok


def name_of(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def dig(obj: Any, *path: str | int, default: Any = None) -> Any:
    """The value at a path of keys and indices, or the default."""
    for step in path:
        try:
            obj = obj[step]
        except (KeyError, IndexError, TypeError):
            return default
    return default if obj is None else obj
