"""Rules about what the cluster has recorded: for trouble that no object shows.

They are less sure than rules about objects: what is recorded is an effect, and often not the first one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from . import telemetry
from .findings import LIKELY, VAGUE, Finding, patch_container, restart
from .kube import Obj, dig
from .world import World, called, containers_of

ATTEMPTS = re.compile(r"MAX_ATTEMPTS$|MAX_RETRIES$|_RETRIES$")
TIME_OUT = re.compile(r"TIMEOUT(_MS)?$")
CAPACITY = re.compile(r"QUEUE_(CAPACITY|SIZE|LENGTH)$")
RATE = re.compile(r"(QPS|RPS|RATE)_LIMIT$")
FAILED = "DeadlineExceeded|ResourceExhausted"
WINDOW = "1m"
FAILING_SHARE = 0.3
"""Of the calls to a peer: below this a single bad pod may be behind it."""
BURST_FACTOR = 2.0
SHORT_QUEUE = 10
MOST_NAMED = 3


def retry_storm(world: World) -> Iterator[Finding]:
    """A caller that tries again what its peer has no room for, so that the peer never catches up."""
    for caller, peer, share in _failing_calls(world.namespace):
        calling, called_one = _workload(world, caller), _workload(world, peer)
        if calling is None or called_one is None:
            continue
        attempts, queue = _setting(calling, ATTEMPTS), _setting(called_one, CAPACITY)
        if attempts is None or queue is None or int(attempts[2]) < 2 or not _is_full(world.namespace, peer, queue):
            continue
        wait, rate = _setting(calling, TIME_OUT), _setting(called_one, RATE)
        told = ", ".join(f"{name}={value}" for _, name, value in filter(None, (attempts, wait, queue, rate)))
        yield Finding(
            LIKELY,
            f"a retry storm between {called(calling)} and {called(called_one)}: calls wait in {peer}'s queue longer"
            f" than their deadline, time out and are tried again ({told}); expired requests still use capacity, so the"
            f" queue stays full.{_burst(world.namespace, caller)}",
            f"{share:.0%} of the calls from {caller} to {peer} fail with time-outs at normal load though all pods are"
            " healthy; requests keep failing and it does not recover by itself.",
            partial(_calm, (calling, attempts, "1"), (called_one, queue, str(SHORT_QUEUE))),
        )


def throttled(world: World) -> Iterator[Finding]:
    """A container that its CPU limit holds back."""
    for alert in telemetry.firing(world.namespace):
        if alert.get("alertname") != "ContainerThrottled":
            continue
        for workload in world.workloads:
            for container in containers_of(workload):
                limit = dig(container, "resources", "limits", "cpu")
                if container["name"] == alert.get("container") and limit is not None:
                    yield Finding(
                        LIKELY,
                        f"{called(workload)} has a CPU limit of {limit} (container {container['name']}), too low for"
                        " its load: it is throttled.",
                        "it answers slowly, and its callers wait and time out.",
                        patch_container(workload, container["name"], {"resources": {"limits": {"cpu": None}}}),
                    )


def where_requests_fail(world: World) -> Iterator[Finding]:
    """The service at which failed requests fail first, in the words of its spans and its log."""
    entry = _entry(world.namespace)
    seen = telemetry.failing_spans(entry) if entry else None
    for (service, message), count in seen.most_common(MOST_NAMED) if seen else ():
        workload = _workload(world, service)
        if workload is None:
            continue
        lines = telemetry.complaints(world.namespace, containers_of(workload)[0]["name"])
        said = f" Its log says: {lines[0][:300]}" if lines else ""
        yield Finding(
            VAGUE,
            f"requests fail at {called(workload)}: {message[:300]} ({count} of the last failed traces).{said}",
            f"what calls {service} fails, too, and users see errors.",
            partial(restart, workload),
        )


def _failing_calls(namespace: str) -> list[tuple[str, str, float]]:
    """Who fails to be served by whom, worst first: (caller, peer, share of the calls)."""
    of = f'namespace="{namespace}"'
    failed = f'sum by (service, peer) (rate(client_requests_total{{{of},code=~"{FAILED}"}}[{WINDOW}]))'
    share = f"{failed} / sum by (service, peer) (rate(client_requests_total{{{of}}}[{WINDOW}])) > {FAILING_SHARE}"
    found = [(s.labels.get("service", ""), s.labels.get("peer", ""), s.value) for s in telemetry.metric(share)]
    return sorted(found, key=lambda one: -one[2])


def _is_full(namespace: str, peer: str, queue: tuple[str, str, str]) -> bool:
    """Whether the peer's queue is at least half full."""
    name = peer.removeprefix("srv-").replace("-", "_")
    depths = telemetry.metric(f'max({{__name__="{name}_queue_depth",namespace="{namespace}"}})')
    return bool(depths) and depths[0].value >= int(queue[2]) / 2


def _burst(namespace: str, service: str) -> str:
    """What to say of a burst that is over, where the records show one."""
    rate = f'sum(rate(requests_total{{namespace="{namespace}",service="{service}"}}[15s]))'
    peak = telemetry.metric(f"max_over_time(({rate})[10m:5s])")
    now = telemetry.metric(f'sum(rate(requests_total{{namespace="{namespace}",service="{service}"}}[1m]))')
    if not peak or not now or peak[0].value < BURST_FACTOR * max(now[0].value, 0.1):
        return ""
    return (
        f" A burst filled it: traffic to {service} peaked at {peak[0].value:.0f} requests/s and is back at"
        f" {now[0].value:.0f}/s."
    )


def _entry(namespace: str) -> str:
    """The service that nobody calls."""
    served = {s.labels.get("service", "") for s in telemetry.metric(f'requests_total{{namespace="{namespace}"}}')}
    peers = telemetry.metric(f'client_requests_total{{namespace="{namespace}"}}')
    called_ones = {s.labels.get("peer", "").removeprefix("srv-") for s in peers}
    callers = {s.labels.get("service", "") for s in peers}
    return next(iter(sorted((served & callers) - called_ones)), "")


def _workload(world: World, name: str) -> Obj | None:
    return world.workload(name) or world.workload(name.removeprefix("srv-"))


def _setting(workload: Obj, pattern: re.Pattern[str]) -> tuple[str, str, str] | None:
    """(container, name, value) of the first environment variable of that kind."""
    for container in containers_of(workload):
        for variable in container.get("env", []):
            if pattern.search(variable["name"]) and str(variable.get("value", "")).isdigit():
                return container["name"], variable["name"], variable["value"]
    return None


def _calm(*changes: tuple[Obj, tuple[str, str, str], str]) -> None:
    """Each workload with another value for one of its settings."""
    for workload, (container, name, _), value in changes:
        patch_container(workload, container, {"env": [{"name": name, "value": value}]})()


RULES = (retry_storm, throttled, where_requests_fail)
