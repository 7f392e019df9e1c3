"""What is wrong with the pods of a namespace, in a few lines: goes with a time-out, for people to read."""

from __future__ import annotations

from collections.abc import Iterable

from sregym.cluster.contract import Reader, Selection
from sregym.cluster.objects import EVENT, POD, Obj, dig

MOST_PODS = 12
MOST_EVENTS = 8


async def describe_pods(reader: Reader, namespace: str) -> str:
    """The pods that are not well, each with state, exit code and reason, and the latest warnings.

    Raises ClusterError where they cannot be read.
    """
    pods = await reader.list(Selection(kind=POD, namespace=namespace))
    unwell = [line for line in map(line_of, pods) if line]
    events = await reader.list(Selection(kind=EVENT, namespace=namespace))
    head = f"pods in {namespace}: {len(pods)}, not well: {len(unwell)}"
    return "\n".join([head, *_cut(unwell, MOST_PODS), *_cut(_warnings(events), MOST_EVENTS)])


def line_of(pod: Obj) -> str:
    """One line on a pod, empty where it is ready (or has done its work)."""
    phase = dig(pod, "status", "phase", default="Unknown")
    conditions = {c["type"]: c for c in dig(pod, "status", "conditions", default=[])}
    if phase == "Succeeded" or dig(conditions, "Ready", "status") == "True":
        return ""
    leaving = ", being deleted" if dig(pod, "metadata", "deletionTimestamp") else ""
    parts = [f"  {pod['metadata']['name']}: {phase}{leaving}"]
    if dig(conditions, "PodScheduled", "status") == "False":
        parts.append(str(dig(conditions, "PodScheduled", "message", default="not scheduled")))
    statuses = [
        *dig(pod, "status", "initContainerStatuses", default=[]),
        *dig(pod, "status", "containerStatuses", default=[]),
    ]
    parts += [text for text in map(_container, statuses) if text]
    return "; ".join(parts)


def _container(status: Obj) -> str:
    restarts = f", {status['restartCount']} restarts" if status.get("restartCount") else ""
    before = dig(status, "lastState", "terminated")
    last = f", before: exit {before.get('exitCode')} {before.get('reason', '')}".rstrip() if before else ""
    if waiting := dig(status, "state", "waiting"):
        text = f"waiting, {waiting.get('reason', '')} {waiting.get('message', '')}".rstrip()
    elif ended := dig(status, "state", "terminated"):
        if ended.get("exitCode") == 0:
            return ""
        text = f"ended, exit {ended.get('exitCode')} {ended.get('reason', '')}".rstrip()
    elif status.get("ready"):
        return ""
    else:
        text = "running, not ready"
    return f"container {status['name']} {text}{restarts}{last}"


def _warnings(events: Iterable[Obj]) -> list[str]:
    """The latest warning events, newest first, each (object, reason) once."""
    latest: dict[tuple[str, str], Obj] = {}
    for event in sorted((e for e in events if e.get("type") == "Warning"), key=_time_of):
        latest[dig(event, "involvedObject", "name", default="?"), event.get("reason", "")] = event
    newest_first = sorted(latest.items(), key=lambda item: _time_of(item[1]), reverse=True)
    return [f"  warning {name} {reason}: {event.get('message', '')[:200]}" for (name, reason), event in newest_first]


def _time_of(event: Obj) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp") or "")


def _cut(lines: list[str], most: int) -> list[str]:
    return lines if len(lines) <= most else [*lines[:most], f"  ... and {len(lines) - most} more"]
