"""The second wall: what no pod outside the system's namespaces may be, whoever creates it.

An agent can run code in pods, and a controller creates the pods of the agent's Deployments, so the rules match by
namespace and not by user alone. On kind a node is itself a privileged container: root in it is root on the host. The
rules are ValidatingAdmissionPolicies (Kubernetes 1.30, admissionregistration.k8s.io/v1), which the agent's user may
read but not change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sregym.cluster.objects import Obj
from sregym.gateway.identity import Identity

API = "admissionregistration.k8s.io/v1"
EXEMPT = ("kube-node-lease", "kube-public", "kube-system", "local-path-storage", "observe")
"""Namespaces of the cluster's own parts, in which the agent can create no pods."""
CONTAINERS = "variables.containers"
_LISTS = ("containers", "initContainers", "ephemeralContainers")
_SECURED = "has(c.securityContext) && has(c.securityContext"


def admission_objects(identity: Identity | None = None) -> list[Obj]:
    """Policies and their bindings, to be applied before the base snapshot is taken."""
    who = identity or Identity()
    return [*_policy("pod-baseline", **_pods()), *_policy("volume-baseline", **_volumes(who))]


def _pods() -> dict[str, Any]:
    exempt = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(EXEMPT)}
    rules = [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]},
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["UPDATE"],
            "resources": ["pods/ephemeralcontainers"],
        },
    ]
    every = " + ".join(f"(has(object.spec.{name}) ? object.spec.{name} : [])" for name in _LISTS[:2])
    # Ephemeral containers are of another type than containers, so that the lists cannot be joined in CEL.
    return {
        "match": {"namespaceSelector": {"matchExpressions": [exempt]}, "resourceRules": rules},
        "variables": {"containers": every},
        "validations": {
            "host namespaces are not available": _none(
                "has(object.spec.hostNetwork) && object.spec.hostNetwork",
                "has(object.spec.hostPID) && object.spec.hostPID",
                "has(object.spec.hostIPC) && object.spec.hostIPC",
            ),
            "hostPath volumes are not available": "!has(object.spec.volumes)"
            " || object.spec.volumes.all(v, !has(v.hostPath))",
            "privileged containers and added capabilities are not available": f"{CONTAINERS}.all(c, {_unprivileged()})"
            " && (!has(object.spec.ephemeralContainers)"
            f" || object.spec.ephemeralContainers.all(c, {_unprivileged()}))",
            "host ports are not available": f"{CONTAINERS}.all(c, !has(c.ports)"
            " || c.ports.all(p, !has(p.hostPort) || p.hostPort == 0))",
            "pods are placed by the scheduler": "request.operation != 'CREATE' || !has(object.spec.nodeName)"
            " || object.spec.nodeName == ''",
            "the control plane takes no workloads": "!has(object.spec.tolerations)"
            " || object.spec.tolerations.all(t, has(t.key) && t.key != '' "
            "&& !t.key.startsWith('node-role.kubernetes.io/'))",
        },
    }


def _volumes(who: Identity) -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["persistentvolumes"]}
    return {
        "match": {"resourceRules": [rule]},
        "conditions": {"by-the-user": f"request.userInfo.username == '{who.user}'"},
        "validations": {
            "volumes on a node's own disk are made by the provisioner": _none(
                "has(object.spec.hostPath)", "has(object.spec.local)"
            )
        },
    }


def _none(*conditions: str) -> str:
    return " && ".join(f"!({one})" for one in conditions)


def _unprivileged() -> str:
    return _none(
        f"{_SECURED}.privileged) && c.securityContext.privileged",
        f"{_SECURED}.capabilities) && has(c.securityContext.capabilities.add)"
        " && size(c.securityContext.capabilities.add) > 0",
    )


def _policy(
    name: str,
    *,
    match: Mapping[str, object],
    validations: Mapping[str, str],
    variables: Mapping[str, str] | None = None,
    conditions: Mapping[str, str] | None = None,
) -> Sequence[Obj]:
    spec: Obj = {
        "failurePolicy": "Fail",
        "matchConstraints": dict(match),
        "validations": [{"expression": rule, "message": message} for message, rule in validations.items()],
    }
    if variables:
        spec["variables"] = [{"name": key, "expression": value} for key, value in variables.items()]
    if conditions:
        spec["matchConditions"] = [{"name": key, "expression": value} for key, value in conditions.items()]
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return [
        {"apiVersion": API, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec},
        {"apiVersion": API, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": binding},
    ]
