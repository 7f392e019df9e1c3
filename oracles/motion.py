"""What is still under way in a namespace, and what is stuck: pure functions of objects and the time.

An oracle waits while something moves and gives up soon after nothing does. A pod in its starting time moves; one that
waits in a back-off, cannot be scheduled, or has crashed twice does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sregym.api import Obj, dig

STARTING_S = 15.0
"""A container may need that long to start or to fail: a database driver's dial time-out is 10 s."""

SCHEDULING_S = 5.0
CREATING_S = 60.0
"""Volumes attached, image unpacked."""

CRASHES = 2
"""A container that has restarted that often since its pod was made is not starting any more, it is failing."""

_BACK_OFF = ("CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull")


@dataclass(frozen=True, kw_only=True)
class Motion:
    """Names what moves (with the reason) and which pods crash: they wait in a back-off, or soon will again."""

    moving: Sequence[str]
    crashing: Sequence[str]


def motion(deployments: Iterable[Obj], pods: Iterable[Obj], now: datetime, *, crashes: int = CRASHES) -> Motion:
    """What moves at the moment `now` (aware UTC). A container that has restarted `crashes` times does not."""
    listed = list(pods)
    moving = [f"{_name(one)}: not yet seen by its controller" for one in deployments if _unseen(one)]
    moving += [f"{_name(one)}: {why}" for one in listed if (why := _moves(one, now, crashes))]
    return Motion(moving=moving, crashing=[_name(one) for one in listed if _crashes(one, now)])


def backs_off(pod: Obj) -> bool:
    """Whether a container waits before the kubelet tries it again."""
    return any(dig(status, "state", "waiting", "reason") in _BACK_OFF for status in _statuses(pod))


def _crashes(pod: Obj, now: datetime) -> bool:
    if dig(pod, "metadata", "deletionTimestamp"):
        return False
    again = any(status.get("restartCount", 0) > 0 and _young(status, now) for status in _statuses(pod))
    return again or backs_off(pod)


def _unseen(deployment: Obj) -> bool:
    return bool(dig(deployment, "status", "observedGeneration", default=0) < deployment["metadata"]["generation"])


def _moves(pod: Obj, now: datetime, crashes: int) -> str:
    """Why the pod is in motion; empty where it is not."""
    if leaving := dig(pod, "metadata", "deletionTimestamp"):
        return "ending" if now < _time(leaving) + timedelta(seconds=SCHEDULING_S) else ""
    age = (now - _time(pod["metadata"]["creationTimestamp"])).total_seconds()
    if dig(pod, "status", "phase") == "Pending":
        return _pending(pod, age)
    starting = [_starts(status, now, crashes) for status in _statuses(pod)]
    return "starting" if any(starting) and not backs_off(pod) else ""


def _pending(pod: Obj, age: float) -> str:
    if not dig(pod, "spec", "nodeName"):
        return "waiting for a node" if age < SCHEDULING_S else ""
    return "being created" if age < CREATING_S and not backs_off(pod) else ""


def _starts(status: Obj, now: datetime, crashes: int) -> bool:
    return status.get("restartCount", 0) < crashes and _young(status, now)


def _young(status: Obj, now: datetime) -> bool:
    """Whether a container was started a moment ago, or has ended and will be."""
    started = dig(status, "state", "running", "startedAt")
    if started is None:
        return dig(status, "state", "terminated") is not None
    return (now - _time(started)).total_seconds() < STARTING_S


def _statuses(pod: Obj) -> list[Obj]:
    return [
        *dig(pod, "status", "initContainerStatuses", default=[]),
        *dig(pod, "status", "containerStatuses", default=[]),
    ]


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _name(obj: Obj) -> str:
    return str(obj["metadata"]["name"])
