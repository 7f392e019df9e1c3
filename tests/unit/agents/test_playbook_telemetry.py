"""The playbook's rules on recorded metrics, traces and logs."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from sregym.agents.workstation.oncall import playbook, telemetry, telemetry_rules
from sregym.agents.workstation.oncall.findings import LIKELY, VAGUE
from tests.unit.agents.test_playbook import container, healthy

Answer = dict[str, Any]


class Recorded:
    """Endpoints that answer a query by the first key that is in it."""

    def __init__(self, **answers: Answer) -> None:
        self.answers = answers

    def __call__(self, variable: str, path: str, **parameters: str) -> Answer:
        asked = f"{variable} {path} {json.dumps(parameters)}"
        return next((answer for key, answer in self.answers.items() if key in asked), {})


def vector(*rows: tuple[dict[str, str], float]) -> Answer:
    return {"data": {"result": [{"metric": labels, "value": [0, str(value)]} for labels, value in rows]}}


def span(name: str, process: str, parent: str = "", *, failed: bool = True, said: str = "") -> Answer:
    tags = [{"key": "error", "value": True}] if failed else []
    tags += [{"key": "otel.status_description", "value": said}] if said else []
    references = [{"refType": "CHILD_OF", "spanID": parent}] if parent else []
    return {"spanID": name, "processID": process, "operationName": name, "tags": tags, "references": references}


TRACE = {
    "spans": [span("a", "p1"), span("b", "p2", "a", said="no such user"), span("c", "p3", "b", failed=False)],
    "processes": {"p1": {"serviceName": "web"}, "p2": {"serviceName": "cart"}, "p3": {"serviceName": "store"}},
}
FAILING = vector(({"service": "web", "peer": "srv-cart"}, 0.8))


@pytest.fixture(autouse=True)
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    ran: list[list[str]] = []

    def run(argv: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        ran.append(argv)
        return subprocess.CompletedProcess(argv, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    return ran


def test_without_endpoints_there_is_nothing_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("PROMETHEUS_URL", "JAEGER_URL", "LOKI_URL"):
        monkeypatch.delenv(variable, raising=False)
    assert [finding for rule in telemetry_rules.RULES for finding in rule(healthy())] == []


def test_an_endpoint_that_does_not_answer_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS_URL", "http://127.0.0.1:1")
    assert telemetry.metric("up") == []
    assert telemetry.firing("shop") == []


def storm(monkeypatch: pytest.MonkeyPatch, *, depth: float, attempts: str = "3") -> Any:
    world = healthy()
    container(world, "web")["env"] = [
        {"name": "CART_MAX_ATTEMPTS", "value": attempts},
        {"name": "CART_TIMEOUT_MS", "value": "750"},
    ]
    container(world, "cart")["env"] = [{"name": "QUEUE_CAPACITY", "value": "256"}]
    answers = {
        "queue_depth": vector(({}, depth)),
        "max_over_time": vector(({}, 40.0)),
        "client_requests_total": FAILING,
        "requests_total": vector(({}, 8.0)),
    }
    monkeypatch.setattr(telemetry, "_ask", Recorded(**answers))
    return list(telemetry_rules.retry_storm(world))


def test_a_retry_storm_is_named_and_calmed(monkeypatch: pytest.MonkeyPatch, commands: list[list[str]]) -> None:
    [finding] = storm(monkeypatch, depth=250)
    assert finding.weight == LIKELY
    for part in ("Deployment web", "Deployment cart", "CART_MAX_ATTEMPTS=3", "CART_TIMEOUT_MS=750", "80%", "burst"):
        assert part in finding.text
    finding.repair()
    patches = [json.loads(argv[argv.index("-p") + 1]) for argv in commands if "patch" in argv]
    changed = [p["spec"]["template"]["spec"]["containers"][0]["env"][0] for p in patches]
    assert changed == [{"name": "CART_MAX_ATTEMPTS", "value": "1"}, {"name": "QUEUE_CAPACITY", "value": "10"}]


def test_no_storm_where_the_queue_is_empty_or_nothing_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert storm(monkeypatch, depth=3) == []
    assert storm(monkeypatch, depth=250, attempts="1") == []


def test_a_throttled_container_is_given_room(monkeypatch: pytest.MonkeyPatch) -> None:
    world = healthy()
    container(world, "stock")["name"] = "stock-main"
    container(world, "stock")["resources"] = {"limits": {"cpu": "10m"}}
    labels = {"alertname": "ContainerThrottled", "namespace": "shop", "container": "stock-main"}
    alerts = [{"state": "firing", "labels": labels}, {"state": "firing", "labels": {**labels, "namespace": "other"}}]
    monkeypatch.setattr(telemetry, "_ask", Recorded(alerts={"data": {"alerts": alerts}}))
    [finding] = telemetry_rules.throttled(world)
    assert "CPU limit of 10m" in finding.text


def test_failed_requests_are_followed_to_where_they_fail_first(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = {"data": {"result": [{"values": [["1", "old"], ["2", "denied: keeper"]]}]}}
    answers: dict[str, Answer] = {
        "/api/traces": {"data": [TRACE]},
        "/loki/": lines,
        "client_requests_total": vector(({"service": "web", "peer": "srv-cart"}, 1.0)),
        "requests_total": vector(({"service": "web"}, 1.0), ({"service": "cart"}, 1.0)),
    }
    monkeypatch.setattr(telemetry, "_ask", Recorded(**answers))
    [finding] = telemetry_rules.where_requests_fail(healthy())
    assert finding.weight == VAGUE
    assert "fail at Deployment cart: no such user (1 of" in finding.text
    assert "denied: keeper" in finding.text


def test_the_playbook_asks_them_last() -> None:
    assert playbook.RULES[-len(telemetry_rules.RULES) :] == telemetry_rules.RULES
