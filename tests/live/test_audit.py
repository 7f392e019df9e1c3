"""The collector on a real cluster: leaks planted among real objects are seen with the agent's rights, and no others."""

from __future__ import annotations

import base64
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest

from sregym.api import Topology
from sregym.audit import Evidence, Vocabulary, examine
from sregym.audit.collect import Scene, agent_client, collect
from sregym.cluster.client import KubeCluster
from sregym.cluster.contract import PatchType
from sregym.cluster.namespaces import remove_namespaces
from sregym.cluster.objects import SERVICE, Obj, Ref
from sregym.gateway.access import access_objects
from sregym.gateway.upstream import ClusterAccess
from tests.contract.conftest import kubeconfig_of
from tests.flow.toy import TOPOLOGY, Shop

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]

WORDS = Vocabulary(own=("sregym",), problems=("wrong_target_port",))
NAMES = ("web", "cart", "stock", "mail", "search")


@dataclass(frozen=True, kw_only=True)
class PlacedShop(Shop):
    """A shop in a namespace of its own."""

    place: str

    @property
    def topology(self) -> Topology:
        return TOPOLOGY.model_copy(update={"namespace": self.place})


def service(name: str) -> Obj:
    spec = {"selector": {"app": name}, "ports": [{"port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec}


@pytest.fixture
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[KubeCluster]:
    async with KubeCluster.connect(kubeconfig_of(request.config)) as made:
        yield made


@pytest.fixture
async def shop(cluster: KubeCluster) -> AsyncIterator[PlacedShop]:
    app = PlacedShop(place=f"shop-{uuid.uuid4().hex[:6]}")
    await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": app.namespace}})
    try:
        mine = [one for one in access_objects([app.namespace]) if one["metadata"].get("namespace") == app.namespace]
        await cluster.apply([*access_objects([]), *mine])
        for name in NAMES:
            await create(cluster, app, service(name))
        yield app
    finally:
        await remove_namespaces(cluster, [app.namespace])


async def create(cluster: KubeCluster, app: PlacedShop, obj: Obj) -> None:
    await cluster.create({**obj, "metadata": {**obj["metadata"], "namespace": app.namespace}})


async def look(request: pytest.FixtureRequest, cluster: KubeCluster, app: PlacedShop, at: datetime) -> Evidence:
    async with agent_client(ClusterAccess(kubeconfig=kubeconfig_of(request.config), context=None)) as agent:
        made = [service(name) for name in NAMES]
        scene = Scene(cluster=cluster, agent=agent, app=app, nodes=None, made=made, changed_at=at)
        evidence = await collect(scene)
    return replace(evidence, objects=[one for one in evidence.objects if _of(one, app)], texts=())


def _of(obj: Obj, app: PlacedShop) -> bool:
    return app.namespace in (obj["metadata"].get("namespace"), obj["metadata"]["name"])


async def test_what_was_planted_is_found(
    request: pytest.FixtureRequest, cluster: KubeCluster, shop: PlacedShop
) -> None:
    await anyio.sleep(1)  # objects' ages are whole seconds
    clean = await look(request, cluster, shop, datetime.now(UTC))
    assert examine(clean, WORDS) == []

    at = datetime.now(UTC)
    helm = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "v1"}, "type": "helm.sh/release.v1"}
    telling = base64.b64encode(b"mode=WrongTargetPort by SREGym").decode()
    await create(cluster, shop, {**helm, "data": {"release": telling}})
    await create(cluster, shop, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fault-injector"}})
    await cluster.delete(Ref(SERVICE, "mail", shop.namespace))
    await create(cluster, shop, service("mail"))
    web: dict[str, Any] = {"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": _old()}}}
    await cluster.patch(Ref(SERVICE, "web", shop.namespace), web, PatchType.MERGE)
    await _may_read_secrets(cluster, shop)
    found = {one.rule for one in examine(await look(request, cluster, shop, at), WORDS)}
    assert found == {
        "own-names",
        "problem-names",
        "fault-words",
        "healthy-value",
        "release-record",
        "lone-helper",
        "made-anew",
        "stands-out",
        "pod-rights",
    }


def _old() -> str:
    return '{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"},"spec":{"ports":[{"port":8080}]}}'


async def _may_read_secrets(cluster: KubeCluster, app: PlacedShop) -> None:
    group = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": {"name": "reader"}, "rules": rules}
    account = {"kind": "ServiceAccount", "name": "default", "namespace": app.namespace}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "reader"},
        "subjects": [account],
    }
    for obj in (role, binding):
        await create(cluster, app, obj)
