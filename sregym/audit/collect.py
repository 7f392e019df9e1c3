"""Collects the evidence: everything as the agent's user, through a proxy like the agent's own, and from inside pods.

Parts run at the same time and each is timed. What the agent may not read is left out; what could not be looked at
raises: an audit that saw less must not pass.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import anyio

from sregym.api.app import App
from sregym.audit.evidence import Evidence, Kind, PodRule, Text
from sregym.cluster import objects, waits
from sregym.cluster.client import KubeCluster
from sregym.cluster.contract import Cluster, Selection
from sregym.cluster.objects import POD, Obj, Ref, dig, path_of
from sregym.cluster.tasks import first_error
from sregym.errors import ClusterError, Forbidden, Invalid, NotFound, Unavailable
from sregym.events import silent
from sregym.gateway.access import access_objects
from sregym.gateway.hiding import Hidden
from sregym.gateway.identity import PREFIX, Identity, TokenGate, new_token
from sregym.gateway.kubeconfig import kubeconfig_text
from sregym.gateway.node.tool import NodeTool
from sregym.gateway.serve import serving_kube
from sregym.gateway.telemetry.access import TelemetryAccess
from sregym.gateway.upstream import ClusterAccess
from sregym.gateway.web import tcp_socket
from sregym.observability.stack import service_path

AT_ONCE = 8
LOG_LINES = 300
INSIDE = (
    "/proc/1/environ",
    "/proc/self/mountinfo",
    "/proc/cmdline",
    "/proc/version",
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/hostname",
)
"""Files that tell a pod about itself and about what is below it."""
NO_SUCH_PROGRAM = (126, 127)
MOST_TRIES = 3
NODE_LOOKS: Sequence[Mapping[str, Any]] = (
    {"op": "processes", "limit": 500, "sort": "pid"},
    {"op": "journal", "lines": 1000},
    {"op": "service", "action": "status", "unit": "kubelet"},
    {"op": "kubelet-config"},
    {"op": "kernel-log"},
    {"op": "find-files", "place": "/tmp", "larger_than_mib": 1},
    {"op": "network", "what": "filter"},
)
MOST_LABELS = 80
ANSWERED_WITHIN_S = 5.0
"""For an application's own stores, which may be what is broken."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One incident, ready to be looked at.

    `cluster` is ours (requests from inside the cluster's network), `agent` the agent's user. `made` are the manifests
    that the application was installed from.
    """

    cluster: Cluster
    agent: Cluster
    app: App
    nodes: NodeTool | None
    made: Sequence[Obj]
    changed_at: datetime
    telemetry: TelemetryAccess = field(default_factory=TelemetryAccess)


@asynccontextmanager
async def agent_client(
    access: ClusterAccess, *, identity: Identity | None = None, hidden: Hidden | None = None
) -> AsyncIterator[KubeCluster]:
    """The cluster as the agent's user sees it, through a proxy like the gateway's."""
    token, sockets = new_token(), [tcp_socket("127.0.0.1", 0)]
    with TemporaryDirectory(prefix="kubeconfig-") as folder:
        async with serving_kube(access, TokenGate(token), identity or Identity(), sockets, silent, hidden) as port:
            config = Path(folder) / "config"
            config.write_text(kubeconfig_text(f"http://127.0.0.1:{port}{PREFIX}{token}", "default"), encoding="utf-8")
            async with KubeCluster.connect(config) as cluster:
                yield cluster


async def collect(scene: Scene) -> Evidence:
    """Everything but the agent's own container. Raises ClusterError where something could not be looked at."""
    texts: list[Text] = []
    found: list[Obj] = []
    rules: list[PodRule] = []
    seconds: dict[str, float] = {}
    parts: Mapping[str, Callable[[], Awaitable[None]]] = {
        "objects": lambda: _objects(scene, found),
        "pods": lambda: _pods(scene, texts),
        "rights": lambda: _rights(scene, rules),
        "nodes": lambda: _nodes(scene, texts),
        "names": lambda: _names(scene, texts),
        "telemetry": lambda: _telemetry(scene, texts),
    }

    async def timed(name: str, part: Callable[[], Awaitable[None]]) -> None:
        began = anyio.current_time()
        await part()
        seconds[name] = anyio.current_time() - began

    with first_error():
        async with anyio.create_task_group() as group:
            for name, part in parts.items():
                group.start_soon(timed, name, part)
    namespace = scene.app.namespace
    return Evidence(
        namespaces=frozenset({namespace}),
        objects=found,
        texts=texts,
        pod_rules=rules,
        made=frozenset((one["kind"], one["metadata"]["name"]) for one in scene.made),
        known=frozenset((one["kind"], one["metadata"]["name"]) for one in access_objects([namespace])),
        changed_at=scene.changed_at,
        allowed=frozenset(word for word in scene.app.topology.images_of(scene.app.profile)),
        seconds=seconds,
    )


async def _objects(scene: Scene, found: list[Obj]) -> None:
    limit = anyio.CapacityLimiter(AT_ONCE)

    async def one(kind: objects.Kind) -> None:
        async with limit:
            try:
                found.extend(await scene.agent.list(Selection(kind=kind)))
                return
            except (Forbidden, NotFound, Invalid):
                pass  # not for the agent's user, at least not everywhere
            if not kind.namespaced:
                return
            try:
                found.extend(await scene.agent.list(Selection(kind=kind, namespace=scene.app.namespace)))
            except (Forbidden, NotFound, Invalid):
                return

    with first_error():
        async with anyio.create_task_group() as group:
            for kind in await scene.agent.kinds():
                group.start_soon(one, kind)
    if not any(obj["kind"] == "Pod" for obj in found):
        raise Unavailable("the agent's user can list no pods: nothing was audited")


async def _pods(scene: Scene, texts: list[Text]) -> None:
    """Logs of every container, and what one container of each image can see."""
    limit, namespace = anyio.CapacityLimiter(AT_ONCE), scene.app.namespace
    pods = await scene.agent.list(Selection(kind=POD, namespace=namespace))
    ready: defaultdict[str, list[tuple[Ref, str]]] = defaultdict(list)

    async def log(ref: Ref, container: str, previous: bool) -> None:
        async with limit:
            try:
                text = await scene.agent.logs(ref, container=container, previous=previous, tail=LOG_LINES)
            except (NotFound, Invalid):
                return  # not started yet, or gone
        texts.append(Text(where=f"log of {ref.name}/{container}", text=text, kind=Kind.LOG))

    with first_error():
        async with anyio.create_task_group() as group:
            for pod in pods:
                ref = Ref(POD, pod["metadata"]["name"], namespace)
                for status in dig(pod, "status", "containerStatuses", default=[]):
                    group.start_soon(log, ref, status["name"], False)
                    if status.get("restartCount", 0) > 0:
                        group.start_soon(log, ref, status["name"], True)
                    if status.get("ready"):
                        ready[status["image"]].append((ref, status["name"]))
            for places in ready.values():
                group.start_soon(_enter, scene.agent, places, limit, texts)


async def _enter(
    agent: Cluster, places: Sequence[tuple[Ref, str]], limit: anyio.CapacityLimiter, texts: list[Text]
) -> None:
    """Looks from inside the first of these containers that can be entered: pods come and go in an incident."""
    last: ClusterError | None = None
    for ref, container in places[:MOST_TRIES]:
        async with limit:
            try:
                done = await agent.exec(ref, ["cat", *INSIDE], container=container)
            except (NotFound, Unavailable) as error:
                last = error
                continue
        if done.code not in NO_SUCH_PROGRAM:  # without programs in its image an agent cannot look there either
            text = done.stdout.replace("\0", "\n")
            texts.append(Text(where=f"inside {ref.name}/{container}", text=text, kind=Kind.POD))
        return
    if last is not None and not isinstance(last, NotFound):
        raise last


async def _rights(scene: Scene, rules: list[PodRule]) -> None:
    """What the service account that pods have by default may do, as it would be told itself."""
    namespace = scene.app.namespace
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    headers = {
        "Impersonate-User": f"system:serviceaccount:{namespace}:default",
        "Impersonate-Group": "system:serviceaccounts",
    }
    answer = await scene.cluster.raw(
        "POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", body=review, headers=headers
    )
    for rule in answer["status"].get("resourceRules") or []:
        rules.append(
            PodRule(
                verbs=tuple(rule["verbs"]),
                groups=tuple(rule.get("apiGroups") or ()),
                resources=tuple(rule.get("resources") or ()),
            )
        )


async def _nodes(scene: Scene, texts: list[Text]) -> None:
    tool = scene.nodes
    if tool is None or tool.cluster.node_shell is None:
        return

    async def look(node: str, request: Mapping[str, Any]) -> None:
        answer = await tool.call(node, request)
        texts.append(Text(where=f"node {node}, {request['op']}", text=answer.text, kind=Kind.NODE))

    with first_error():
        async with anyio.create_task_group() as group:
            for node in tool.workers:
                for request in NODE_LOOKS:
                    group.start_soon(look, node, request)


async def _names(scene: Scene, texts: list[Text]) -> None:
    """Entries of the application's own registry, and its own trace store's services and latest traces."""
    namespace = scene.app.namespace
    for spec in scene.app.topology.services:
        if spec.role == "registry":
            text = await _answered(
                scene.cluster, service_path(spec.name, 8500, "v1/agent/services", namespace=namespace)
            )
            if text is not None:
                texts.append(Text(where=f"registry {spec.name}", text=text, kind=Kind.NAME))
        elif spec.role == "tracing":
            store = service_path(spec.name, 16686, "api", namespace=namespace)
            await _traces(scene.cluster, store, f"traces in {spec.name}", texts)


async def _traces(cluster: Cluster, store: str, where: str, texts: list[Text]) -> None:
    listed = await _answered(cluster, f"{store}/services")
    if listed is None:
        return
    limit = anyio.CapacityLimiter(AT_ONCE)

    async def read(path: str, query: Mapping[str, str]) -> None:
        async with limit:
            text = await _answered(cluster, f"{store}/{path}", query)
        if text is not None:
            shown = " ".join([path, *query.values()])
            texts.append(Text(where=f"{where}: {shown}", text=text, kind=Kind.TELEMETRY))

    async with anyio.create_task_group() as group:
        answer = json.loads(listed)
        for service in (answer.get("data") or []) if isinstance(answer, dict) else []:
            group.start_soon(read, f"services/{quote(service, safe='')}/operations", {})
            group.start_soon(read, "traces", {"service": service, "limit": "3", "lookback": "1h"})


async def _telemetry(scene: Scene, texts: list[Text]) -> None:
    """Names and labels of metrics, and traces, of the observability stack; nothing where there is none."""
    at, cluster = scene.telemetry, scene.cluster
    if await cluster.find(Ref(objects.NAMESPACE, at.namespace)) is None:
        return
    metrics, traces = (
        service_path(name, int(port), "api", namespace=at.namespace)
        for name, port in (at.metrics.split(":"), at.traces.split(":"))
    )
    limit = anyio.CapacityLimiter(AT_ONCE)

    async def read(path: str) -> Any:
        async with limit:
            answer = await cluster.raw("GET", f"{metrics}/v1/{path}")
        texts.append(Text(where=f"metrics {path}", text=json.dumps(answer), kind=Kind.TELEMETRY))
        return answer

    labels = [one for one in (await read("labels"))["data"] if one not in ("__name__", "le", "uid", "id")]
    with first_error():
        async with anyio.create_task_group() as group:
            group.start_soon(_traces, cluster, traces, "traces", texts)
            for label in ("__name__", *labels[:MOST_LABELS]):
                group.start_soon(read, f"label/{label}/values")


async def _answered(cluster: Cluster, path: str, query: Mapping[str, str] | None = None) -> str | None:
    """What is answered, or None where nobody answers sensibly: the incident may be that the server is down."""
    text: str | None = None
    with suppress(ClusterError, ValueError), anyio.move_on_after(ANSWERED_WITHIN_S):
        text = json.dumps(await cluster.raw("GET", path, query=query))
    return text


async def from_own_pod(scene: Scene, image: str, within: float = 60.0) -> Text:
    """What a pod that the agent makes sees of itself and its surroundings. The pod is removed again."""
    namespace = scene.app.namespace
    look = (
        f"env; cat {' '.join(INSIDE)} /proc/mounts; ls /var/run/secrets/kubernetes.io/serviceaccount /sys/class/dmi/id"
    )
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "shell", "namespace": namespace},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "shell", "image": image, "command": ["sh", "-c", look + " 2>&1; true"]}],
        },
    }
    ref = Ref(POD, "shell", namespace)
    await scene.agent.raw("POST", path_of(POD, namespace), body=pod)
    try:

        async def ended() -> str | None:
            phase = dig(await scene.agent.get(ref), "status", "phase")
            return str(phase) if phase in ("Succeeded", "Failed") else None

        await waits.poll(ended, what="a pod of the agent's own", every=0.5, within=within)
        text = await scene.agent.logs(ref)
    finally:
        with anyio.CancelScope(shield=True):
            await scene.agent.delete(ref, grace_s=0)
    return Text(where="a pod of the agent's own", text=text, kind=Kind.POD)
