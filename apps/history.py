"""Earlier revisions for every workload, as a system has that was not installed this morning.

A fault that edits a Deployment leaves it with a second revision; if it were the only one with a history, the history
would be the answer. So each gets two earlier ones that a colleague could have left: less CPU asked for, and the same
once more before a restart. Rolling back to either is harmless. They are old ReplicaSets at zero, owned by the
Deployment; its controller adopts them and counts its own revision on.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

import anyio

from sregym.api import Obj, Selection, dig
from sregym.cluster.contract import Cluster
from sregym.cluster.objects import DEPLOYMENT, REPLICASET, path_of
from sregym.cluster.tasks import first_error
from sregym.errors import Conflict

HASH = "pod-template-hash"
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Kubernetes' own for such hashes: no vowels (apimachinery util/rand)."""
CONTROLLER = {"fieldManager": "kube-controller-manager"}
AT_ONCE = 8
EARLIER = ({"cpu": "50m"}, {"cpu": "80m"})
"""Requests of the earlier revisions, oldest first."""


async def give_history(cluster: Cluster, namespace: str, names: Collection[str]) -> None:
    """Gives the named Deployments, just made, their earlier revisions. Repeating it changes nothing."""
    limit = anyio.CapacityLimiter(AT_ONCE)

    async def make(revision: Obj) -> None:
        async with limit:
            try:
                await cluster.raw("POST", path_of(REPLICASET, namespace), query=CONTROLLER, body=revision)
            except Conflict:
                return  # there from an earlier deployment of the same app

    found = await cluster.list(Selection(kind=DEPLOYMENT, namespace=namespace))
    with first_error():
        async with anyio.create_task_group() as group:
            for deployment in found:
                if deployment["metadata"]["name"] in names:
                    for revision in earlier_revisions(deployment):
                        group.start_soon(make, revision)


def earlier_revisions(deployment: Obj) -> list[Obj]:
    """The ReplicaSets that earlier versions of a Deployment would have left, oldest first."""
    return [_replica_set(deployment, number, requests) for number, requests in enumerate(EARLIER, start=1)]


def _replica_set(deployment: Obj, number: int, requests: Mapping[str, str]) -> Obj:
    template = copy.deepcopy(deployment["spec"]["template"])
    for container in template["spec"]["containers"]:
        container.setdefault("resources", {})["requests"] = dict(requests)
    tag = _hash(template)
    labels = {**deployment["spec"]["selector"]["matchLabels"], HASH: tag}
    template["metadata"] = {**template.get("metadata", {}), "labels": {**template["metadata"]["labels"], HASH: tag}}
    meta = deployment["metadata"]
    replicas = dig(deployment, "spec", "replicas", default=1)
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{meta['name']}-{tag}",
            "namespace": meta["namespace"],
            "labels": labels,
            "annotations": {
                "deployment.kubernetes.io/desired-replicas": str(replicas),
                "deployment.kubernetes.io/max-replicas": str(_most(deployment, replicas)),
                "deployment.kubernetes.io/revision": str(number),
            },
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "name": meta["name"],
                    "uid": meta["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }


def _most(deployment: Obj, replicas: int) -> int:
    """How many pods a roll-out may have at once: one more than wanted, unless old ones go first."""
    return replicas if dig(deployment, "spec", "strategy", "type") == "Recreate" else replicas + 1


def _hash(template: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).digest()
    return "".join(ALPHABET[byte % len(ALPHABET)] for byte in digest[:10])
