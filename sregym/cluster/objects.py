"""References to Kubernetes objects, and the JSON that the API speaks.

Objects are plain JSON mappings as the API server sends them: the client library's models are slow and lose unknown
fields. Small readers for the fields that many checks need stand here, so that nobody digs by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Obj = dict[str, Any]
"""One Kubernetes object as JSON."""

Objs = list[Obj]
"""For classes that have a method named `list`."""


@dataclass(frozen=True, order=True)
class Kind:
    """A resource type: `api_version` such as `apps/v1`, `name` such as `Deployment`, and its plural in URLs."""

    api_version: str
    name: str
    plural: str
    namespaced: bool = True

    def __str__(self) -> str:
        return self.name


DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments")
STATEFULSET = Kind("apps/v1", "StatefulSet", "statefulsets")
DAEMONSET = Kind("apps/v1", "DaemonSet", "daemonsets")
REPLICASET = Kind("apps/v1", "ReplicaSet", "replicasets")
POD = Kind("v1", "Pod", "pods")
SERVICE = Kind("v1", "Service", "services")
CONFIGMAP = Kind("v1", "ConfigMap", "configmaps")
SECRET = Kind("v1", "Secret", "secrets")
SERVICEACCOUNT = Kind("v1", "ServiceAccount", "serviceaccounts")
PVC = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
PV = Kind("v1", "PersistentVolume", "persistentvolumes", namespaced=False)
EVENT = Kind("v1", "Event", "events")
NAMESPACE = Kind("v1", "Namespace", "namespaces", namespaced=False)
NODE = Kind("v1", "Node", "nodes", namespaced=False)
RESOURCEQUOTA = Kind("v1", "ResourceQuota", "resourcequotas")
LIMITRANGE = Kind("v1", "LimitRange", "limitranges")
ENDPOINTSLICE = Kind("discovery.k8s.io/v1", "EndpointSlice", "endpointslices")
NETWORKPOLICY = Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
INGRESS = Kind("networking.k8s.io/v1", "Ingress", "ingresses")
ROLE = Kind("rbac.authorization.k8s.io/v1", "Role", "roles")
ROLEBINDING = Kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
CLUSTERROLE = Kind("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", namespaced=False)
CLUSTERROLEBINDING = Kind("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)
JOB = Kind("batch/v1", "Job", "jobs")
CRONJOB = Kind("batch/v1", "CronJob", "cronjobs")
HPA = Kind("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
PDB = Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
CRD = Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
STORAGECLASS = Kind("storage.k8s.io/v1", "StorageClass", "storageclasses", namespaced=False)
PRIORITYCLASS = Kind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", namespaced=False)
LEASE = Kind("coordination.k8s.io/v1", "Lease", "leases")
VALIDATING_WEBHOOK = Kind(
    "admissionregistration.k8s.io/v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)
MUTATING_WEBHOOK = Kind(
    "admissionregistration.k8s.io/v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    namespaced=False,
)
VALIDATING_POLICY = Kind(
    "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False
)
VALIDATING_POLICY_BINDING = Kind(
    "admissionregistration.k8s.io/v1",
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    namespaced=False,
)

KNOWN_KINDS: dict[tuple[str, str], Kind] = {
    (kind.api_version, kind.name): kind for kind in list(globals().values()) if isinstance(kind, Kind)
}
"""The kinds above by apiVersion and kind; whatever else a cluster serves is asked of its discovery."""


@dataclass(frozen=True, order=True)
class Ref:
    """Names one object. `namespace` None means the app's namespace (or none at all for cluster-scoped kinds)."""

    kind: Kind
    name: str
    namespace: str | None = None

    def within(self, namespace: str) -> Ref:
        """The same reference with its namespace filled in."""
        if self.namespace is not None or not self.kind.namespaced:
            return self
        return Ref(self.kind, self.name, namespace)

    def __str__(self) -> str:
        place = f" in {self.namespace}" if self.namespace else ""
        return f"{self.kind.name} {self.name}{place}"


def deployment(name: str, namespace: str | None = None) -> Ref:
    return Ref(DEPLOYMENT, name, namespace)


def service(name: str, namespace: str | None = None) -> Ref:
    return Ref(SERVICE, name, namespace)


def configmap(name: str, namespace: str | None = None) -> Ref:
    return Ref(CONFIGMAP, name, namespace)


def pod(name: str, namespace: str | None = None) -> Ref:
    return Ref(POD, name, namespace)


def node(name: str) -> Ref:
    return Ref(NODE, name)


def path_of(kind: Kind, namespace: str | None = None, name: str | None = None) -> str:
    """The URL path of a collection or, with a name, of an object."""
    root = f"/apis/{kind.api_version}" if "/" in kind.api_version else f"/api/{kind.api_version}"
    place = f"/namespaces/{namespace}" if namespace and kind.namespaced else ""
    return f"{root}{place}/{kind.plural}" + (f"/{name}" if name else "")


def uid_of(obj: Mapping[str, Any]) -> str:
    return str(dig(obj, "metadata", "uid", default=""))


def dig(obj: Mapping[str, Any] | None, *path: str | int, default: Any = None) -> Any:
    """The value at a path of keys and indices, or `default` where any step is missing."""
    here: Any = obj
    for step in path:
        try:
            here = here[step]
        except (KeyError, IndexError, TypeError):
            return default
    return default if here is None else here


def ref_of(obj: Mapping[str, Any], kind: Kind) -> Ref:
    """The reference of an object that was read."""
    meta = obj["metadata"]
    return Ref(kind, meta["name"], meta.get("namespace"))


def is_owned(pod: Mapping[str, Any]) -> bool:
    """Whether a controller makes the pod again when it is deleted."""
    return bool(dig(pod, "metadata", "ownerReferences"))


def labels_of(obj: Mapping[str, Any]) -> dict[str, str]:
    return dict(dig(obj, "metadata", "labels", default={}))


def matches(selector: Mapping[str, str], obj: Mapping[str, Any]) -> bool:
    """Whether the object's labels satisfy an equality selector. An empty selector matches nothing, as in Services."""
    labels = labels_of(obj)
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())
