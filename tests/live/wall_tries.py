"""Requests that the second wall refuses to the agent and its pods, and those that repairs need."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sregym.cluster.client import KubeCluster
from sregym.cluster.objects import Obj
from tests.live.wall_pods import NAMESPACE, pod

AS_AGENT = {"Impersonate-User": "oncall", "Impersonate-Group": "oncall"}
AS_POD = {"Impersonate-User": f"system:serviceaccount:{NAMESPACE}:helper"}
IN_NAMESPACE = f"/api/v1/namespaces/{NAMESPACE}"
PODS = f"{IN_NAMESPACE}/pods"
SYSTEM = "/api/v1/namespaces/kube-system"
COREDNS = "/apis/apps/v1/namespaces/kube-system/deployments/coredns"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
HOOKS = f"{ADMISSION}/mutatingwebhookconfigurations"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"


@dataclass(frozen=True, kw_only=True)
class Try:
    """One request as the agent. Nothing is changed by it (dryRun)."""

    method: str
    path: str
    body: Any = None
    refused: str = ""
    """What the refusal says (a pattern); '' where the request must be taken."""
    content: str = ""
    headers: dict[str, str] = field(default_factory=lambda: AS_AGENT)

    async def play(self, cluster: KubeCluster) -> None:
        kind = {"Content-Type": self.content or (MERGE if self.method == "PATCH" else "application/json")}
        await cluster.raw(
            self.method, self.path, body=self.body, query={"dryRun": "All"}, headers={**self.headers, **kind}
        )


def hook(name: str, *, namespaces: list[str] | None = None, scope: str = "Namespaced", **more: Any) -> Obj:
    """A mutating webhook configuration for pods."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"], "scope": scope}
    one: Obj = {
        "name": "h.example.com",
        "clientConfig": {"service": {"namespace": NAMESPACE, "name": "hook"}},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore",
        **more,
    }
    if namespaces:
        expression = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces}
        one["namespaceSelector"] = {"matchExpressions": [expression]}
    api = "admissionregistration.k8s.io/v1"
    return {"apiVersion": api, "kind": "MutatingWebhookConfiguration", "metadata": {"name": name}, "webhooks": [one]}


def binding(role: str, *subjects: Obj, kind: str = "ClusterRoleBinding", name: str = "more") -> Obj:
    api = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{api}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": role},
        "subjects": list(subjects),
    }


def account(name: str, namespace: str = NAMESPACE) -> Obj:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def named(kind: str, name: str) -> Obj:
    return {"kind": kind, "name": name, "apiGroup": "rbac.authorization.k8s.io"}


def cluster_role(name: str, labels: Obj | None = None, **more: Any) -> Obj:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
    meta = {"name": name, "labels": labels or {}}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": meta,
        "rules": rules,
        **more,
    }


def volume(**source: Any) -> Obj:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **source}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "walls-try"}, "spec": spec}


def storage_class(**more: Any) -> Obj:
    meta = {"name": "walls-try"}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": meta,
            "provisioner": "rancher.io/local-path", **more}  # fmt: skip


def template(**change: Any) -> Obj:
    """A change of CoreDNS's pod template."""
    return {"spec": {"template": {"spec": change}}}


