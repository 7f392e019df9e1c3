"""What the agent, and code in pods of its namespaces, may not do to the cluster although RBAC would allow it.

The agent can give an account of its namespaces any right of its own and act through it, so the rules hold for both.
Whoever may change the policies themselves is not bound by them: that is us, and whoever owns the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping

from sregym.gateway.identity import Identity
from sregym.gateway.policies import EXEMPT, NAMESPACE_LABEL, Policy, all_of, any_of, none_of, on, texts

RBAC = "rbac.authorization.k8s.io"
ADMISSION = "admissionregistration.k8s.io"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
_OLD_OR_NEW = "(request.operation == 'DELETE' ? oldObject : object)"
_SYSTEM_ROLES = ("admin", "cluster-admin", "edit", "view")
_SYSTEM_CONFIG = (
    *("cluster-info", "extension-apiserver-authentication", "kube-apiserver-legacy-service-account-token-tracking"),
    *("kube-root-ca.crt", "kube-router", "kubeadm-config", "kubelet-config"),
)
"""ConfigMaps from which the cluster's privileged parts take what they trust or run."""
_RUNS = (
    *("args", "command", "env", "envFrom", "image", "lifecycle", "livenessProbe", "readinessProbe"),
    *("securityContext", "startupProbe", "volumeDevices", "volumeMounts", "workingDir"),
)
"""What decides what a container runs, and with what in reach."""
_SITS = (
    *("automountServiceAccountToken", "hostIPC", "hostNetwork", "hostPID", "initContainers", "nodeName"),
    *("runtimeClassName", "securityContext", "serviceAccountName", "shareProcessNamespace", "tolerations", "volumes"),
)
_STATUS = {
    "": ("persistentvolumeclaims", "persistentvolumes", "pods", "replicationcontrollers", "services"),
    "apps": ("daemonsets", "deployments", "replicasets", "statefulsets"),
    "autoscaling": ("horizontalpodautoscalers",),
    "batch": ("cronjobs", "jobs"),
    "networking.k8s.io": ("ingresses",),
    "policy": ("poddisruptionbudgets",),
}


def cluster_policies(who: Identity) -> list[Policy]:
    """Policies for the agent's user and for code in its pods."""
    bound = {"the-agent-or-its-pods": _the_agent(who)}
    return [
        _volumes(bound),
        _classes(bound),
        _placing(bound),
        _services(bound),
        _statuses(bound),
        _nodes(bound),
        _namespaces(bound),
        _roles(bound, who),
        _bindings(bound),
        _webhooks(bound),
        _definitions(bound),
        _system_workloads(bound),
        _system_config(bound),
        _tokens(bound),
    ]


def _the_agent(who: Identity) -> str:
    account = "request.userInfo.username.startsWith('system:serviceaccount:')"
    ours = f"{texts(EXEMPT)}.exists(n, request.userInfo.username.startsWith('system:serviceaccount:' + n + ':'))"
    return all_of(
        any_of(
            f"request.userInfo.username in {texts((who.user, 'system:anonymous'))}",
            f"{account} && !{ours}",
        ),
        f"!authorizer.group('{ADMISSION}').resource('validatingadmissionpolicies').check('update').allowed()",
    )


def _volumes(bound: Mapping[str, str]) -> Policy:
    return Policy(
        name="volume-baseline",
        conditions=bound,
        rules=[on("CREATE", "persistentvolumes")],
        validations={"volumes on a node's own disk are made by the provisioner": "has(object.spec.csi)"},
    )


def _classes(bound: Mapping[str, str]) -> Policy:
    """Parameters say where on a node's disk a provisioner puts volumes."""
    return Policy(
        name="class-baseline",
        conditions=bound,
        rules=[on("CREATE|UPDATE", "storageclasses", group="storage.k8s.io")],
        validations={
            "parameters of a class are not changed": any_of(
                "object.?parameters.orValue({}).size() == 0",
                "oldObject != null && object.?parameters == oldObject.?parameters",
            ),
            "settings of a provisioner are not changed": "object.metadata.?annotations.orValue({})"
            ".all(k, !k.startsWith('cas.openebs.io/') || (oldObject != null"
            " && oldObject.metadata.?annotations[?k] == object.metadata.?annotations[?k]))",
        },
    )


def _placing(bound: Mapping[str, str]) -> Policy:
    return Policy(
        name="placing",
        conditions=bound,
        rules=[on("CREATE", "bindings", "pods/binding")],
        validations={"pods are placed by the scheduler": "false"},
    )


