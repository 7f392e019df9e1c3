"""The ten tools of an on-call engineer: their JSON schemas, the check of arguments, and what they do.

A tool reads or changes the world and returns a `Reading`. It knows nothing about rewards; which readings are
evidence is said in the reading (`clues`), so that the episode can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sregym.incidentops import rootcause
from sregym.incidentops.errors import ToolError
from sregym.incidentops.mechanisms import MECHANISMS
from sregym.incidentops.world.simulation import World
from sregym.incidentops.world.state import Sample
from sregym.incidentops.world.topology import Setting, Value, company

MAX_TEXT = 2000
MAX_SHORT = 200
SERIES = 12  # samples of a metric that are shown


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What a tool gives back."""

    result: dict[str, Any]
    log_clues: frozenset[int] = frozenset()  # causes that a returned log line is evidence of
    healthy: bool = False  # a healthcheck that passed


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """One tool. `changes` says that it changes the world."""

    name: str
    description: str
    parameters: dict[str, dict[str, Any]]
    run: Callable[[World, dict[str, Any]], Reading]
    changes: bool = False
    optional: frozenset[str] = field(default=frozenset())

    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        return {
            "type": "object",
            "properties": self.parameters,
            "required": [name for name in self.parameters if name not in self.optional],
            "additionalProperties": False,
        }


def check(name: str, arguments: object) -> tuple[Tool, dict[str, Any]]:
    """The tool and its checked arguments.

    Raises:
        ToolError: unknown tool, or arguments that do not follow its schema; the text says what would.
    """
    tool = TOOLS.get(name) if isinstance(name, str) else None
    if tool is None:
        raise ToolError(f"unknown tool {str(name)[:40]!r}; known: {', '.join(TOOLS)}")
    if not isinstance(arguments, Mapping):
        raise ToolError(f"arguments of {tool.name} must be an object, not {type(arguments).__name__}")
    extra = [str(key)[:40] for key in arguments if key not in tool.parameters]
    if extra:
        raise ToolError(f"{tool.name} takes {_names(tool)}; unknown: {', '.join(extra[:5])}")
    checked: dict[str, Any] = {}
    for key, spec in tool.parameters.items():
        if key not in arguments:
            if key in tool.optional:
                continue
            raise ToolError(f"{tool.name} needs {_names(tool)}; {key} is missing")
        checked[key] = _argument(tool.name, key, spec, arguments[key])
    return tool, checked


def _names(tool: Tool) -> str:
    return f"({', '.join(tool.parameters)})" if tool.parameters else "no arguments"


def _argument(tool: str, key: str, spec: Mapping[str, Any], value: object) -> Value:
    kinds = spec["type"] if isinstance(spec["type"], list) else [spec["type"]]
    if not any(_is(value, kind) for kind in kinds):
        raise ToolError(f"{tool}: {key} must be {' or '.join(kinds)}, not {type(value).__name__}")
    assert isinstance(value, str | int | bool)  # `_is` holds this
    if isinstance(value, str):
        if len(value) > spec.get("maxLength", MAX_SHORT):
            raise ToolError(f"{tool}: {key} has {len(value)} characters, at most {spec.get('maxLength')} are read")
        if "enum" in spec and value not in spec["enum"]:
            raise ToolError(f"unknown service {value[:40]!r}; known: {', '.join(spec['enum'])}")
    elif abs(value) > 10**12:
        raise ToolError(f"{tool}: {key} is out of range")
    return value


def _is(value: object, kind: str) -> bool:
    if kind == "string":
        return isinstance(value, str)
    if kind == "boolean":
        return isinstance(value, bool)
    return isinstance(value, int) and not isinstance(value, bool)


# --- readings ---------------------------------------------------------------------------------------------


def get_alerts(world: World, _: dict[str, Any]) -> Reading:
    """Alerts that fire, and those that resolved in the last minutes."""
    rows = []
    for alert in world.alerts.alerts:
        if alert.until is not None and world.tick_now - alert.until > 10:
            continue
        row: dict[str, Any] = {
            "alert": alert.rule,
            "service": alert.service,
            "severity": alert.severity,
            "state": alert.state,
            "since": world.time_of(alert.since),
            "detail": alert.text,
        }
        if alert.until is not None:
            row["resolved_at"] = world.time_of(alert.until)
        rows.append(row)
    rows.sort(key=lambda row: (row["state"] != "firing", row["since"], row["service"], row["alert"]))
    return Reading(result={"firing": sum(row["state"] == "firing" for row in rows), "alerts": rows})


