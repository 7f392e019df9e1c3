"""What people mean by an object, told from what the API server, controllers and nodes write into it by themselves.

Two worlds are equal when every object that counts is equal in this form. The lists come from looking at a live
cluster over time; each rule names who writes the field that it leaves out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from sregym.cluster.objects import (
    CLUSTERROLE,
    CONFIGMAP,
    DAEMONSET,
    DEPLOYMENT,
    NAMESPACE,
    NODE,
    POD,
    PVC,
    SECRET,
    SERVICE,
    SERVICEACCOUNT,
    STATEFULSET,
    Kind,
    Obj,
    dig,
)

SERVER_META = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
    "generateName",
)
CONTROLLERS_ANNOTATIONS = frozenset(
    {
        "deployment.kubernetes.io/revision",  # deployment controller
        "deprecated.daemonset.template.generation",  # API server
        "pv.kubernetes.io/bind-completed",  # volume binder
        "pv.kubernetes.io/bound-by-controller",
        "volume.kubernetes.io/selected-node",  # scheduler
        "volume.kubernetes.io/storage-provisioner",
        "volume.beta.kubernetes.io/storage-provisioner",
        "volumes.kubernetes.io/controller-managed-attach-detach",  # kubelet
        "node.alpha.kubernetes.io/ttl",  # node ttl controller
        "csi.volume.kubernetes.io/nodeid",  # kubelet
        "control-plane.alpha.kubernetes.io/leader",  # leader election in ConfigMaps
        "endpoints.kubernetes.io/last-change-trigger-time",
    }
)
RESTART_ANNOTATION = "kubectl.kubernetes.io/restartedAt"
"""A restart is not a change of what people mean; it stands in pod templates."""
UNCOUNTED_PLURALS = frozenset(
    {
        "endpointslices",  # from Services and pods
        "endpoints",
        "events",
        "leases",  # heartbeats and leader election
        "leasecandidates",
        "persistentvolumes",  # made by provisioners; the claims count
        "controllerrevisions",  # history of StatefulSets and DaemonSets
        "csinodes",  # kubelet
        "csistoragecapacities",
        "volumeattachments",
        "certificatesigningrequests",  # kubelets' own
        "ipaddresses",  # one for each Service address
        "resourceslices",
        "componentstatuses",
        "storageversions",
        "podtemplates",
    }
)
UNCOUNTED_GROUPS = ("metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io")
_SERVICE_ALLOCATED = ("clusterIP", "clusterIPs", "healthCheckNodePort")
_LIFECYCLE_TAINTS = "node.kubernetes.io/"
_TOKEN_TYPES = ("bootstrap.kubernetes.io/token",)


def meant(obj: Obj) -> Obj:
    """The object without status, the server's metadata and what controllers note in annotations."""
    result = {key: copy.deepcopy(value) for key, value in obj.items() if key != "status"}
    meta = {key: value for key, value in result["metadata"].items() if key not in SERVER_META}
    notes = {k: v for k, v in (meta.pop("annotations", None) or {}).items() if k not in CONTROLLERS_ANNOTATIONS}
    meta |= {"annotations": notes} if notes else {}
    for name in ("labels", "finalizers"):
        if not meta.get(name):
            meta.pop(name, None)
    result["metadata"] = meta
    return result


def kind_counts(kind: Kind) -> bool:
    """Whether objects of this kind are part of the world that is compared."""
    return kind.plural not in UNCOUNTED_PLURALS and kind.api_version.split("/")[0] not in UNCOUNTED_GROUPS


def counts(kind: Kind, obj: Obj) -> bool:
    """Whether this object is part of the world: not where a controller makes it again from what counts.

    Pods and ReplicaSets with a controller do not count; a bare one was put there by somebody and does.
    """
    meta = obj["metadata"]
    if any(owner.get("controller") for owner in meta.get("ownerReferences") or ()):
        return False
    if kind == POD and meta.get("namespace") == "local-path-storage" and meta["name"].startswith("helper-pod-"):
        return False  # the volume provisioner's own, gone in seconds; it makes or empties a volume's folder
    if kind == CONFIGMAP and meta["name"] == "kube-root-ca.crt":
        return False  # the root CA publisher's, in every namespace
    if kind == SECRET and obj.get("type") in _TOKEN_TYPES:
        return False  # kubeadm's join tokens expire and are removed
    automanaged = dig(obj, "metadata", "labels", "kube-aggregator.kubernetes.io/automanaged")
    return not (kind.plural == "apiservices" and automanaged)  # one for each built-in or custom group


def comparable(kind: Kind, obj: Obj) -> Obj:
    """The form in which two states of an object are compared."""
    result = meant(obj)
    result.pop("apiVersion", None)  # the server's preferred version may change; kind and content tell
    result["metadata"].pop("ownerReferences", None)
    if (rule := _RULES.get(kind)) is not None:
        rule(result)
    return result


def _service(obj: Obj) -> None:
    spec = obj.get("spec", {})
    for name in _SERVICE_ALLOCATED:
        if spec.get(name) not in ("None", ["None"]):
            spec.pop(name, None)
    for port in spec.get("ports") or ():
        port.pop("nodePort", None)


def _claim(obj: Obj) -> None:
    obj.get("spec", {}).pop("volumeName", None)


def _service_account(obj: Obj) -> None:
    obj.pop("secrets", None)


def _secret(obj: Obj) -> None:
    if obj.get("type") == "kubernetes.io/service-account-token":
        obj.pop("data", None)


def _config_map(obj: Obj) -> None:
    """kube-public/cluster-info carries a signature for each join token, which expires."""
    if obj.get("data"):
        obj["data"] = {k: v for k, v in obj["data"].items() if not k.startswith("jws-kubeconfig-")}


def _workload(obj: Obj) -> None:
    template = dig(obj, "spec", "template", "metadata", default={})
    notes = template.get("annotations")
    if notes:
        notes.pop(RESTART_ANNOTATION, None)
        if not notes:
            template.pop("annotations")
    template.pop("creationTimestamp", None)


def _node(obj: Obj) -> None:
    """Labels, taints and cordon are people's; taints about a node's condition are the node controller's."""
    spec = obj.get("spec", {})
    own = [taint for taint in spec.get("taints") or () if not taint["key"].startswith(_LIFECYCLE_TAINTS)]
    for taint in own:
        taint.pop("timeAdded", None)
    obj["spec"] = {"unschedulable": bool(spec.get("unschedulable")), "taints": sorted(own, key=lambda t: t["key"])}


def _cluster_role(obj: Obj) -> None:
    if obj.get("aggregationRule"):
        obj.pop("rules", None)  # filled in by the aggregation controller


def _pod(obj: Obj) -> None:
    """A bare pod is compared by what runs in it; the rest is filled in by admission and the scheduler."""
    containers = dig(obj, "spec", "containers", default=[])
    obj["spec"] = {
        "containers": [{key: c.get(key) for key in ("name", "image", "command", "args")} for c in containers]
    }


def _namespace(obj: Obj) -> None:
    obj.pop("spec", None)  # the finalizer of the namespace controller


_RULES: dict[Kind, Callable[[dict[str, Any]], None]] = {
    SERVICE: _service,
    PVC: _claim,
    SERVICEACCOUNT: _service_account,
    SECRET: _secret,
    CONFIGMAP: _config_map,
    DEPLOYMENT: _workload,
    STATEFULSET: _workload,
    DAEMONSET: _workload,
    NODE: _node,
    CLUSTERROLE: _cluster_role,
    POD: _pod,
    NAMESPACE: _namespace,
}
