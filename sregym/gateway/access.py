"""The rights of the agent's user: enough for every problem's repairs, and no way to more.

Inside the app's namespaces the user may do everything that RBAC can give without escalation (no `escalate`, `bind` or
`impersonate`; roles can be written only as far as the user's own rights go). Outside it may read what an on-call
engineer reads, and change what cluster-wide incidents need: nodes' labels and taints, CoreDNS, volumes and classes,
webhooks, RBAC of workloads. Secrets are readable in the app's namespaces only.

On a cluster that others use (`shared`) the rights end at our namespaces, and nothing outside them is made for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sregym.cluster.objects import Obj
from sregym.errors import DefinitionError
from sregym.gateway.identity import Identity
from sregym.gateway.policies import EXEMPT

RBAC = "rbac.authorization.k8s.io"
READ = ["get", "list", "watch"]
WRITE = ["create", "update", "patch", "delete", "deletecollection"]
CHANGE = ["update", "patch"]

_CORE_READABLE = [
    "bindings",
    "componentstatuses",
    "configmaps",
    "endpoints",
    "events",
    "limitranges",
    "namespaces",
    "namespaces/status",
    "nodes",
    "nodes/status",
    "persistentvolumeclaims",
    "persistentvolumeclaims/status",
    "persistentvolumes",
    "persistentvolumes/status",
    "pods",
    "pods/log",
    "pods/status",
    "podtemplates",
    "replicationcontrollers",
    "resourcequotas",
    "resourcequotas/status",
    "serviceaccounts",
    "services",
    "services/status",
]
"""The core group without Secrets, and without node and pod proxies."""
_GROUPS_READABLE = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "metrics.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "pingcap.com",
    RBAC,
    "scheduling.k8s.io",
    "storage.k8s.io",
]


def access_objects(namespaces: Sequence[str], *, shared: bool = False, identity: Identity | None = None) -> list[Obj]:
    """Manifests that give the agent's user its rights; the namespaces must exist when they are applied.

    Raises DefinitionError for a namespace in which pods are not held to the rules of `pod_rules`.
    """
    if within := sorted({*namespaces} & {*EXEMPT}):
        raise DefinitionError(f"no application may stand in {', '.join(within)}: what runs there may reach the nodes")
    who = identity or Identity()
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": who.user}]
    if shared:
        return [
            obj
            for namespace in namespaces
            for obj in (
                _held(namespace),
                _role("Role", who.user, _inside_only(), namespace),
                _binding("RoleBinding", who.user, "Role", who.user, subjects, namespace),
            )
        ]
    objects: list[Obj] = [_role("ClusterRole", who.user + "-admin", _inside())]
    for namespace in namespaces:
        objects.append(_binding("RoleBinding", who.user, "ClusterRole", who.user + "-admin", subjects, namespace))
    objects += [
        _role("ClusterRole", who.user, [*_reading(), *_cluster_wide()]),
        _binding("ClusterRoleBinding", who.user, "ClusterRole", who.user, subjects),
        _role("Role", who.user, _kube_system(), "kube-system"),
        _binding("RoleBinding", who.user, "Role", who.user, subjects, "kube-system"),
    ]
    return objects


def _inside() -> list[Obj]:
    """Everything in a namespace. Verbs are named because `*` would hold `escalate`, `bind` and `impersonate`."""
    return [_rule(["*"], ["*"], [*READ, *WRITE])]


def _inside_only() -> list[Obj]:
    """Everything in a namespace but the Namespace itself, whose labels hold pods to the baseline."""
    core = [one for one in _CORE_READABLE if not one.startswith(("namespaces", "nodes", "persistentvolumes"))]
    more = ["endpoints", "pods/attach", "pods/eviction", "pods/exec", "pods/portforward", "secrets"]
    groups = [one for one in _GROUPS_READABLE if one != "pingcap.com"]
    return [
        _rule([""], [*core, *more, "replicationcontrollers/scale"], [*READ, *WRITE]),
        _rule(groups, ["*"], [*READ, *WRITE]),
        _rule([""], ["namespaces"], ["get"]),
    ]


def _held(namespace: str) -> Obj:
    """The namespace, with the label by which Kubernetes itself refuses pods that reach the node."""
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}


def _reading() -> list[Obj]:
    urls = ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi/*", "/readyz", "/version"]
    return [
        _rule([""], _CORE_READABLE, READ),
        _rule(_GROUPS_READABLE, ["*"], READ),
        {"nonResourceURLs": urls, "verbs": ["get"]},
    ]


def _cluster_wide() -> list[Obj]:
    return [
        _rule([""], ["nodes"], CHANGE),
        _rule([""], ["namespaces"], ["create", *CHANGE]),
        _rule([""], ["persistentvolumes"], WRITE),
        _rule(["storage.k8s.io"], ["storageclasses"], WRITE),
        _rule(["scheduling.k8s.io"], ["priorityclasses"], WRITE),
        _rule(
            ["admissionregistration.k8s.io"],
            ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
            WRITE,
        ),
        _rule(["apiextensions.k8s.io"], ["customresourcedefinitions"], CHANGE),
        _rule(["networking.k8s.io"], ["ingressclasses"], WRITE),
        _rule([RBAC], ["clusterroles", "clusterrolebindings"], WRITE),
    ]


def _kube_system() -> list[Obj]:
    return [
        _rule([""], ["configmaps"], ["create", *CHANGE, "delete"]),
        _rule([""], ["pods"], ["delete"]),
        _rule([""], ["services"], CHANGE),
        _rule(["apps"], ["deployments", "deployments/scale"], CHANGE),
        _rule(["batch"], ["cronjobs", "jobs"], [*CHANGE, "delete"]),
    ]


def _rule(groups: Sequence[str], resources: Sequence[str], verbs: Sequence[str]) -> Obj:
    return {"apiGroups": list(groups), "resources": list(resources), "verbs": list(verbs)}


def _role(kind: str, name: str, rules: Sequence[Obj], namespace: str | None = None) -> Obj:
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": _meta(name, namespace), "rules": list(rules)}


def _binding(
    kind: str, name: str, role_kind: str, role: str, subjects: Sequence[Obj], namespace: str | None = None
) -> Obj:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": _meta(name, namespace),
        "roleRef": {"apiGroup": RBAC, "kind": role_kind, "name": role},
        "subjects": list(subjects),
    }


def _meta(name: str, namespace: str | None) -> dict[str, Any]:
    return {"name": name, "namespace": namespace} if namespace else {"name": name}
