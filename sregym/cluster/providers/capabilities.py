"""What a cluster can do, found out by doing it. Problems name what they need; what is missing skips them with a reason.

A probe whose query failed says so in its reason and counts as absent: unknown is not present. Answers are kept on disk
as long as they stay true: for a kind cluster that is the node image on this kernel, for any other the cluster itself.
"""

from __future__ import annotations

import hashlib
import platform
import secrets
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import anyio
import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

from sregym.cluster import waits
from sregym.cluster.contract import Cluster, NodeShell, Selection
from sregym.cluster.namespaces import remove_namespaces
from sregym.cluster.objects import (
    CONFIGMAP,
    DEPLOYMENT,
    NAMESPACE,
    NETWORKPOLICY,
    NODE,
    POD,
    PVC,
    SERVICEACCOUNT,
    Kind,
    Obj,
    Ref,
    dig,
)
from sregym.cluster.providers.base import ClusterHandle
from sregym.cluster.providers.pins import KIND_DATA
from sregym.cluster.providers.readiness import CONTROL_PLANE_LABEL
from sregym.cluster.providers.steps import KEY_LENGTH, fingerprint_of
from sregym.errors import ClusterError, SregymError, WaitTimeout
from sregym.progress import Progress, step

MANIFEST = KIND_DATA / "manifests" / "capability-probe.yaml"
PODS_WITHIN_S = 60.0
ENFORCED_WITHIN_S = 15.0
FALLBACK_CLIENT = "docker.io/library/busybox:1.36"
NODE_METRICS = Kind("metrics.k8s.io/v1beta1", "NodeMetrics", "nodes", namespaced=False)
PORT = 8053

CONNECT = f"""
if command -v bash >/dev/null; then
  exec bash -c 'read -r -t 2 answer < <(exec 3<>/dev/tcp/$0/{PORT} && echo open); [ "$answer" = open ]' "$0"
fi
exec nc -z -w 2 "$0" {PORT}
"""

ON_NODE: Mapping[str, str] = MappingProxyType(
    {
        "ebpf": "d=$(mktemp -d); mount -t tracefs tracefs $d && test -e $d/kprobe_events; has=$?; "
        "umount $d; rmdir $d; exit $has",
        "device-mapper": "test -c /dev/mapper/control && grep -q device-mapper /proc/misc",
        "netem": "unshare --net sh -c 'ip link set lo up && tc qdisc add dev lo root netem delay 1ms'",
        "packet-loss": "unshare --net sh -c 'nft add table ip t && nft add chain ip t c && "
        "nft add rule ip t c numgen random mod 2 0 drop'",
        "systemd": "systemctl is-active --quiet kubelet",
    }
)
"""Capabilities that a command on a worker shows by its exit status. All leave nothing behind."""


class Capability(BaseModel):
    """Whether a cluster can do something, and how we know."""

    model_config = ConfigDict(frozen=True)
    present: bool
    reason: str


Capabilities = Mapping[str, Capability]
"""By name."""

_STORED = TypeAdapter(dict[str, Capability])


async def capabilities_of(
    handle: ClusterHandle, cluster: Cluster, *, node_shell: NodeShell | None, cache: Path, progress: Progress
) -> Capabilities:
    """The capabilities of a cluster: from the cache where they were probed before, otherwise probed now."""
    file = cache / "capabilities" / f"{await _stays_true_for(handle, cluster)}.json"
    if (known := _read(file)) is not None:
        return known
    with step(progress, f"find out what cluster {handle.name} can do"):
        found = await probe(cluster, node_shell)
    await anyio.Path(file.parent).mkdir(parents=True, exist_ok=True)
    await anyio.Path(file).write_bytes(_STORED.dump_json(dict(found), indent=1))
    return found


async def probe(cluster: Cluster, node_shell: NodeShell | None) -> Capabilities:
    """Try everything. Leaves nothing behind."""
    found: dict[str, Capability] = {}

    async def one(name: str, ask: Callable[[], Awaitable[Capability]]) -> None:
        found[name] = await _asked(ask)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one, "two-workers", lambda: _two_workers(cluster))
        tasks.start_soon(one, "metrics-server", lambda: _metrics_server(cluster))
        tasks.start_soon(_by_pods, cluster, found)
        tasks.start_soon(_on_node, cluster, node_shell, found)
    return MappingProxyType(dict(sorted(found.items())))


async def _asked(ask: Callable[[], Awaitable[Capability]]) -> Capability:
    try:
        return await ask()
    except SregymError as error:
        return Capability(present=False, reason=f"unknown: the question failed: {error}")


async def _two_workers(cluster: Cluster) -> Capability:
    workers = await _workers(cluster)
    return Capability(present=len(workers) >= 2, reason=f"{len(workers)} worker(s) take pods")


async def _metrics_server(cluster: Cluster) -> Capability:
    try:
        items = await cluster.list(Selection(kind=NODE_METRICS))
    except ClusterError as error:
        return Capability(present=False, reason=f"metrics.k8s.io is not served ({error.status or error})")
    return Capability(present=bool(items), reason=f"metrics of {len(items)} node(s)")


async def _on_node(cluster: Cluster, shell: NodeShell | None, found: dict[str, Capability]) -> None:
    """Capabilities that show on a worker; without a way onto it none of them can be used."""
    workers = [] if shell is None else [name for name in await _workers(cluster) if name in shell.nodes]
    if shell is None or not workers:
        absent = Capability(present=False, reason="no way to run commands on nodes")
        found.update({"node-shell": absent, **dict.fromkeys(ON_NODE, absent)})
        return
    worker = workers[0]
    for name, command in {"node-shell": "true", **ON_NODE}.items():

        async def ask(command: str = command) -> Capability:
            done = await shell.run(worker, ["sh", "-c", command])
            return Capability(
                present=done.code == 0, reason=done.stderr.strip()[:200] or f"status {done.code} on {worker}"
            )

        found[name] = await _asked(ask)


