"""The agent's rights and the policies over them, as data. Whether they hold is tried on a real cluster."""

import pytest

from sregym.errors import DefinitionError
from sregym.gateway.access import access_objects
from sregym.gateway.admission import admission_objects
from sregym.gateway.identity import Identity
from sregym.gateway.policies import EXEMPT

POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"


def test_every_policy_is_bound_and_fails_closed() -> None:
    objects = admission_objects(control_plane=["master"])
    names = {kind: [one["metadata"]["name"] for one in objects if one["kind"] == kind] for kind in (POLICY, BINDING)}
    assert names[POLICY] == names[BINDING]
    assert len(set(names[POLICY])) == len(names[POLICY]) >= 15
    for one in objects:
        if one["kind"] == POLICY:
            assert one["spec"]["failurePolicy"] == "Fail"
            assert one["spec"]["matchConstraints"]["resourceRules"]
            assert all(rule["message"] and rule["expression"] for rule in one["spec"]["validations"])
        else:
            assert one["spec"]["validationActions"] == ["Deny"]


def test_pods_are_judged_wherever_the_agent_can_have_them_made() -> None:
    pods = next(one for one in admission_objects() if one["metadata"]["name"] == "pod-baseline")
    assert "matchConditions" not in pods["spec"]
    (expression,) = pods["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"]
    assert expression == {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(EXEMPT)}


@pytest.mark.parametrize("namespace", EXEMPT)
def test_no_application_stands_where_pods_are_not_judged(namespace: str) -> None:
    with pytest.raises(DefinitionError, match=namespace):
        access_objects(["shop", namespace])


def test_no_right_leads_to_more() -> None:
    rules = [rule for obj in access_objects(["shop"]) for rule in obj.get("rules", [])]
    verbs = {verb for rule in rules for verb in rule["verbs"]}
    assert verbs.isdisjoint({"*", "escalate", "bind", "impersonate", "approve", "sign"})
    outside = [
        rule for obj in access_objects([]) for rule in obj.get("rules", []) if obj["metadata"]["name"] == "oncall"
    ]
    resources = {resource for rule in outside for resource in rule.get("resources", [])}
    assert resources.isdisjoint({"secrets", "nodes/proxy", "pods/exec", "pods/proxy", "services/proxy"})


def test_on_a_shared_cluster_the_rights_end_at_our_namespaces() -> None:
    objects = access_objects(["shop"], shared=True)
    assert [(obj["kind"], obj["metadata"].get("namespace")) for obj in objects] == [
        ("Namespace", None),
        ("Role", "shop"),
        ("RoleBinding", "shop"),
    ]
    namespace, role, _ = objects
    assert namespace["metadata"]["labels"] == {"pod-security.kubernetes.io/enforce": "baseline"}
    changed = {
        resource for rule in role["rules"] if rule["verbs"] != ["get"] and "" in rule["apiGroups"]
        for resource in rule["resources"]
    }  # fmt: skip
    assert changed.isdisjoint({"*", "namespaces", "nodes", "persistentvolumes"})
    assert {"secrets", "pods/exec", "configmaps"} <= changed
    assert {verb for rule in role["rules"] for verb in rule["verbs"]}.isdisjoint({"*", "escalate", "bind"})


def test_another_user_is_held_to_the_same_rules() -> None:
    conditions = {
        condition["expression"]
        for obj in admission_objects(Identity(user="sre", groups=()))
        for condition in obj["spec"].get("matchConditions", [])
    }
    assert len(conditions) == 1
    assert "'sre'" in conditions.pop()