def refused_elsewhere(control_plane: str) -> dict[str, Try]:
    """What RBAC alone would allow, or what it must refuse."""
    no = "forbidden|not available|not changed|keeps to"
    target = {"apiVersion": "v1", "kind": "Node", "name": control_plane}
    mirrored = {"webhooks": [{**hook("x", namespaces=[NAMESPACE])["webhooks"][0], "namespaceSelector": {}}]}
    return {
        # volumes and classes
        "host path volume": Try(
            method="POST",
            path="/api/v1/persistentvolumes",
            body=volume(hostPath={"path": "/"}),
            refused="by the provisioner",
        ),
        "NFS volume": Try(
            method="POST",
            path="/api/v1/persistentvolumes",
            body=volume(nfs={"server": "172.18.0.1", "path": "/"}),
            refused="by the provisioner",
        ),
        "host path volume by a pod": Try(
            method="POST",
            path="/api/v1/persistentvolumes",
            body=volume(hostPath={"path": "/"}),
            refused="by the provisioner",
            headers=AS_POD,
        ),
        "class with a path": Try(
            method="POST",
            path="/apis/storage.k8s.io/v1/storageclasses",
            body=storage_class(parameters={"pathPattern": "../../../etc"}),
            refused="parameters of a class",
        ),
        # placing
        "binding to a node": Try(
            method="POST",
            path=f"{PODS}/any/binding",
            body={"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "any"}, "target": target},
            refused="placed by the scheduler",
        ),
        "named control plane": Try(
            method="POST", path=PODS, body=pod(nodeName=control_plane), refused="takes no workloads"
        ),
        "taint away": Try(
            method="PATCH",
            path=f"/api/v1/nodes/{control_plane}",
            body={"spec": {"taints": []}},
            refused="takes no workloads",
        ),
        "node status": Try(
            method="PATCH", path=f"/api/v1/nodes/{control_plane}/status", body={"status": {}}, refused="forbidden"
        ),
        "node away": Try(method="DELETE", path=f"/api/v1/nodes/{control_plane}", refused="forbidden"),
        "node proxy": Try(method="GET", path=f"/api/v1/nodes/{control_plane}/proxy/pods", refused="forbidden"),
        # traffic
        "external address": Try(
            method="POST",
            path=f"{IN_NAMESPACE}/services",
            body={"metadata": {"name": "x"}, "spec": {"ports": [{"port": 80}], "externalIPs": ["172.18.0.1"]}},
            refused="external addresses",
        ),
        "written status": Try(
            method="PATCH",
            path=f"{IN_NAMESPACE}/services/there/status",
            body={"status": {"loadBalancer": {}}},
            refused="by its controller",
        ),
        "API service": Try(
            method="POST",
            path="/apis/apiregistration.k8s.io/v1/apiservices",
            body={"metadata": {"name": "v1.x.io"}, "spec": {"group": "x.io", "version": "v1"}},
            refused="forbidden",
        ),
        "conversion": Try(
            method="POST",
            path="/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            body={"metadata": {"name": "x.x.io"}, "spec": {}},
            refused="forbidden",
        ),
        # webhooks
        "webhook for all": Try(method="POST", path=HOOKS, body=hook("w"), refused="keeps to"),
        "webhook for the system": Try(
            method="POST", path=HOOKS, body=hook("w", namespaces=[NAMESPACE, "kube-system"]), refused="keeps to"
        ),
        "webhook of the cluster": Try(
            method="POST", path=HOOKS, body=hook("w", namespaces=[NAMESPACE], scope="*"), refused="keeps to"
        ),
        "webhook elsewhere": Try(
            method="POST",
            path=HOOKS,
            body=hook("w", namespaces=[NAMESPACE], clientConfig={"url": "https://172.18.0.1/"}),
            refused="keeps to",
        ),
        "webhook for exec": Try(
            method="POST",
            path=HOOKS,
            body=hook(
                "w",
                namespaces=[NAMESPACE],
                rules=[
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"], "resources": ["pods/exec"]}
                ],
            ),
            refused="keeps to",
        ),
        "webhook widened": Try(method="PATCH", path=f"{HOOKS}/walls-hook", body=mirrored, refused="keeps to"),
        # rights
        "cluster-admin": Try(
            method="POST",
            path=f"{RBAC}/clusterrolebindings",
            body=binding("cluster-admin", account("helper")),
            refused=no,
        ),
        "masters": Try(
            method="POST",
            path=f"{RBAC}/clusterrolebindings",
            body=binding("cluster-admin", named("Group", "system:masters")),
            refused=no,
        ),
        "own rights for the system": Try(
            method="POST",
            path=f"{RBAC}/clusterrolebindings",
            body=binding("oncall", account("coredns", "kube-system")),
            refused="accounts of applications",
        ),
        "own rights for everybody": Try(
            method="POST",
            path=f"{RBAC}/clusterrolebindings",
            body=binding("oncall", named("Group", "system:unauthenticated")),
            refused="accounts of applications",
        ),
        "role in the namespace": Try(
            method="POST",
            path=f"{RBAC}/namespaces/{NAMESPACE}/rolebindings",
            body=binding("cluster-admin", account("helper"), kind="RoleBinding"),
            refused=no,
        ),
        "aggregated": Try(
            method="POST",
            path=f"{RBAC}/clusterroles",
            body=cluster_role("more", {"rbac.authorization.k8s.io/aggregate-to-view": "true"}),
            refused="not added to",
        ),
        "aggregating": Try(
            method="POST",
            path=f"{RBAC}/clusterroles",
            body=cluster_role("more", aggregationRule={"clusterRoleSelectors": [{}]}, rules=[]),
            refused="forbidden",
        ),
        "all rights": Try(
            method="POST",
            path=f"{RBAC}/clusterroles",
            body=cluster_role("more", rules=[{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]),
            refused="forbidden",
        ),
        "role of the system": Try(method="DELETE", path=f"{RBAC}/clusterroles/system:node", refused="not changed"),
        "binding of the system": Try(
            method="DELETE", path=f"{RBAC}/clusterrolebindings/cluster-admin", refused="not changed"
        ),
        "every role": Try(method="DELETE", path=f"{RBAC}/clusterroles", refused="not changed"),
        "every binding": Try(method="DELETE", path=f"{RBAC}/clusterrolebindings", refused="not changed"),
        "own role": Try(
            method="PATCH",
            path=f"{RBAC}/clusterroles/oncall",
            body={"metadata": {"labels": {"a": "b"}}},
            refused="not changed",
        ),
        "secrets of all": Try(method="GET", path="/api/v1/secrets", refused="forbidden"),
        # the wall itself
        "policy": Try(
            method="DELETE", path=f"{ADMISSION}/validatingadmissionpolicies/pod-baseline", refused="forbidden"
        ),
        "every policy": Try(method="DELETE", path=f"{ADMISSION}/validatingadmissionpolicies", refused="forbidden"),
        "policy binding": Try(
            method="PATCH",
            path=f"{ADMISSION}/validatingadmissionpolicybindings/pod-baseline",
            body={"spec": {"validationActions": ["Audit"]}},
            refused="forbidden",
        ),
        "label of the system": Try(
            method="PATCH", path=SYSTEM, body={"metadata": {"labels": {"a": "b"}}}, refused="not changed"
        ),
        # the system's own parts
        "pod in kube-system": Try(method="POST", path=f"{SYSTEM}/pods", body=pod(), refused="forbidden|does not match"),
        "pod in observe": Try(
            method="POST",
            path="/api/v1/namespaces/observe/pods",
            body=pod(),
            refused="forbidden|does not match|not found",
        ),
        "exec in kube-system": Try(method="POST", path=f"{SYSTEM}/pods/any/exec", refused="forbidden"),
        "token of a controller": Try(
            method="POST",
            path=f"{SYSTEM}/serviceaccounts/clusterrole-aggregation-controller/token",
            body={"spec": {}},
            refused="forbidden",
        ),
        "CoreDNS as another": Try(
            method="PATCH",
            path=COREDNS,
            body=template(serviceAccountName="clusterrole-aggregation-controller"),
            refused="run what they ran",
        ),
        "CoreDNS with a command": Try(
            method="PATCH",
            path=COREDNS,
            body=template(containers=[{"name": "coredns", "command": ["sh"]}]),
            content=STRATEGIC,
            refused="run what they ran",
        ),
        "CoreDNS with the node's disk": Try(
            method="PATCH",
            path=COREDNS,
            body=template(volumes=[{"name": "root", "hostPath": {"path": "/"}}]),
            content=STRATEGIC,
            refused="run what they ran",
        ),
        "CoreDNS with another container": Try(
            method="PATCH",
            path=COREDNS,
            body=template(containers=[{"name": "more", "image": "x"}]),
            content=STRATEGIC,
            refused="run what they ran",
        ),
        "CoreDNS on the host": Try(
            method="PATCH", path=COREDNS, body=template(hostNetwork=True), refused="run what they ran"
        ),
        "whom kube-proxy trusts": Try(
            method="PATCH",
            path=f"{SYSTEM}/configmaps/kube-proxy",
            body={"data": {"kubeconfig.conf": "users: [{user: {exec: {command: sh}}}]"}},
            refused="credentials of kube-proxy",
        ),
        "one more file for kube-proxy": Try(
            method="PATCH",
            path=f"{SYSTEM}/configmaps/kube-proxy",
            body={"data": {"more.conf": "x"}},
            refused="credentials of kube-proxy",
        ),
        "front proxy": Try(
            method="PATCH",
            path=f"{SYSTEM}/configmaps/extension-apiserver-authentication",
            body={"data": {"requestheader-client-ca-file": "x"}},
            refused="that the system trusts",
        ),
        "every setting": Try(method="DELETE", path=f"{SYSTEM}/configmaps", refused="forbidden|not changed"),
        "static token": Try(
            method="POST",
            path=f"{IN_NAMESPACE}/secrets",
            body={
                "metadata": {"name": "t", "annotations": {"kubernetes.io/service-account.name": "default"}},
                "type": "kubernetes.io/service-account-token",
            },
            refused="tokens without an end",
        ),
        "signing request": Try(
            method="POST",
            path="/apis/certificates.k8s.io/v1/certificatesigningrequests",
            body={
                "metadata": {"name": "x"},
                "spec": {"request": "eA==", "signerName": "kubernetes.io/kube-apiserver-client"},
            },
            refused="forbidden",
        ),
        "token review": Try(
            method="POST",
            path="/apis/authentication.k8s.io/v1/tokenreviews",
            body={"spec": {"token": "x"}},
            refused="forbidden",
        ),
    }


def taken(worker: str) -> dict[str, Try]:
    """What repairs need."""
    selector = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": [NAMESPACE]}]}
    hook_now = hook("walls-hook", namespaces=[NAMESPACE])["webhooks"][0]
    restart = {"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}}}
    limits = {"name": "coredns", "resources": {"limits": {"memory": "200Mi"}}}
    return {
        "Corefile": Try(
            method="PATCH", path=f"{SYSTEM}/configmaps/coredns", body={"data": {"Corefile": ".:53 {\n}\n"}}
        ),
        "kube-proxy's mode": Try(
            method="PATCH", path=f"{SYSTEM}/configmaps/kube-proxy", body={"data": {"config.conf": "x"}}
        ),
        "restart CoreDNS": Try(method="PATCH", path=COREDNS, body=restart),
        "size CoreDNS": Try(method="PATCH", path=COREDNS, body=template(containers=[limits]), content=STRATEGIC),
        "scale CoreDNS": Try(method="PATCH", path=f"{COREDNS}/scale", body={"spec": {"replicas": 3}}),
        "label a node": Try(method="PATCH", path=f"/api/v1/nodes/{worker}", body={"metadata": {"labels": {"a": "b"}}}),
        "taint a node": Try(
            method="PATCH",
            path=f"/api/v1/nodes/{worker}",
            body={"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}], "unschedulable": True}},
        ),
        "class": Try(method="POST", path="/apis/storage.k8s.io/v1/storageclasses", body=storage_class()),
        "webhook that ignores": Try(
            method="PATCH",
            path=f"{HOOKS}/walls-wide",
            body={"webhooks": [{**hook("x")["webhooks"][0], "timeoutSeconds": 3}]},
        ),
        "webhook narrowed": Try(
            method="PATCH",
            path=f"{HOOKS}/walls-wide",
            body={"webhooks": [{**hook("x")["webhooks"][0], "namespaceSelector": selector}]},
        ),
        "webhook pointed elsewhere": Try(
            method="PATCH",
            path=f"{HOOKS}/walls-hook",
            body={"webhooks": [{**hook_now, "clientConfig": {"service": {"namespace": "policy", "name": "other"}}}]},
        ),
        "webhook away": Try(method="DELETE", path=f"{HOOKS}/walls-wide"),
        "webhook made": Try(method="POST", path=HOOKS, body=hook("w", namespaces=[NAMESPACE])),
        "role made": Try(method="POST", path=f"{RBAC}/clusterroles", body=cluster_role("more")),
        "rights for an account": Try(
            method="POST", path=f"{RBAC}/clusterrolebindings", body=binding("oncall", account("helper"))
        ),
        "rights in the namespace": Try(
            method="POST",
            path=f"{RBAC}/namespaces/{NAMESPACE}/rolebindings",
            body=binding("oncall-admin", account("helper"), kind="RoleBinding"),
        ),
        "secret": Try(
            method="POST", path=f"{IN_NAMESPACE}/secrets", body={"metadata": {"name": "s"}, "stringData": {"a": "b"}}
        ),
        "service": Try(
            method="POST",
            path=f"{IN_NAMESPACE}/services",
            body={"metadata": {"name": "x"}, "spec": {"ports": [{"port": 80}], "type": "NodePort"}},
        ),
        "namespace": Try(method="POST", path="/api/v1/namespaces", body={"metadata": {"name": "walls-more"}}),
        "namespace label": Try(method="PATCH", path=IN_NAMESPACE, body={"metadata": {"labels": {"a": "b"}}}),
        "pods of a node": Try(method="GET", path="/api/v1/pods"),
    }
