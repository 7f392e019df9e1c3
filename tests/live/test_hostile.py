"""The hostile requests of `tests.support.hostile` against a real API server, with a namespace that is hidden."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from sregym.cluster.client import KubeCluster
from sregym.cluster.namespaces import remove_namespaces
from sregym.cluster.objects import CLUSTERROLEBINDING, Kind, Obj, Ref
from sregym.gateway.access import access_objects
from sregym.gateway.hiding import Hidden
from sregym.gateway.identity import Identity, TokenGate
from sregym.gateway.serve import serving_kube
from sregym.gateway.upstream import ClusterAccess
from sregym.gateway.web import tcp_socket
from tests.contract.conftest import kubeconfig_of
from tests.support.hostile import HIDDEN, MARKER, TOKEN, VISIBLE, Hostile, corpus, request
from tests.support.wire import send_raw

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

LOOPBACK = "127.0.0.1"
AT_ONCE = 8
EVENT = Kind("v1", "Event", "events")
VOLUME = Kind("v1", "PersistentVolume", "persistentvolumes", namespaced=False)
LEFT = (Ref(CLUSTERROLEBINDING, MARKER), Ref(VOLUME, MARKER), Ref(EVENT, "told-in-default", "default"))


def things() -> list[Obj]:
    """Everything that could speak of the hidden namespace; all of it bears MARKER."""

    def obj(kind: str, api: str = "v1", name: str = MARKER, namespace: str | None = HIDDEN, **more: Any) -> Obj:
        meta = {"name": name, "labels": {"is": MARKER}, **({"namespace": namespace} if namespace else {})}
        return {"apiVersion": api, "kind": kind, "metadata": meta, **more}

    container = {"name": "main", "image": f"registry.internal/{MARKER}:1"}
    gated = {"containers": [container], "schedulingGates": [{"name": "example.com/wait"}]}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": gated}
    about = {"kind": "Pod", "namespace": HIDDEN, "name": MARKER}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    account = {"kind": "ServiceAccount", "name": MARKER, "namespace": HIDDEN}
    disk = {"csi": {"driver": "none.example.com", "volumeHandle": MARKER}, "accessModes": ["ReadWriteOnce"]}
    rbac = "rbac.authorization.k8s.io/v1"
    return [
        obj("Namespace", name=HIDDEN, namespace=None),
        obj("Namespace", name=VISIBLE, namespace=None) | {"metadata": {"name": VISIBLE}},
        obj("ConfigMap", data={"a": MARKER}),
        obj("ServiceAccount"),
        obj("Service", spec={"ports": [{"port": 80}], "selector": {"a": "b"}}),
        obj("Pod", spec=gated),
        obj("Deployment", "apps/v1", spec={"selector": {"matchLabels": {"a": "b"}}, "template": template}),
        obj("Lease", "coordination.k8s.io/v1", spec={"holderIdentity": MARKER}),
        obj("RoleBinding", rbac, subjects=[account], roleRef=role),
        obj("Event", involvedObject=about, message=MARKER, reason="Told", type="Normal"),
        obj("ClusterRoleBinding", rbac, namespace=None, subjects=[account], roleRef=role),
        obj(
            "PersistentVolume",
            namespace=None,
            spec={**disk, "capacity": {"storage": "1Gi"}, "claimRef": {"namespace": HIDDEN, "name": "data"}},
        ),
        obj(
            "Event",
            name="told-in-default",
            namespace="default",
            involvedObject={"kind": "Namespace", "name": HIDDEN},
            message=f"{MARKER} in {HIDDEN}",
            reason="Told",
            type="Normal",
        ),
    ]


@asynccontextmanager
async def furnished(cluster: KubeCluster) -> AsyncIterator[None]:
    """The two namespaces and what is in them; removed afterwards."""
    try:
        for obj in things():
            await cluster.apply([obj])
        await cluster.apply(access_objects([VISIBLE]))
        yield
    finally:
        with anyio.CancelScope(shield=True):
            for ref in LEFT:
                await cluster.delete(ref)
            await remove_namespaces(cluster, [HIDDEN, VISIBLE])


def trouble_of(case: Hostile, status: int, raw: bytes) -> str | None:
    if MARKER.encode() in raw.replace(request_line_of(case), b""):
        return f"shows what is hidden: {raw[:300]!r}"
    fit = status == case.code if case.code is not None else status in (*case.live, 406)
    return None if fit else f"status {status}, not {case.code or sorted(case.live)}: {raw[-250:]!r}"


def request_line_of(case: Hostile) -> bytes:
    """A refusal may quote the name that was asked for."""
    return f'"{MARKER}"'.encode() if case.code == 404 or b"fieldSelector" in case.raw else b"\0"


async def test_hostile_requests(request_of_pytest: pytest.FixtureRequest) -> None:
    access = ClusterAccess(kubeconfig=kubeconfig_of(request_of_pytest.config))
    crashes, wrong = list[str](), dict[str, str]()
    slots = anyio.CapacityLimiter(AT_ONCE)

    def note(name: str, /, **data: Any) -> None:
        if name in ("kube.crashed", "kube.unreachable"):
            crashes.append(str(data))

    async with KubeCluster.connect(access.kubeconfig) as cluster, furnished(cluster):
        everything = await cluster.raw("GET", "/api/v1/pods")
        assert MARKER in str(everything)  # it is there for those who may see it
        hidden = Hidden(namespaces=frozenset({HIDDEN}), images=frozenset({f"registry.internal/{MARKER}"}))
        sockets = [tcp_socket(LOOPBACK, 0)]
        async with serving_kube(access, TokenGate(TOKEN), Identity(), sockets, note, hidden) as port:
            assert port

            async def play(case: Hostile) -> None:
                async with slots:
                    method = case.raw.split(b" ", 1)[0].decode("latin-1")
                    reply = await send_raw(LOOPBACK, port, case.raw, method=method)
                if trouble := trouble_of(case, reply.status, reply.raw):
                    wrong[case.id] = trouble

            async with anyio.create_task_group() as tasks:
                for case in corpus():
                    tasks.start_soon(play, case)
            after = await send_raw(LOOPBACK, port, request("/version"))
    assert not wrong, "\n".join(f"{name}: {trouble}" for name, trouble in wrong.items())
    assert (crashes, after.status) == ([], 200)


@pytest.fixture
def request_of_pytest(request: pytest.FixtureRequest) -> pytest.FixtureRequest:
    return request
