"""Volumes for claims at once, where the cluster's own provisioner would take its time.

The local-path provisioner starts a helper pod for each claim, one after another: 6 to 10 s for an app with six stores.
What comes out is a directory on a node. On clusters whose default class is that provisioner's, the same volumes are
written here in the provisioner's form, before any pod wants them; it removes them later, as its own. Everywhere else,
and for every claim that is made afterwards, the cluster provisions as usual.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sregym.api import Obj, Selection, configmap, dig
from sregym.cluster import waits
from sregym.cluster.contract import Cluster, Reader
from sregym.cluster.objects import NODE, PVC, Kind

STORAGE_CLASS = Kind("storage.k8s.io/v1", "StorageClass", "storageclasses", namespaced=False)
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
LOCAL_PATH = "rancher.io/local-path"
PROVISIONER_CONFIG = configmap("local-path-config", "local-path-storage")
EVERY_NODE = "DEFAULT_PATH_FOR_NON_LISTED_NODES"
BOUND_WITHIN_S = 30.0


@dataclass(frozen=True, kw_only=True)
class LocalPath:
    """The provisioner as it is set up: its class, the folder on nodes, and the nodes that pods may go to."""

    storage_class: str
    folder: str
    nodes: Sequence[str]


async def bind_claims(cluster: Cluster, namespace: str, names: Sequence[str]) -> bool:
    """Gives existing claims their volumes, spread over the nodes. False where that is left to the cluster.

    Raises WaitTimeout where the claims do not become bound.
    """
    setup = await local_path(cluster) if names else None
    if setup is None:
        return False
    claims = await _claims(cluster, namespace, names)
    for number, claim in enumerate(claims):
        if dig(claim, "spec", "volumeName") is None:
            await cluster.apply([volume_for(claim, setup, node=setup.nodes[number % len(setup.nodes)])])

    async def bound() -> bool | None:
        phases = [dig(one, "status", "phase") for one in await _claims(cluster, namespace, names)]
        return True if all(phase == "Bound" for phase in phases) else None

    await waits.poll(bound, what=f"claims in {namespace} bound", every=0.1, within=BOUND_WITHIN_S)
    return True


async def local_path(reader: Reader) -> LocalPath | None:
    """The provisioner's setup, if it is the default here and says where its volumes are."""
    classes = await reader.list(Selection(kind=STORAGE_CLASS))
    default = [one for one in classes if dig(one, "metadata", "annotations", DEFAULT_CLASS) == "true"]
    if len(default) != 1 or default[0].get("provisioner") != LOCAL_PATH:
        return None
    found = await reader.find(PROVISIONER_CONFIG)
    folder = folder_of(dig(found, "data", "config.json", default=""))
    nodes = [one["metadata"]["name"] for one in await reader.list(Selection(kind=NODE)) if takes_pods(one)]
    if folder is None or not nodes:
        return None
    return LocalPath(storage_class=default[0]["metadata"]["name"], folder=folder, nodes=sorted(nodes))


def folder_of(config: str) -> str | None:
    """The folder that the provisioner uses on every node; None where nodes differ or nothing is said."""
    try:
        entries = json.loads(config)["nodePathMap"]
        folders = {entry["node"]: entry["paths"][0] for entry in entries}
    except (ValueError, KeyError, IndexError, TypeError):
        return None
    return folders.get(EVERY_NODE) if len(folders) == 1 else None


def takes_pods(node: Obj) -> bool:
    """Whether ordinary pods may be scheduled to a node: ready, not cordoned, not tainted."""
    taints = {taint["effect"] for taint in dig(node, "spec", "taints", default=[])}
    ready = any(
        one["type"] == "Ready" and one["status"] == "True" for one in dig(node, "status", "conditions", default=[])
    )
    return ready and not dig(node, "spec", "unschedulable") and not taints & {"NoSchedule", "NoExecute"}


def volume_for(claim: Obj, setup: LocalPath, *, node: str) -> Obj:
    """The volume that the provisioner would make for a claim whose pod is on that node."""
    meta = claim["metadata"]
    name = f"pvc-{meta['uid']}"
    hostname = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "annotations": {
                "local.path.provisioner/selected-node": node,
                "pv.kubernetes.io/provisioned-by": LOCAL_PATH,
            },
        },
        "spec": {
            "accessModes": claim["spec"]["accessModes"],
            "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "name": meta["name"],
                "namespace": meta["namespace"],
                "uid": meta["uid"],
            },
            "hostPath": {
                "path": f"{setup.folder}/{name}_{meta['namespace']}_{meta['name']}",
                "type": "DirectoryOrCreate",
            },
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": setup.storage_class,
            "volumeMode": "Filesystem",
        },
    }


async def _claims(reader: Reader, namespace: str, names: Sequence[str]) -> list[Obj]:
    found = await reader.list(Selection(kind=PVC, namespace=namespace))
    return [one for one in found if one["metadata"]["name"] in names]
