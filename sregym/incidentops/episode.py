"""One incident from the page to its end, as plain Python: no server, no OpenEnv, no model.

`Episode.step` carries out one tool call, lets one minute pass, and says what the agent sees and what it is
worth. Same instance and same calls give the same bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from sregym.incidentops import rootcause, scoring
from sregym.incidentops.errors import EpisodeError, ToolError
from sregym.incidentops.scoring import End, Ledger, Score
from sregym.incidentops.server import tools
from sregym.incidentops.server.tools import Reading, Tool
from sregym.incidentops.world.instance import Cause, Instance, When
from sregym.incidentops.world.simulation import World

LOOK_AHEAD = 8  # ticks that a resolved company must go on being healthy


@dataclass(frozen=True, kw_only=True, slots=True)
class StepResult:
    """What one step gave."""

    tool: str
    ok: bool
    result: dict[str, Any]
    error: str | None
    reward: float
    parts: dict[str, float]  # what the reward is made of
    done: bool
    step: int
    steps_left: int
    clock: str
    score: Score | None = None


class Episode:
    """A running incident."""

    def __init__(self, instance: Instance, *, world: World | None = None, ledger: Ledger | None = None) -> None:
        self.instance = instance
        if world is None:
            world = World(instance)
            world.play_history()
        self.world = world
        count = len(instance.causes)
        self.ledger = ledger or Ledger(fixed=[False] * count, clues_at_fix=[-1] * count, verified=[False] * count)
        self.reward_sum = 0.0
        self.score: Score | None = None

    def fork(self) -> Episode:
        """An independent copy that can be played on (for search). It holds no log lines and no alerts of the past."""
        old = self.ledger
        kept = replace(
            old,
            clues=list(old.clues),
            read=list(old.read),
            fixed=list(old.fixed),
            clues_at_fix=list(old.clues_at_fix),
            verified=list(old.verified),
        )
        other = Episode(self.instance, world=self.world.fork(), ledger=kept)
        other.reward_sum, other.score = self.reward_sum, self.score
        return other

    @property
    def done(self) -> bool:
        """Whether the episode has ended."""
        return self.score is not None

    def briefing(self) -> dict[str, Any]:
        """What the page says: the incident, not its cause."""
        firing = self.world.alerts.firing()
        ranked = sorted(firing, key=lambda alert: self._page_rank(alert.service, alert.rule))
        first = ranked[0] if ranked else None
        return {
            "incident_id": self.instance.incident_id,
            "title": self.instance.title if self.instance.level != "hard" else "Paged: customers are affected",
            "severity": self.instance.severity,
            "opened_at": self.world.time_of(0),
            "page": f"{first.rule} on {first.service}: {first.text}" if first else "customers report trouble",
            "services": {name: service.summary for name, service in self.world.company.services.items()},
            "goal": (
                "Find the root cause, repair it with the fewest safe changes, verify with run_healthcheck, "
                "then call resolve_incident. Each call takes one minute."
            ),
            "max_steps": self.instance.max_steps,
        }

    def _page_rank(self, service: str, rule: str) -> tuple[int, int]:
        """Easy incidents page for the cause, the others for what customers see first."""
        at_cause = service in {cause.component for cause in self.instance.causes}
        order = self.world.names.index(service)
        if rule == "CpuHigh":
            order += 20
        return (0 if at_cause else 1, order) if self.instance.level == "easy" else (0, order)

    # --- a step ----------------------------------------------------------------------------------------------

    def step(self, tool_name: str, arguments: object) -> StepResult:
        """Carry out one call.

        Raises:
            EpisodeError: the episode has ended.
        """
        if self.done:
            raise EpisodeError("this episode has ended; reset to start another")
        self.ledger.steps += 1
        parts: dict[str, float] = {}
        reading, error = Reading(result={}), None
        try:
            tool, checked = tools.check(tool_name, arguments)
            reading = self._run(tool, checked, parts)
        except ToolError as problem:
            error, parts["invalid"] = str(problem), scoring.INVALID
        finished = error is None and tool_name == "resolve_incident"
        if not finished:
            self.world.tick()
            if self.ledger.steps >= self.instance.max_steps:
                parts["out_of_steps"] = scoring.OUT_OF_STEPS
                self.score = self._grade(root_cause=0.0)
        reward = round(math.fsum(parts.values()), 6)
        self.reward_sum = round(self.reward_sum + reward, 6)
        return StepResult(
            tool=str(tool_name)[:64],
            ok=error is None,
            result=reading.result,
            error=error,
            reward=reward,
            parts=parts,
            done=self.done,
            step=self.ledger.steps,
            steps_left=self.instance.max_steps - self.ledger.steps,
            clock=self.world.time_of(self.world.tick_now),
            score=self.score,
        )

    def _run(self, tool: Tool, checked: dict[str, Any], parts: dict[str, float]) -> Reading:
        if tool.changes:
            return self._change(tool, checked, parts)
        reading = tool.run(self.world, checked)
        if tool.name == "resolve_incident":
            self._resolve(checked, parts)
        else:
            self._learn(tool, checked, reading, parts)
        return reading

    # --- diagnosis -------------------------------------------------------------------------------------------

    def _learn(self, tool: Tool, checked: dict[str, Any], reading: Reading, parts: dict[str, float]) -> None:
        service = checked.get("service")
        if service is not None and service not in self.ledger.read:
            self.ledger.read.append(service)
        found = [clue for clue in self._clues(tool.name, service, reading) if clue not in self.ledger.clues]
        if found:
            self.ledger.clues.extend(found)
            parts["diagnostic"] = scoring.DIAGNOSTIC

    def _clues(self, tool: str, service: str | None, reading: Reading) -> list[str]:
        if tool == "get_alerts":
            return ["-/get_alerts"]
        clues = [f"{cause}/search_logs" for cause in sorted(reading.log_clues)]
        for number, cause in enumerate(self.instance.causes):
            if tool == "run_healthcheck":
                if reading.healthy and service == cause.component and self._passed(cause):
                    self.ledger.verified[number] = True
                    clues.append(f"{number}/verified")
            elif tool != "search_logs" and any(
                call.tool == tool and call.arguments.get("service") == service for call in cause.evidence
            ):
                clues.append(f"{number}/{tool}")
        return clues

    def _passed(self, cause: Cause) -> bool:
        return cause.when is None or not self.world.holds(cause.when)

    # --- changes ---------------------------------------------------------------------------------------------

    def _change(self, tool: Tool, checked: dict[str, Any], parts: dict[str, float]) -> Reading:
        service = str(checked["service"])
        before = [self._holds(cause.when) for cause in self.instance.causes]
        waiting = self.world.services[service].stored != self.world.services[service].running
        broken = sum(len(state.broken) for state in self.world.services.values())
        reading = tool.run(self.world, checked)
        after = [self._holds(cause.when) for cause in self.instance.causes]
        self.ledger.changes += 1
        self.ledger.verified = [False] * len(self.ledger.verified)
        fixes = [number for number, (was, now) in enumerate(zip(before, after, strict=True)) if was and not now]
        first = [number for number in fixes if not self.ledger.fixed[number]]
        for number in first:
            self.ledger.fixed[number] = True
            self.ledger.clues_at_fix[number] = self.ledger.clue_count(number)
        harm = any(now and not was for was, now in zip(before, after, strict=True)) or broken < sum(
            len(state.broken) for state in self.world.services.values()
        )
        needed = bool(fixes) or (tool.name == "restart_service" and (waiting or self._restart_belongs(service)))
        if not needed:
            self.ledger.unneeded += 1
        self._reward_change(service, parts, harm=harm, needed=needed, first=bool(first))
        return reading

    def _holds(self, when: When | None) -> bool:
        return when is not None and self.world.holds_as_stored(when)

    def _restart_belongs(self, service: str) -> bool:
        """A restart that frees what a repaired cause left behind."""
        for number, cause in enumerate(self.instance.causes):
            if self.ledger.fixed[number] and any(
                call.tool == "restart_service" and call.arguments["service"] == service for call in cause.repair
            ):
                return bool(self.world.healthy(service))
        return False

    def _reward_change(self, service: str, parts: dict[str, float], *, harm: bool, needed: bool, first: bool) -> None:
        if service not in self.ledger.read:
            self.ledger.blind += 1
            parts["blind_action"] = scoring.BLIND
        elif harm:
            parts["harmful_fix"] = scoring.HARMFUL_FIX
        elif first:
            parts["correct_fix"] = scoring.FIX
        elif not needed:
            parts["wrong_fix"] = scoring.WRONG_FIX

    # --- the end ---------------------------------------------------------------------------------------------

    def _resolve(self, checked: dict[str, Any], parts: dict[str, float]) -> None:
        self.ledger.resolved = True
        right = rootcause.match(rootcause.parse(checked["root_cause"]), self.instance.causes)
        self.score = self._grade(root_cause=right)
        parts["terminal"] = round(scoring.TERMINAL * self.score.score, 6)
        if right < 1.0:
            parts["wrong_root_cause"] = round(scoring.WRONG_ROOT_CAUSE * (1.0 - right), 6)
        if self.score.resolution < 1.0:
            parts["not_resolved"] = round(scoring.NOT_RESOLVED * (1.0 - self.score.resolution), 6)

    def graded_now(self, root_cause: float) -> Score:
        """The score of closing now with a root cause that is right to this degree; nothing is closed."""
        ledger = replace(self.ledger, steps=self.ledger.steps + 1, resolved=True)
        return scoring.grade(
            ledger=ledger,
            end=self.end(),
            root_cause=root_cause,
            par=self.instance.par_steps,
            limit=self.instance.max_steps,
        )

    def end(self) -> End:
        """The world as it would be judged now."""
        gone = tuple(self._passed(cause) for cause in self.instance.causes)
        return End(
            gone=gone,
            nothing_to_repair=all(cause.when is None for cause in self.instance.causes),
            healthy_now=self.world.all_healthy(),
            healthy_later=all(gone) and self._healthy_later(),
        )

    def _healthy_later(self) -> bool:
        ahead = self.world.fork()
        for _ in range(LOOK_AHEAD):
            ahead.tick()
        return ahead.all_healthy()

    def _grade(self, *, root_cause: float) -> Score:
        return scoring.grade(
            ledger=self.ledger,
            end=self.end(),
            root_cause=root_cause,
            par=self.instance.par_steps,
            limit=self.instance.max_steps,
        )