def search_logs(world: World, arguments: dict[str, Any]) -> Reading:
    """Lines of one service that hold every word of the query (case does not matter), newest last."""
    service, words = arguments["service"], str(arguments.get("query", "")).lower().split()
    hits = []
    for line in world.logs:
        if line.service == service:
            text = f"{line.level} {line.text}".lower()
            if all(word in text for word in words):
                hits.append(line)
    hits.sort(key=lambda line: (line.tick, line.second))
    page = hits[-world.instance.log_page :]
    return Reading(
        result={
            "service": service,
            "matches": len(hits),
            "shown": len(page),
            "lines": [f"{world.time_of(line.tick, line.second)} {line.level} {service} {line.text}" for line in page],
        },
        log_clues=frozenset(line.clue for line in page if line.clue >= 0),
    )


def get_metrics(world: World, arguments: dict[str, Any]) -> Reading:
    """The last minutes of one service's metrics, one sample a minute."""
    name = arguments["service"]
    service, state = company().services[name], world.services[name]
    samples = [tick[name] for tick in world.metrics[-SERIES:]]
    last: Sample = samples[-1]
    series = {
        "requests_per_s": [round(s.rps, 1) for s in samples],
        "error_rate_pct": [round(100 * s.error, 2) for s in samples],
        "p95_latency_ms": [round(s.p95_ms) for s in samples],
        "cpu_pct": [round(s.cpu_pct, 1) for s in samples],
        "memory_mib": [round(s.memory_mb) for s in samples],
        "disk_used_pct": [round(s.disk_pct, 1) for s in samples],
        "db_connections_in_use": [round(s.connections) for s in samples],
    }
    if service.queue_depth is not None:
        series["queue_depth_messages"] = [round(s.queue) for s in samples]
    if service.replication:
        series["read_lag_s"] = [round(s.lag_s, 1) for s in samples]
    return Reading(
        result={
            "service": name,
            "interval_s": 60,
            "until": world.time_of(world.tick_now),
            "series": series,
            "limits": {
                "capacity_requests_per_s": service.capacity_rps,
                "memory_limit_mib": service.memory_limit_mb,
                "db_connections_limit": last.connection_limit,
                "p95_objective_ms": service.slo_p95_ms,
            },
            "process_restarts": state.restarts,
            "calls": list(service.calls),
        }
    )


def inspect_config(world: World, arguments: dict[str, Any]) -> Reading:
    """Every setting of one service: what runs, what the repository declares, what waits for a restart."""
    name = arguments["service"]
    state = world.services[name]
    rows = []
    for key, setting in sorted(world.instance.settings[name].items()):
        row: dict[str, Any] = {
            "key": key,
            "value": state.running[key],
            "declared": world.instance.declared[name][key],
            "type": setting.type,
            "reload": setting.reload,
        }
        if state.stored[key] != state.running[key]:
            row["after_restart"] = state.stored[key]
        rows.append(row)
    return Reading(result={"service": name, "version": state.version, "settings": rows})


def get_recent_deploys(world: World, arguments: dict[str, Any]) -> Reading:
    """Releases of one service, newest first, and changes made by hand since the page."""
    name = arguments["service"]
    state = world.services[name]
    rows = []
    for deploy in reversed(state.deploys):
        status = "live" if deploy.version == state.version else "superseded"
        if deploy.version in state.rolled_back:
            status = "rolled back"
        days, minutes = divmod(-deploy.tick, 1440)
        rows.append(
            {
                "version": deploy.version,
                "previous": deploy.previous,
                "status": status,
                "author": deploy.author,
                "age_at_page": f"{days}d {minutes // 60}h" if days else f"{minutes} min",
                "summary": deploy.summary,
                "diff": list(deploy.diff),
            }
        )
    manual = [f"{world.time_of(c.tick)} {c.text}" for c in world.changes if c.service == name]
    return Reading(result={"service": name, "deploys": rows, "manual_changes": manual})


def run_healthcheck(world: World, arguments: dict[str, Any]) -> Reading:
    """Probe one service now, and what it calls."""
    name = arguments["service"]
    reasons = world.healthy(name)
    below = [callee for callee in company().services[name].calls if world.healthy(callee)]
    status = "unhealthy" if reasons and world.metrics[-1][name].error > 0.2 else "degraded" if reasons else "healthy"
    result = {"service": name, "status": status, "reasons": reasons, "unhealthy_dependencies": below}
    return Reading(result=result, healthy=not reasons)


# --- changes ----------------------------------------------------------------------------------------------


def rollback_deploy(world: World, arguments: dict[str, Any]) -> Reading:
    """Go back to the release before the live one."""
    name = arguments["service"]
    live = world.roll_back(name)
    if live is None:
        raise ToolError(f"{name} runs {world.services[name].version}, the oldest release that is kept")
    text = f"rolling back {live.version} -> {live.previous}; instances restart one after another"
    return Reading(result={"service": name, "status": "accepted", "detail": text})


