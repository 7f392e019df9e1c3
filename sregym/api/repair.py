"""Repairs: what an on-call engineer would do, as declarative steps.

`verify` and the `reference` agent run them under the agent's identity through the gateway, never through our editor:
a problem that the agent's rights cannot repair is a broken problem. Every step renders to one kubectl command, so
there is one way to run them, inside the agent's container as well as beside it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sregym.cluster.contract import PatchType
from sregym.cluster.objects import Obj, Ref

_PATCH_FLAG = {PatchType.MERGE: "merge", PatchType.STRATEGIC: "strategic", PatchType.JSON: "json"}


@dataclass(frozen=True, kw_only=True)
class KubectlCall:
    """One kubectl command: arguments after `kubectl`, what goes to its standard input, and its deadline (seconds)."""

    argv: tuple[str, ...]
    stdin: str = ""
    within: float = 60.0


class Step(ABC):
    """One step of a repair; renders to a kubectl command in the app's namespace unless the reference names another."""

    @abstractmethod
    def kubectl(self, namespace: str) -> KubectlCall: ...


def _target(ref: Ref, namespace: str) -> tuple[str, ...]:
    place = ref.within(namespace).namespace
    group = ref.kind.api_version.split("/")[0] if "/" in ref.kind.api_version else ""
    resource = f"{ref.kind.plural}.{group}" if group else ref.kind.plural
    return (f"{resource}/{ref.name}", *(("--namespace", place) if place else ()))


@dataclass(frozen=True)
class Patch(Step):
    ref: Ref
    patch: Any
    kind: PatchType = PatchType.STRATEGIC

    def kubectl(self, namespace: str) -> KubectlCall:
        body = json.dumps(self.patch)
        return KubectlCall(argv=("patch", *_target(self.ref, namespace), "--type", _PATCH_FLAG[self.kind], "-p", body))


@dataclass(frozen=True)
class Create(Step):
    obj: Obj

    def kubectl(self, namespace: str) -> KubectlCall:
        place = self.obj["metadata"].get("namespace", namespace)
        return KubectlCall(argv=("create", "--namespace", place, "-f", "-"), stdin=json.dumps(self.obj))


@dataclass(frozen=True)
class Delete(Step):
    ref: Ref

    def kubectl(self, namespace: str) -> KubectlCall:
        return KubectlCall(argv=("delete", *_target(self.ref, namespace), "--wait=false"))


@dataclass(frozen=True)
class Exec(Step):
    """Runs a command in the (first ready) container of a workload's pod."""

    ref: Ref
    argv: Sequence[str]
    container: str | None = None
    stdin: str = ""

    def kubectl(self, namespace: str) -> KubectlCall:
        chosen = ("-c", self.container) if self.container else ()
        flags = ("-i",) if self.stdin else ()
        argv = ("exec", *flags, *_target(self.ref, namespace), *chosen, "--", *self.argv)
        return KubectlCall(argv=argv, stdin=self.stdin)


@dataclass(frozen=True)
class Restart(Step):
    ref: Ref

    def kubectl(self, namespace: str) -> KubectlCall:
        return KubectlCall(argv=("rollout", "restart", *_target(self.ref, namespace)))


@dataclass(frozen=True)
class Scale(Step):
    ref: Ref
    replicas: int

    def kubectl(self, namespace: str) -> KubectlCall:
        return KubectlCall(argv=("scale", *_target(self.ref, namespace), f"--replicas={self.replicas}"))


@dataclass(frozen=True)
class SetEnv(Step):
    ref: Ref
    env: Mapping[str, str]

    def kubectl(self, namespace: str) -> KubectlCall:
        pairs = tuple(f"{key}={value}" for key, value in self.env.items())
        return KubectlCall(argv=("set", "env", *_target(self.ref, namespace), *pairs))


@dataclass(frozen=True)
class WaitRollout(Step):
    """Waits until a workload's roll-out is complete; fails the repair where it is not in time."""

    ref: Ref
    within: float = 90.0

    def kubectl(self, namespace: str) -> KubectlCall:
        argv = ("rollout", "status", *_target(self.ref, namespace), f"--timeout={self.within:g}s")
        return KubectlCall(argv=argv, within=self.within + 10)


@dataclass(frozen=True, kw_only=True)
class Repair:
    """A named way to act on the incident: a right one in `Problem.repairs()`, a wrong one in `Problem.cheats()`."""

    name: str
    steps: tuple[Step, ...]
    inverse: bool = False
    """Whether it is just the inverse of the fault; a problem needs at least one right repair that is not."""
    why: str = ""