def _services(bound: Mapping[str, str]) -> Policy:
    """An address of one's own choice takes other people's traffic (CVE-2020-8554)."""
    return Policy(
        name="service-baseline",
        conditions=bound,
        rules=[on("CREATE|UPDATE", "services")],
        validations={
            "external addresses of services are not available": any_of(
                "object.spec.?externalIPs.orValue([]).size() == 0",
                "oldObject != null && object.spec.?externalIPs == oldObject.spec.?externalIPs",
            )
        },
    )


def _statuses(bound: Mapping[str, str]) -> Policy:
    rules = [on("UPDATE", *(f"{one}/status" for one in names), group=group) for group, names in _STATUS.items()]
    return Policy(
        name="status-baseline",
        conditions=bound,
        rules=rules,
        validations={"a status is written by its controller": "false"},
    )


def _nodes(bound: Mapping[str, str]) -> Policy:
    def taints(side: str) -> str:
        return f"{side}.spec.?taints.orValue([]).exists(t, t.key == '{CONTROL_PLANE}')"

    return Policy(
        name="node-baseline",
        conditions=bound,
        rules=[on("UPDATE", "nodes")],
        validations={
            "the control plane takes no workloads": f"!({taints('oldObject')}) || {taints('object')}",
        },
    )


def _namespaces(bound: Mapping[str, str]) -> Policy:
    return Policy(
        name="namespace-baseline",
        conditions=bound,
        rules=[on("CREATE|UPDATE|DELETE", "namespaces", "namespaces/finalize")],
        validations={
            "the system's namespaces are not changed": f"!(request.name in {texts(EXEMPT)})"
            f" && (object == null || !(object.metadata.name in {texts(EXEMPT)}))"
        },
    )


def _roles(bound: Mapping[str, str], who: Identity) -> Policy:
    kept = (*_SYSTEM_ROLES, who.user, who.user + "-admin")
    labels = "object.metadata.?labels.orValue({})"
    return Policy(
        name="role-baseline",
        conditions=bound,
        rules=[on("CREATE|UPDATE|DELETE", "clusterroles", "clusterrolebindings", group=RBAC)],
        variables={"name": f"{_OLD_OR_NEW}.metadata.name"},
        validations={
            "roles of the system are not changed": none_of(
                "variables.name.startsWith('system:')",
                "variables.name.startsWith('kubeadm:')",
                f"variables.name in {texts(kept)}",
                f"'kubernetes.io/bootstrapping' in {_OLD_OR_NEW}.metadata.?labels.orValue({{}})",
            ),
            "roles of the system are not added to": "request.operation == 'DELETE'"
            f" || {labels}.all(k, !k.startsWith('{RBAC}/aggregate-to-'))",
        },
    )


def _bindings(bound: Mapping[str, str]) -> Policy:
    account = f"s.kind != 'ServiceAccount' || !(s.?namespace.orValue('') in {texts(EXEMPT)})"
    named = (
        "s.kind == 'ServiceAccount' || !s.name.startsWith('system:') || s.name.startsWith('system:serviceaccounts:')"
    )
    group = f"!({texts(EXEMPT)}.exists(n, s.name == 'system:serviceaccounts:' + n))"
    return Policy(
        name="binding-baseline",
        conditions=bound,
        rules=[on("CREATE|UPDATE", "clusterrolebindings", "rolebindings", group=RBAC)],
        validations={
            "rights are given to accounts of applications only": "object.?subjects.orValue([]).all(s, "
            + all_of(account, named, group)
            + ")"
        },
    )


def _webhooks(bound: Mapping[str, str]) -> Policy:
    """A webhook sees and changes what others write, the pods of the system among it.

    One may be narrowed, put right or taken away; where it is made or pointed elsewhere it must keep to the namespaces
    of applications.
    """
    same = "o.name == w.name && o.?clientConfig.?service == w.?clientConfig.?service"
    same += " && o.?clientConfig.?url == w.?clientConfig.?url && w.rules.all(r, r in o.rules)"
    same += " && (o.?namespaceSelector == w.?namespaceSelector || " + _kept_in("w") + ")"
    within = all_of(
        "!has(w.clientConfig.url)",
        f"!(w.?clientConfig.?service.?namespace.orValue('') in {texts(EXEMPT)})",
        _kept_in("w"),
        "w.?rules.orValue([]).all(r, r.?scope.orValue('*') == 'Namespaced'"
        " && r.operations.all(o, o in ['CREATE', 'UPDATE', 'DELETE']))",
    )
    return Policy(
        name="webhook-baseline",
        conditions=bound,
        rules=[
            on("CREATE|UPDATE", "mutatingwebhookconfigurations", "validatingwebhookconfigurations", group=ADMISSION)
        ],
        variables={"before": "oldObject == null ? [] : oldObject.?webhooks.orValue([])"},
        validations={
            "a webhook keeps to the namespaces of applications": "object.?webhooks.orValue([]).all(w, "
            f"variables.before.exists(o, {same}) || ({within}))"
        },
    )


