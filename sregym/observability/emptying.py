"""Empties the stack before an attempt: what was seen of earlier ones must not be found in the next.

The three stores keep their data in `emptyDir`s, so their pods are deleted and come back empty. That takes some
seconds, in which the application comes up anyway.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio

from sregym.cluster import waits
from sregym.cluster.contract import Cluster, Selection
from sregym.cluster.objects import POD, Obj, dig, ref_of, uid_of
from sregym.cluster.tasks import first_error, single_error
from sregym.errors import ClusterError, Unavailable, WaitTimeout
from sregym.events import Emit, silent
from sregym.observability.asking import OF_SOURCES, SOURCES, query
from sregym.observability.stack import NAME, NAMESPACE

STORES = ("prometheus", "jaeger", "victoria-logs", "loki")
"""Workloads that hold what was seen, by their name label; those of the other profile are not there."""
BACK_WITHIN_S = 90.0
EVERY_S = 0.5
Emptied = Callable[[], Awaitable[None]]


@asynccontextmanager
async def emptied(cluster: Cluster, *, emit: Emit = silent) -> AsyncIterator[Emptied]:
    """Begins to empty the stack; the body goes on meanwhile and calls what it is given to wait for the end.

    That raises Unavailable where the stack does not come back.
    """
    done, failure = anyio.Event(), list[ClusterError]()

    async def work() -> None:
        try:
            await empty(cluster, emit=emit)
        except ClusterError as error:
            failure.append(error)
        finally:
            done.set()

    async def wait() -> None:
        await done.wait()
        if failure:
            raise failure[0]

    with single_error():
        async with anyio.create_task_group() as group:
            group.start_soon(work)
            yield wait
            group.cancel_scope.cancel()


async def empty(cluster: Cluster, *, emit: Emit = silent) -> None:
    """Empties the stack and returns when it collects again. Raises Unavailable where it does not come back."""
    begun = anyio.current_time()
    old = await _store_pods(cluster)
    if not old:
        raise Unavailable(f"no store runs in the namespace {NAMESPACE}")
    with first_error():
        async with anyio.create_task_group() as group:
            for pod in old:
                group.start_soon(_delete, cluster, pod)
    gone, stores = {uid_of(pod) for pod in old}, {_store_of(pod) for pod in old}
    last = [""]

    async def back() -> bool | None:
        try:
            last[0] = await _missing(cluster, gone, stores)
        except ClusterError as error:
            last[0] = str(error)
        return None if last[0] else True

    try:
        await waits.poll(back, what="the stack is back", every=EVERY_S, within=BACK_WITHIN_S)
    except WaitTimeout as error:
        raise Unavailable(f"the observability stack is not back after {BACK_WITHIN_S:g} s: {last[0]}") from error
    emit("observability.emptied", seconds=round(anyio.current_time() - begun, 3), stores=sorted(stores))


async def memory_of(cluster: Cluster) -> Mapping[str, str]:
    """Each store's memory: by name, its pod and how often that was restarted. Raises ClusterError."""
    return {_store_of(pod): f"{uid_of(pod)}/{_restarts_of(pod)}" for pod in await _store_pods(cluster)}


def _restarts_of(pod: Obj) -> int:
    """Of the store itself: what runs beside it in its pod holds nothing."""
    statuses = dig(pod, "status", "containerStatuses", default=[])
    return sum(int(one.get("restartCount", 0)) for one in statuses if one["name"] == _store_of(pod))


async def _delete(cluster: Cluster, pod: Obj) -> None:
    await cluster.delete(ref_of(pod, POD), grace_s=0)


async def _store_pods(cluster: Cluster) -> Sequence[Obj]:
    return [pod for pod in await cluster.list(Selection(kind=POD, namespace=NAMESPACE)) if _store_of(pod) in STORES]


def _store_of(pod: Obj) -> str:
    return str(dig(pod, "metadata", "labels", default={}).get(NAME))


async def _missing(cluster: Cluster, gone: set[str], stores: set[str]) -> str:
    """What is not back yet: new pods that are ready, and a Prometheus that has seen every source answer."""
    pods = await _store_pods(cluster)
    if left := [pod["metadata"]["name"] for pod in pods if uid_of(pod) in gone]:
        return f"still there: {', '.join(left)}"
    ready = {_store_of(pod) for pod in pods if _is_ready(pod)}
    if stores - ready:
        return f"not ready: {', '.join(sorted(stores - ready))}"
    up = await query(cluster, f"min by (job) (up{OF_SOURCES})")
    answering = {sample.labels["job"] for sample in up if sample.value == 1}
    silent_ones = [job for job in SOURCES if job not in answering]
    return f"not scraped yet: {', '.join(silent_ones)}" if silent_ones else ""


def _is_ready(pod: Obj) -> bool:
    conditions = dig(pod, "status", "conditions", default=[])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
