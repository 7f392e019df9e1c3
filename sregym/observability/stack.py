"""What the stack consists of, as objects, and how it gets into a cluster.

Manifests name images by a key of `images.yaml` and mount configuration from ConfigMaps that are made of the folders
under `config`. Everything keeps its data in `emptyDir`s, so that a pod that is deleted comes back empty.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

from sregym.cluster import waits
from sregym.cluster.contract import Cluster, Selection
from sregym.cluster.objects import CONFIGMAP, DAEMONSET, DEPLOYMENT, SERVICE, SERVICEACCOUNT, Obj, Objs, dig, ref_of
from sregym.errors import DefinitionError
from sregym.events import Emit, silent

NAMESPACE = "observe"
HERE = Path(__file__).parent
MANIFESTS = HERE / "manifests"
CONFIG = HERE / "config"
READY_WITHIN_S = 180.0
LOOK_EVERY_S = 1.0
Profile = Literal["lite", "full"]
NAME = "app.kubernetes.io/name"
CONFIG_OF: Mapping[str, tuple[str, ...]] = {
    "prometheus": ("prometheus-config", "prometheus-rules"),
    "loki": ("loki-config",),
    "promtail": ("promtail-config",),
}
"""Workload -> the ConfigMaps that it reads at its start."""
CONFIG_FOLDERS = {
    "prometheus-config": "prometheus",
    "prometheus-rules": "prometheus-rules",
    "loki-config": "loki",
    "promtail-config": "promtail",
}
DISCOVERY = "http://127.0.0.1:9099"
"""Where the container `service-discovery` serves Prometheus, beside which it runs."""
DISCOVERED_EVERY = "2s"
PRUNED = (DEPLOYMENT, DAEMONSET, SERVICE, CONFIGMAP, SERVICEACCOUNT)
WORKLOADS = (DEPLOYMENT, DAEMONSET)
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


def objects(profile: Profile) -> Objs:
    """Everything that the stack consists of, in an order in which it can be applied."""
    images, configs = images_of(profile), _configs(profile)
    found: Objs = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, *configs.values()]
    for obj in _manifests(profile):
        if obj["kind"] in ("Deployment", "DaemonSet"):
            _complete(obj, images, configs)
        found.append(obj)
    return sorted(found, key=lambda obj: obj["kind"] in ("Deployment", "DaemonSet", "APIService"))


async def install(cluster: Cluster, profile: Profile, *, emit: Emit = silent) -> Objs:
    """Brings the stack into the cluster, or back to what it should be, and waits until all of it is ready.

    Returns its objects. Raises WaitTimeout where it does not become ready.
    """
    wanted = objects(profile)
    await cluster.apply(wanted)
    await _prune(cluster, wanted)
    emit("observability.applied", objects=len(wanted))
    last = [""]

    async def ready() -> bool | None:
        last[0] = await unready(cluster)
        return None if last[0] else True

    await waits.poll(ready, what="the observability stack is ready", every=LOOK_EVERY_S, within=READY_WITHIN_S)
    emit("observability.ready")
    return wanted


async def unready(cluster: Cluster) -> str:
    """What of the stack is not rolled out and ready; empty where all is."""
    found: list[str] = []
    for kind in WORKLOADS:
        for obj in await cluster.list(Selection(kind=kind, namespace=NAMESPACE)):
            if reason := _unready(obj):
                found.append(f"{kind.name} {obj['metadata']['name']}: {reason}")
    return "; ".join(found)


def _unready(obj: Obj) -> str:
    status = obj.get("status") or {}
    if status.get("observedGeneration", 0) < dig(obj, "metadata", "generation", default=0):
        return "its controller has not seen it yet"
    if obj["kind"] == DEPLOYMENT.name:
        wanted, updated = dig(obj, "spec", "replicas", default=1), status.get("updatedReplicas", 0)
        available = status.get("availableReplicas", 0)
    else:
        if "desiredNumberScheduled" not in status:
            return "its controller has not seen it yet"
        wanted, updated = status["desiredNumberScheduled"], status.get("updatedNumberScheduled", 0)
        available = status.get("numberAvailable", 0)
    return "" if min(updated, available) >= wanted else f"{available} of {wanted} available, {updated} up to date"


async def _prune(cluster: Cluster, wanted: Objs) -> None:
    """Removes what an earlier version of the stack had and this one has not."""
    kept = {(obj["kind"], obj["metadata"]["name"]) for obj in wanted}
    for kind in PRUNED:
        for obj in await cluster.list(Selection(kind=kind, namespace=NAMESPACE)):
            name = obj["metadata"]["name"]
            if (kind.name, name) not in kept and name not in ("kube-root-ca.crt", "default"):
                await cluster.delete(ref_of(obj, kind))


def images_of(profile: Profile) -> Mapping[str, str]:
    """The references of a profile's images by the key that manifests name them by."""
    return {key: refs[profile] for key, refs in _images().items() if profile in refs}


