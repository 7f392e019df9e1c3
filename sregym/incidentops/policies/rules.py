"""A rule book without a model: suspects from alerts, evidence from logs, settings and releases, one repair.

It shows what plain heuristics reach: better than chance, worse than reading with understanding. It is told nothing
that an agent is not told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sregym.incidentops.episode import StepResult
from sregym.incidentops.world.instance import Call, Instance
from sregym.incidentops.world.topology import Value, company

SUSPECTS = 3
RECENT = " min"  # how a release of the last hours shows its age
CHECKS = 5

KEYWORDS = (  # words in error lines -> mechanism; first match wins
    (("certificate",), "expired certificate"),
    (("dead letter", "offset"), "poison message"),
    (("future", "skew"), "clock skew"),
    (("retry",), "retry storm"),
    (("no space",), "disk full"),
    (("memory",), "memory leak"),
    (("pool",), "connection pool exhaustion"),
    (("replica", "stale"), "stale replica"),
    (("instance", "schema version"), "partial rollout"),
    (("too many clients", "queue full"), "capacity limit"),
)


class Rules:
    """See the module. The generator yields calls and is sent what they returned."""

    name = "rules"

    def __init__(self, instance: Instance) -> None:
        self._script: Iterator[Call] | None = None
        self._last: StepResult | None = None

    def act(self, *, briefing: dict[str, Any], last: StepResult | None) -> Call:
        """The next line of the script."""
        self._last = last
        if self._script is None:
            self._script = self._play(briefing)
        return next(self._script)

    def _seen(self) -> dict[str, Any]:
        return self._last.result if self._last is not None else {}

    def _play(self, briefing: dict[str, Any]) -> Iterator[Call]:
        yield Call(tool="get_alerts")
        suspects = _suspects(self._seen().get("alerts", []))
        cause, culprit, repair = "self recovered", suspects[0], None
        for name in suspects:
            yield Call(tool="search_logs", arguments={"service": name, "query": ""})
            words = _mechanism(self._seen().get("lines", []))
            yield Call(tool="inspect_config", arguments={"service": name})
            settings = self._seen().get("settings", [])
            yield Call(tool="get_recent_deploys", arguments={"service": name})
            cause, repair = _judge(name, settings, self._seen().get("deploys", []), words)
            if repair is not None:
                culprit = name
                break
        if repair is not None:
            yield repair
            if repair.tool == "patch_config" and "restart" in str(self._seen().get("status", "")):
                yield Call(tool="restart_service", arguments={"service": culprit})
        for _ in range(CHECKS):
            yield Call(tool="run_healthcheck", arguments={"service": culprit})
            if self._seen().get("status") == "healthy":
                break
        while True:
            yield Call(
                tool="resolve_incident",
                arguments={
                    "incident_id": str(briefing["incident_id"]),
                    "root_cause": f"{culprit}: {cause}",
                    "resolution": "Applied the rule book.",
                },
            )


def _suspects(alerts: list[dict[str, Any]]) -> list[str]:
    """Services with alerts that fire, deepest in the call graph first."""
    firing = {row["service"] for row in alerts if row["state"] == "firing" and row["alert"] != "CpuHigh"}
    order = [name for name in reversed(company().names) if name in firing]
    return (order or ["api"])[:SUSPECTS]


def _mechanism(lines: list[str]) -> str | None:
    text = "\n".join(line.lower() for line in lines if " INFO " not in line)
    for words, mechanism in KEYWORDS:
        if any(word in text for word in words):
            return mechanism
    return None


def _judge(
    name: str, settings: list[dict[str, Any]], deploys: list[dict[str, Any]], words: str | None
) -> tuple[str, Call | None]:
    """(mechanism, repair) for a suspect; no repair when nothing stands out."""
    newest = deploys[0] if deploys else None
    fresh = newest is not None and newest["age_at_page"].endswith(RECENT) and newest["status"] == "live"
    if fresh and newest is not None:
        before = _old_setting(newest["diff"], settings)
        if before is not None:
            key, value = before
            patch = Call(tool="patch_config", arguments={"service": name, "key": key, "value": value})
            return words or "misconfiguration", patch
        return words or "bad deploy", Call(tool="rollback_deploy", arguments={"service": name})
    for row in settings:
        if row["value"] != row["declared"]:
            arguments: dict[str, Value] = {"service": name, "key": row["key"], "value": row["declared"]}
            return words or "config drift", Call(tool="patch_config", arguments=arguments)
    return words or "self recovered", None


def _old_setting(diff: list[str], settings: list[dict[str, Any]]) -> tuple[str, str] | None:
    keys = {row["key"] for row in settings}
    for line in diff:
        key, _, value = line.removeprefix("- ").partition(": ")
        if line.startswith("- ") and key in keys:
            return key, value.strip()
    return None