def patch_config(world: World, arguments: dict[str, Any]) -> Reading:
    """Change one existing setting."""
    name, key = arguments["service"], arguments["key"]
    settings = world.instance.settings[name]
    if key not in settings:
        raise ToolError(f"{name} has no setting {key[:60]!r}; it has: {', '.join(sorted(settings))}")
    value = _coerce(settings[key], arguments["value"])
    world.patch(name, key, value)
    effect = "active now" if settings[key].reload == "hot" else f"stored; {name} loads it when it restarts"
    return Reading(result={"service": name, "key": key, "value": value, "status": effect})


def _coerce(setting: Setting, raw: Value) -> Value:
    if setting.type == "str":
        return raw if isinstance(raw, str) else str(raw).lower() if isinstance(raw, bool) else str(raw)
    text = str(raw).strip().lower()
    if setting.type == "bool":
        if text in ("true", "false"):
            return text == "true"
        raise ToolError(f"{setting.key} is a bool; give true or false, not {text[:40]!r}")
    digits = text[1:] if text.startswith("-") else text
    if isinstance(raw, bool) or not (digits.isascii() and digits.isdigit() and len(digits) <= 12):
        raise ToolError(f"{setting.key} is an int; got {text[:40]!r}")
    return int(text)


def restart_service(world: World, arguments: dict[str, Any]) -> Reading:
    """Restart the instances of one service one after another."""
    name = arguments["service"]
    world.restart(name)
    return Reading(result={"service": name, "status": "accepted", "detail": "instances restart one after another"})


def resolve_incident(world: World, arguments: dict[str, Any]) -> Reading:
    """Close the incident. The episode judges it; here only the form is checked."""
    if arguments["incident_id"] != world.instance.incident_id:
        raise ToolError(f"no open incident {arguments['incident_id'][:40]!r}; open: {world.instance.incident_id}")
    if not arguments["resolution"].strip():
        raise ToolError("resolution is empty; say in a sentence what was done")
    claims = rootcause.parse(arguments["root_cause"])
    read_as = [f"{claim.component}: {claim.mechanism}" for claim in claims]
    return Reading(
        result={"incident_id": world.instance.incident_id, "status": "closed", "root_cause_read_as": read_as}
    )


# --- the table ----------------------------------------------------------------------------------------------

_SERVICE = {"type": "string", "enum": company().names, "description": "one of the six services"}
_ROOT_CAUSE = (
    "`service: mechanism`; several causes joined by `;`. Mechanisms: "
    + ", ".join(MECHANISMS)
    + ". Use self_recovered when nothing had to be repaired."
)


def _text(description: str, length: int = MAX_SHORT) -> dict[str, Any]:
    return {"type": "string", "maxLength": length, "description": description}


TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(name="get_alerts", description="List alerts that fire or resolved lately.", parameters={}, run=get_alerts),
        Tool(
            name="search_logs",
            description="Newest log lines of a service that hold every word of the query. An empty query shows all.",
            parameters={"service": _SERVICE, "query": _text("words, all of which a line must hold; no syntax")},
            optional=frozenset({"query"}),
            run=search_logs,
        ),
        Tool(
            name="get_metrics",
            description="Metrics of a service over the last minutes, with units and limits.",
            parameters={"service": _SERVICE},
            run=get_metrics,
        ),
        Tool(
            name="inspect_config",
            description="Settings of a service: running value, declared value, and how a change is loaded.",
            parameters={"service": _SERVICE},
            run=inspect_config,
        ),
        Tool(
            name="get_recent_deploys",
            description="Releases of a service with author, age and diff, newest first, and manual changes.",
            parameters={"service": _SERVICE},
            run=get_recent_deploys,
        ),
        Tool(
            name="rollback_deploy",
            description="Roll a service back to the release before the live one, with the settings that came with it.",
            parameters={"service": _SERVICE},
            run=rollback_deploy,
            changes=True,
        ),
        Tool(
            name="patch_config",
            description="Change one existing setting of a service. Settings with reload=restart need a restart.",
            parameters={
                "service": _SERVICE,
                "key": _text("an existing key of inspect_config"),
                "value": {"type": ["string", "integer", "boolean"], "maxLength": MAX_SHORT, "description": "new value"},
            },
            run=patch_config,
            changes=True,
        ),
        Tool(
            name="restart_service",
            description="Restart a service's instances one after another; capacity is lower for a minute or two.",
            parameters={"service": _SERVICE},
            run=restart_service,
            changes=True,
        ),
        Tool(
            name="run_healthcheck",
            description="Probe a service now: healthy, degraded or unhealthy, and why.",
            parameters={"service": _SERVICE},
            run=run_healthcheck,
        ),
        Tool(
            name="resolve_incident",
            description="Close the incident with its root cause. Ends the episode; verify health first.",
            parameters={
                "incident_id": _text("the id of the open incident"),
                "root_cause": _text(_ROOT_CAUSE, MAX_TEXT),
                "resolution": _text("what was done, in a sentence", MAX_TEXT),
            },
            run=resolve_incident,
        ),
    )
}
