"""ValidatingAdmissionPolicies as data (Kubernetes 1.30, admissionregistration.k8s.io/v1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sregym.cluster.objects import Obj

API = "admissionregistration.k8s.io/v1"
EXEMPT = ("kube-node-lease", "kube-public", "kube-system", "local-path-storage", "observe")
"""Namespaces of the cluster's own parts and of the platform: the agent can create nothing there that runs."""
NAMESPACE_LABEL = "kubernetes.io/metadata.name"
"""Set by the API server on every write of a namespace, so that nobody can choose it."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """One policy and its binding. `validations` are CEL expressions by the message that a refusal carries."""

    name: str
    rules: Sequence[Obj]
    validations: Mapping[str, str]
    variables: Mapping[str, str] = field(default_factory=dict)
    conditions: Mapping[str, str] = field(default_factory=dict)
    inside: bool | None = None
    """Only in the namespaces of EXEMPT (True), only outside them (False), everywhere (None)."""

    def objects(self) -> list[Obj]:
        match: Obj = {"resourceRules": list(self.rules)}
        if self.inside is not None:
            operator = "In" if self.inside else "NotIn"
            selector = {"key": NAMESPACE_LABEL, "operator": operator, "values": list(EXEMPT)}
            match["namespaceSelector"] = {"matchExpressions": [selector]}
        spec: Obj = {
            "failurePolicy": "Fail",
            "matchConstraints": match,
            "validations": [{"expression": rule, "message": message} for message, rule in self.validations.items()],
        }
        if self.variables:
            spec["variables"] = _named(self.variables)
        if self.conditions:
            spec["matchConditions"] = _named(self.conditions)
        binding = {"policyName": self.name, "validationActions": ["Deny"]}
        meta = {"name": self.name}
        return [
            {"apiVersion": API, "kind": "ValidatingAdmissionPolicy", "metadata": meta, "spec": spec},
            {"apiVersion": API, "kind": "ValidatingAdmissionPolicyBinding", "metadata": meta, "spec": binding},
        ]


def on(operations: str, *resources: str, group: str = "", versions: Sequence[str] = ("*",)) -> Obj:
    """A rule: operations joined by `|`, e.g. `CREATE|UPDATE`."""
    return {
        "apiGroups": [group],
        "apiVersions": list(versions),
        "operations": operations.split("|"),
        "resources": list(resources),
    }


def all_of(*conditions: str) -> str:
    return " && ".join(f"({one})" for one in conditions)


def none_of(*conditions: str) -> str:
    return " && ".join(f"!({one})" for one in conditions)


def any_of(*conditions: str) -> str:
    return " || ".join(f"({one})" for one in conditions)


def texts(values: Sequence[str]) -> str:
    """A list of strings in CEL."""
    return "[" + ", ".join(f"'{value}'" for value in values) + "]"


def _named(expressions: Mapping[str, str]) -> list[Obj]:
    return [{"name": name, "expression": expression} for name, expression in expressions.items()]
