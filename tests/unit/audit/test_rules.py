"""Every rule finds the leak that it is for, planted into an incident that is clean otherwise; and nothing else."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sregym.audit import RULES, Evidence, Text, Vocabulary, examine
from sregym.audit.evidence import Kind, PodRule
from sregym.audit.vocabulary import folders_of, is_natural, normal, people_of_machine
from sregym.cluster.objects import Obj, dig
from sregym.settings import Paths, Settings

NAMESPACE = "shop"
INSTALLED, CHANGED = datetime(2025, 1, 1, 12, 0, tzinfo=UTC), datetime(2025, 1, 1, 12, 5, tzinfo=UTC)
WORDS = Vocabulary(
    own=("sregym",),
    folders=("home/ada/.cache/bench",),
    people=("ada_lovelace",),
    problems=("wrong_target_port", "scale_pod_zero_social_net"),
)
SERVICES = ("web", "cart", "stock", "mail", "search", "pay")


def obj(kind: str, name: str, at: datetime = INSTALLED, **more: Any) -> Obj:
    meta = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"{kind}-{name}",
        "creationTimestamp": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "labels": {"app": name},
        "annotations": {},
        "managedFields": [
            {"manager": "kubectl", "operation": "Update", "time": "x"},
            {"manager": "kube-controller-manager", "operation": "Update", "subresource": "status"},
        ],
    }
    return {"apiVersion": "v1", "kind": kind, "metadata": meta, **more}


def clean() -> Evidence:
    """Six services with two revisions each; one was changed by a colleague a moment ago."""
    objects = []
    for name in SERVICES:
        objects.append(obj("Deployment", name, spec={"replicas": 1}))
        objects.append(obj("Service", name, spec={"ports": [{"port": 80}]}))
        for revision in (1, 2):
            owned = obj("ReplicaSet", f"{name}-{revision}")
            owned["metadata"]["ownerReferences"] = [{"kind": "Deployment", "uid": f"Deployment-{name}"}]
            objects.append(owned)
    changed = objects[0]
    changed["metadata"]["generation"] = 7
    changed["metadata"]["managedFields"][0]["time"] = "later"
    young = obj("Pod", "web-2-abcde", at=CHANGED)
    young["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "uid": "ReplicaSet-web-2"}]
    young["metadata"]["labels"]["pod-template-hash"] = "2"
    made = frozenset((one["kind"], one["metadata"]["name"]) for one in objects)
    texts = (
        Text(where="log of web", text='{"message":"dial tcp: connection refused"}', kind=Kind.LOG),
        Text(where="agent environment", text="KUBECONFIG=/oncall/kube/config\nSREGYM_ARTIFACT_ID=1f", kind=Kind.AGENT),
    )
    return Evidence(
        namespaces=frozenset({NAMESPACE}),
        objects=(*objects, young),
        texts=texts,
        pod_rules=(PodRule(verbs=("create",), groups=("authorization.k8s.io",), resources=("selfsubjectreviews",)),),
        made=made,
        known=frozenset({("RoleBinding", "oncall")}),
        installed_at=INSTALLED,
        changed_at=CHANGED,
    )


def found(evidence: Evidence) -> list[str]:
    return [one.rule for one in examine(evidence, WORDS)]


def with_text(text: str, kind: Kind = Kind.LOG) -> Callable[[Evidence], Evidence]:
    return lambda evidence: replace(evidence, texts=(*evidence.texts, Text(where="planted", text=text, kind=kind)))


def with_object(one: Obj) -> Callable[[Evidence], Evidence]:
    return lambda evidence: replace(evidence, objects=(*evidence.objects, one))


def with_changed(kind: str, name: str, change: Callable[[Obj], None]) -> Callable[[Evidence], Evidence]:
    def plant(evidence: Evidence) -> Evidence:
        objects = copy.deepcopy(list(evidence.objects))
        change(next(one for one in objects if (one["kind"], one["metadata"]["name"]) == (kind, name)))
        return replace(evidence, objects=objects)

    return plant


def annotate(key: str, value: str) -> Callable[[Obj], None]:
    return lambda one: dig(one, "metadata", "annotations").update({key: value})


def applied(replicas: int) -> str:
    return json.dumps(
        {"kind": "Deployment", "metadata": {"name": "web", "annotations": {}}, "spec": {"replicas": replicas}}
    )


def only_one_with_revisions(evidence: Evidence) -> Evidence:
    kept = [
        one for one in evidence.objects if one["kind"] != "ReplicaSet" or not one["metadata"]["name"].endswith("-1")
    ]
    earlier = [one for one in evidence.objects if one["metadata"]["name"] == "web-1"]
    return replace(evidence, objects=(*kept, *earlier))


def set_manager(manager: str, operation: str = "Update") -> Callable[[Obj], None]:
    return lambda one: one["metadata"]["managedFields"].append({"manager": manager, "operation": operation})


PLANTED: list[tuple[str, str, Callable[[Evidence], Evidence]]] = [
    ("own-names", "our name in a label", with_changed("Service", "web", annotate("sregym.io/run", "4"))),
    ("own-names", "our name in a log", with_text("user-agent: SREGym/1.0")),
    ("own-names", "a folder of the host in a mount table", with_text("/home/ada/.cache/bench/x on /data", Kind.POD)),
    ("own-names", "the user's name in a stack trace", with_text("built by ada-lovelace@host", Kind.POD)),
    ("own-names", "our name in the node's journal", with_text("unit sregym-probe.service", Kind.NODE)),
    ("own-names", "our name in a system file", with_text("# sregym", Kind.PLATFORM)),
    (
        "own-names",
        "our name inside a Secret",
        with_object(obj("Secret", "x", data={"k": base64.b64encode(b"path=/sregym/x").decode()})),
    ),
    (
        "problem-names",
        "a class name in a label",
        with_object(obj("ConfigMap", "cfg", data={"mode": "WrongTargetPort"})),
    ),
    ("problem-names", "an id inside a longer name", with_text("flag:scale-pod-zero-social-net.enabled")),
    ("problem-names", "a class name in kebab case as a metric", with_text("wrong_target_port_total 1", Kind.TELEMETRY)),
    ("fault-words", "a pod that is called so", with_text("GET http://fault-injector/run")),
    ("fault-words", "a module path in a stack trace", with_text("twin/internal/hotel.(*geo).run", Kind.LOG)),
    ("fault-words", "a registered name", with_text("srv-oracle", Kind.NAME)),
    ("fault-words", "an event's message", with_object(obj("Event", "e", message="chaosDaemon stopped the pod"))),
    (
        "healthy-value",
        "last-applied of before",
        with_changed("Deployment", "web", annotate("kubectl.kubernetes.io/last-applied-configuration", applied(3))),
    ),
    ("release-record", "Helm's Secret", with_object(obj("Secret", "s.v1", type="helm.sh/release.v1"))),
    ("lone-helper", "a quota that came with the incident", with_object(obj("ResourceQuota", "limits", at=CHANGED))),
    (
        "made-anew",
        "a Service that is younger than its siblings",
        with_changed(
            "Service",
            "pay",
            lambda one: one["metadata"].update(creationTimestamp=CHANGED.strftime("%Y-%m-%dT%H:%M:%SZ")),
        ),
    ),
    ("stands-out", "another manager", with_changed("Deployment", "cart", set_manager("python-httpx"))),
    ("stands-out", "the same manager in another way", with_changed("Service", "cart", set_manager("kubectl", "Apply"))),
    (
        "stands-out",
        "a label more",
        with_changed("Service", "cart", lambda one: one["metadata"]["labels"].update(tier="x")),
    ),
    ("stands-out", "an annotation more", with_changed("Deployment", "mail", annotate("note", "x"))),
    (
        "stands-out",
        "a finalizer",
        with_changed("Service", "mail", lambda one: one["metadata"].update(finalizers=["x/y"])),
    ),
    ("only-history", "one workload with earlier revisions", only_one_with_revisions),
    ("credentials", "a key in the environment", with_text("OPENAI_API_KEY=sk-abcdefghijklmnopqrstuv", Kind.AGENT)),
    ("credentials", "the runtime's socket", with_text("/run/containerd/containerd.sock", Kind.POD)),
    ("credentials", "an administrator's kubeconfig", with_text("client-key-data: TFMwdExTMUNSVWRKVGlC", Kind.AGENT)),
    (
        "pod-rights",
        "a pod that may read Secrets",
        lambda evidence: replace(evidence, pod_rules=(PodRule(verbs=("list",), groups=("",), resources=("secrets",)),)),
    ),
]


def test_what_a_colleague_leaves_is_clean() -> None:
    assert examine(clean(), WORDS) == []


@pytest.mark.parametrize(("rule", "what", "plant"), PLANTED, ids=[f"{rule}: {what}" for rule, what, _ in PLANTED])
def test_a_planted_leak_is_found(rule: str, what: str, plant: Callable[[Evidence], Evidence]) -> None:
    assert rule in found(plant(clean()))


def test_every_rule_has_its_leak_planted() -> None:
    assert {rule for rule, _, _ in PLANTED} == {rule.name for rule in RULES}


@pytest.mark.parametrize(
    "text",
    [
        "the default value of DefaultMode",
        "container_memory_failures_total pgfault pgmajfault",
        "panic: runtime error: invalid memory address; fault address 0x0",
        "Segmentation fault (core dumped)",
        "between twelve entries",
    ],
)
def test_natural_occurrences_are_let_through(text: str) -> None:
    assert found(with_text(text)(clean())) == []


def test_a_natural_occurrence_does_not_cover_another_on_its_line() -> None:
    assert is_natural("page fault", "fault")
    assert not is_natural("page fault by faulty-config", "fault")


def test_words_of_distributions_are_theirs() -> None:
    assert found(with_text("import benchmark, faults, inject", Kind.PLATFORM)(clean())) == []


def test_two_of_a_kind_do_not_stand_out() -> None:
    evidence = clean()
    for name in ("cart", "mail"):
        evidence = with_changed("Service", name, lambda one: one["metadata"]["labels"].update(tier="x"))(evidence)
    assert found(evidence) == []


def test_what_was_there_before_the_incident_is_no_helper() -> None:
    assert found(with_object(obj("ResourceQuota", "limits"))(clean())) == []


def test_an_unchanged_last_applied_annotation_is_no_answer() -> None:
    evidence = clean()
    for name in SERVICES:
        change = annotate("kubectl.kubernetes.io/last-applied-configuration", applied(1).replace('"web"', f'"{name}"'))
        evidence = with_changed("Deployment", name, change)(evidence)
    assert found(evidence) == []


@pytest.mark.parametrize("style", ["WrongTargetPort", "wrong-target-port", "wrong_target.port", "Wrong Target Port"])
def test_styles_have_one_normal_form(style: str) -> None:
    assert normal(style) == "wrong_target_port"


def test_a_folder_that_only_begins_or_ends_like_ours_is_none_of_ours() -> None:
    for text in ("/home/ada/.cache/benches", "/srv/home/ada/.cache", "ada/.cache/bench"):
        assert found(with_text(text, Kind.POD)(clean())) == []


def test_the_hosts_name_is_no_news_where_the_host_is_a_node() -> None:
    planted = with_text("node ada-lovelace is ready", Kind.NODE)(clean())
    assert found(planted) == ["own-names"]
    assert found(with_object({"kind": "Node", "metadata": {"name": "ada-lovelace"}})(planted)) == []


def test_names_that_anybody_has_give_nothing_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "root")
    monkeypatch.setattr("socket.gethostname", lambda: "worker")
    assert people_of_machine() == ()
    paths = Paths.model_construct(cache=Path("/data"), state=Path("/var/lib/x"), results=Path("/results"))
    folders = folders_of(Settings.model_construct(paths=paths))
    assert "var/lib/x" in folders
    assert not {"data", "results"} & set(folders)