@cache
def _images() -> Mapping[str, Mapping[str, str]]:
    table: Mapping[str, Mapping[str, str]] = yaml.safe_load((HERE / "images.yaml").read_text(encoding="utf-8"))
    return table


def _manifests(profile: Profile) -> Iterator[Obj]:
    for path in sorted(MANIFESTS.glob("*.yaml")):
        _, _, of = path.stem.partition(".")
        if of in ("", profile):
            yield from copy.deepcopy(_documents(path))


@cache
def _documents(path: Path) -> Objs:
    return [obj for obj in yaml.safe_load_all(path.read_text(encoding="utf-8")) if obj]


def _configs(profile: Profile) -> dict[str, Obj]:
    used = {name for obj in _manifests(profile) for name in CONFIG_OF.get(obj["metadata"]["name"], ())}
    found = {name: _config_map(name, CONFIG / folder) for name, folder in CONFIG_FOLDERS.items() if name in used}
    if profile == "lite":
        data = found["prometheus-config"]["data"]
        data["prometheus.yml"] = _with_http_discovery(data["prometheus.yml"])
    return found


def _with_http_discovery(text: str) -> str:
    """Prometheus's configuration with targets from `service-discovery`, where its own Kubernetes discovery is not in.

    See `http_sd_configs` in Prometheus's documentation; the labels are the same.
    """
    config = yaml.safe_load(text)
    for scraped in config["scrape_configs"]:
        (found,) = scraped.pop("kubernetes_sd_configs")
        url = f"{DISCOVERY}/{found['role']}s"
        if names := dig(found, "namespaces", "names", default=[]):
            (name,) = names
            url += f"?namespace={name}"
        scraped["http_sd_configs"] = [{"url": url, "refresh_interval": DISCOVERED_EVERY}]
    return yaml.safe_dump(config, sort_keys=False, width=1000)


def _config_map(name: str, folder: Path) -> Obj:
    data = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.iterdir()) if path.is_file()}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "data": data,
    }


def _complete(obj: Obj, images: Mapping[str, str], configs: Mapping[str, Obj]) -> None:
    """Fills in what no manifest says: images, the digest of the configuration, and where pods should run."""
    template, name = obj["spec"]["template"], obj["metadata"]["name"]
    pod = template["spec"]
    if unknown := {container["image"] for container in pod["containers"]} - _images().keys():
        raise DefinitionError(f"{name}: images.yaml has no {', '.join(sorted(unknown))}")
    pod["containers"] = [container for container in pod["containers"] if container["image"] in images]
    for container in pod["containers"]:
        container["image"] = images[container["image"]]
        container["imagePullPolicy"] = "IfNotPresent"
    if read := CONFIG_OF.get(name):
        text = json.dumps([configs[one]["data"] for one in read], sort_keys=True)
        # A pod reads its configuration once, so another configuration must be another template.
        template["metadata"]["annotations"] = {"checksum/config": hashlib.sha256(text.encode()).hexdigest()}
    if obj["kind"] == DEPLOYMENT.name:
        template["spec"] |= _placement()


def _placement() -> dict[str, Any]:
    """Away from the applications where that is possible, so that what befalls a worker does not befall the stack."""
    preferred = {"matchExpressions": [{"key": CONTROL_PLANE, "operator": "Exists"}]}
    return {
        # Of everything: a taint that somebody puts on its node must not evict it.
        "tolerations": [{"operator": "Exists"}],
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": preferred}]
            }
        },
    }


def service_path(service: str, port: int, path: str, *, namespace: str = NAMESPACE) -> str:
    """The API server's way to a Service, of the stack unless said otherwise."""
    return f"/api/v1/namespaces/{namespace}/services/{service}:{port}/proxy/{path.lstrip('/')}"