async def _by_pods(cluster: Cluster, found: dict[str, Capability]) -> None:
    """Storage and network policies: shown by two pods in a namespace that goes away again."""
    namespace = f"probe-{secrets.token_hex(3)}"
    for name in ("default-storageclass", "network-policy"):
        found[name] = Capability(present=False, reason="not reached")
    try:
        await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        account = Ref(SERVICEACCOUNT, "default", namespace)  # without it no pod is admitted
        await waits.poll(lambda: cluster.find(account), what=f"{account}", every=0.2, within=PODS_WITHIN_S)
        await cluster.apply(await manifests(cluster), namespace=namespace)
        server = await _running(cluster, Ref(POD, "server", namespace))
        found["default-storageclass"] = await _asked(lambda: _claim_is_bound(cluster, namespace))
        found["network-policy"] = await _asked(
            lambda: _policy_blocks(cluster, namespace, dig(server, "status", "podIP"))
        )
    except SregymError as error:
        for name, capability in found.items():
            if capability.reason == "not reached":
                found[name] = Capability(present=False, reason=f"unknown: the probe's pods do not run: {error}")
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(PODS_WITHIN_S):
            await remove_namespaces(cluster, [namespace])


async def _claim_is_bound(cluster: Cluster, namespace: str) -> Capability:
    async def bound() -> Obj | None:
        claim = await cluster.get(Ref(PVC, "client", namespace))
        return claim if dig(claim, "status", "phase") == "Bound" else None

    try:
        claim = await waits.poll(bound, what="the claim is bound", every=0.5, within=PODS_WITHIN_S)
        await _running(cluster, Ref(POD, "client", namespace))
    except WaitTimeout as error:
        return Capability(present=False, reason=str(error))
    return Capability(present=True, reason=f"a claim was bound by class {dig(claim, 'spec', 'storageClassName')}")


async def _policy_blocks(cluster: Cluster, namespace: str, address: str) -> Capability:
    client = Ref(POD, "client", namespace)
    await _running(cluster, client)

    async def connects() -> bool:
        return (await cluster.exec(client, ["sh", "-c", CONNECT, address])).code == 0

    async def blocked() -> bool | None:
        return None if await connects() else True

    if not await connects():
        return Capability(present=False, reason="unknown: the two pods do not reach each other without a policy either")
    await cluster.create(
        {
            "apiVersion": NETWORKPOLICY.api_version,
            "kind": NETWORKPOLICY.name,
            "metadata": {"name": "server", "namespace": namespace},
            "spec": {"podSelector": {"matchLabels": {"app": "server"}}, "policyTypes": ["Ingress"]},
        }
    )
    try:
        await waits.poll(blocked, what="the policy blocks", every=0.5, within=ENFORCED_WITHIN_S)
    except WaitTimeout:
        return Capability(present=False, reason=f"a policy did not block within {ENFORCED_WITHIN_S:g} s")
    return Capability(present=True, reason="a policy blocked a connection that went through before")


async def _running(cluster: Cluster, ref: Ref) -> Obj:
    async def ready() -> Obj | None:
        pod = await cluster.get(ref)
        conditions = dig(pod, "status", "conditions", default=[])
        return pod if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions) else None

    return await waits.poll(ready, what=f"{ref} is ready", every=0.5, within=PODS_WITHIN_S)


async def _workers(cluster: Cluster) -> list[str]:
    """Ready nodes that take ordinary pods."""
    nodes = await cluster.list(Selection(kind=NODE))
    return [node["metadata"]["name"] for node in nodes if _takes_pods(node)]


def _takes_pods(node: Obj) -> bool:
    conditions = dig(node, "status", "conditions", default=[])
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    tainted = any(taint["effect"] != "PreferNoSchedule" for taint in dig(node, "spec", "taints", default=[]))
    control_plane = CONTROL_PLANE_LABEL in dig(node, "metadata", "labels", default={})
    return ready and not tainted and not control_plane and not dig(node, "spec", "unschedulable", default=False)


async def manifests(cluster: Cluster) -> list[Obj]:
    """The probe's objects, of images that the nodes have: CoreDNS listens, the storage helper has a shell."""
    dns = await cluster.get(Ref(DEPLOYMENT, "coredns", "kube-system"))
    helper = await cluster.find(Ref(CONFIGMAP, "local-path-config", "local-path-storage"))
    template: Any = yaml.safe_load(dig(helper, "data", "helperPod.yaml", default="") or "{}")
    client = dig(template, "spec", "containers", 0, "image", default=FALLBACK_CLIENT)
    text = MANIFEST.read_text(encoding="utf-8")
    text = text.replace("@SERVER@", dns["spec"]["template"]["spec"]["containers"][0]["image"]).replace(
        "@CLIENT@", client
    )
    return list(yaml.safe_load_all(text))


async def _stays_true_for(handle: ClusterHandle, cluster: Cluster) -> str:
    """Name of what the answers depend on."""
    if handle.node_image_id is not None:
        parts = [handle.node_image_id, platform.release(), str(len(handle.workers))]
    else:
        parts = [str(dig(await cluster.get(Ref(NAMESPACE, "kube-system")), "metadata", "uid"))]
    parts.append(fingerprint_of(paths=[Path(__file__), MANIFEST]))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:KEY_LENGTH]


def _read(file: Path) -> Capabilities | None:
    try:
        return MappingProxyType(_STORED.validate_json(file.read_bytes()))
    except (OSError, ValueError):
        return None
