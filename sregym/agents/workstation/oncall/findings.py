"""What a rule found: how surely it is a cause, what it is in words, and what would put it right."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from .kube import Obj, change, name_of, patch
from .world import KINDS

SURE = 100
LIKELY = 60
VAGUE = 20


@dataclass(frozen=True)
class Finding:
    """`weight` orders findings: causes before consequences. `cause` says what is wrong, `effect` what follows."""

    weight: int
    cause: str
    effect: str
    repair: Callable[[], object]

    @property
    def text(self) -> str:
        return f"Root cause: {self.cause} As a result, {self.effect}"


def patch_template(workload: Obj, spec: Obj) -> Callable[[], object]:
    """A repair that patches a workload's pod template."""
    body = {"spec": {"template": {"spec": spec}}}
    meta = workload["metadata"]
    return lambda: patch(KINDS[workload["kind"]], meta["name"], meta["namespace"], body)


def patch_container(workload: Obj, container: str, body: Obj) -> Callable[[], object]:
    """A repair that patches one container of a workload."""
    return patch_template(workload, {"containers": [{"name": container, **body}]})


def restart(workload: Obj) -> None:
    resource = f"{KINDS[workload['kind']]}/{name_of(workload)}"
    change("rollout", "restart", resource, "-n", workload["metadata"]["namespace"])


def create(obj: Obj) -> None:
    change("create", "-f", "-", stdin=json.dumps(obj))