def _kept_in(webhook: str) -> str:
    """Whether a webhook selects namespaces by name, and none of the system's."""
    selector = f"{webhook}.?namespaceSelector"
    return any_of(
        f"{selector}.?matchExpressions.orValue([]).exists(e, e.key == '{NAMESPACE_LABEL}' && e.operator == 'In'"
        f" && e.values.all(v, !(v in {texts(EXEMPT)})))",
        f"!({selector}.?matchLabels[?'{NAMESPACE_LABEL}'].orValue('{EXEMPT[0]}') in {texts(EXEMPT)})",
    )


def _definitions(bound: Mapping[str, str]) -> Policy:
    return Policy(
        name="definition-baseline",
        conditions=bound,
        rules=[on("CREATE|UPDATE", "customresourcedefinitions", group="apiextensions.k8s.io")],
        validations={
            "conversion by a webhook is not available": any_of(
                "object.spec.?conversion.?strategy.orValue('None') == 'None'",
                "oldObject != null && object.spec.?conversion == oldObject.spec.?conversion",
            )
        },
    )


def _system_workloads(bound: Mapping[str, str]) -> Policy:
    """The system's workloads are restarted, scaled, placed and sized; what they run, and as whom, stays."""
    same = all_of("o.name == c.name", *(f"o.?{name} == c.?{name}" for name in _RUNS))
    return Policy(
        name="system-baseline",
        conditions=bound,
        inside=True,
        rules=[
            on("CREATE|UPDATE", "daemonsets", "deployments", "replicasets", "statefulsets", group="apps"),
            on("CREATE|UPDATE", "cronjobs", "jobs", group="batch"),
            on("CREATE|UPDATE", "pods", "pods/ephemeralcontainers", "podtemplates", "replicationcontrollers"),
        ],
        variables={"now": _template("object"), "before": _template("oldObject")},
        validations={
            "the system's workloads run what they ran": "oldObject != null && "
            + all_of(
                *(f"variables.now.?{name} == variables.before.?{name}" for name in _SITS),
                f"variables.now.containers.all(c, variables.before.containers.exists(o, {same}))",
            )
        },
    )


def _template(side: str) -> str:
    """The pod's spec wherever it stands. An object without one is its own, so that the rule fails on it."""
    return (
        f"{side} == null ? null : has({side}.spec.jobTemplate) ? {side}.spec.jobTemplate.spec.template.spec"
        f" : has({side}.spec.template) ? {side}.spec.template.spec : {side}.spec"
    )


def _system_config(bound: Mapping[str, str]) -> Policy:
    name = f"{_OLD_OR_NEW}.metadata.name"
    return Policy(
        name="system-settings",
        conditions=bound,
        inside=True,
        rules=[on("CREATE|UPDATE|DELETE", "configmaps")],
        variables={"name": name},
        validations={
            "settings that the system trusts are not changed": f"!(variables.name in {texts(_SYSTEM_CONFIG)})",
            "credentials of kube-proxy are not changed": "variables.name != 'kube-proxy' || "
            + all_of(
                "request.operation == 'UPDATE'",
                "object.?binaryData == oldObject.?binaryData",
                "object.?data.orValue({}).all(k, k in oldObject.?data.orValue({}))",
                "object.?data[?'kubeconfig.conf'] == oldObject.?data[?'kubeconfig.conf']",
            ),
        },
    )


def _tokens(bound: Mapping[str, str]) -> Policy:
    return Policy(
        name="token-baseline",
        conditions=bound,
        rules=[on("CREATE|UPDATE", "secrets")],
        validations={
            "tokens without an end are not available": "object.?type.orValue('')"
            " != 'kubernetes.io/service-account-token'"
        },
    )
