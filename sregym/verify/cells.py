"""What is tested of a problem, as data, and what came out.

A cell is one claim that the problem makes: "healthy passes", "this cheat fails". It is RIGHT or WRONG, or UNKNOWN when
something could not be looked at: unknown is not right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sregym.api.grading import Verdict, VerdictState
from sregym.api.problem import Problem
from sregym.api.repair import KubectlCall, Repair, Step


class CellKind(StrEnum):
    """The cells, in the order in which they are tested."""

    DIAGNOSIS = "diagnosis"
    HEALTHY = "healthy"
    INJECT = "inject"
    NOTHING = "nothing"
    CHEAT = "cheat"
    REPAIR = "repair"
    RESTART = "restart"
    RESTORED = "restored"


class Outcome(StrEnum):
    RIGHT = "right"
    WRONG = "wrong"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """One cell. `seconds` is all that it took, `hold_s` the part of it that was proof windows."""

    kind: CellKind
    name: str
    expected: str
    seen: str
    outcome: Outcome
    why: str = ""
    seconds: float = 0.0
    hold_s: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return {
            "cell": self.kind,
            "name": self.name,
            "expected": self.expected,
            "seen": self.seen,
            "outcome": self.outcome,
            "why": self.why,
            "seconds": round(self.seconds, 1),
            "hold_s": round(self.hold_s, 1),
        }

    @classmethod
    def judged(
        cls, kind: CellKind, name: str, *, passes: bool, verdict: Verdict, seconds: float = 0.0, note: str = ""
    ) -> CellResult:
        """The cell that a verdict amounts to, where it should have passed or failed."""
        expected = VerdictState.PASSED if passes else VerdictState.FAILED
        outcome = Outcome.RIGHT if verdict.state is expected else Outcome.WRONG
        if verdict.state is VerdictState.UNSCORED:
            outcome = Outcome.UNKNOWN
        why = "; ".join(one for one in (note, *verdict.reasons) if one)
        return cls(
            kind=kind,
            name=name,
            expected=expected,
            seen=verdict.state,
            outcome=outcome,
            why=why,
            seconds=seconds,
            hold_s=verdict.hold_s,
        )


@dataclass(frozen=True, kw_only=True)
class Report:
    """All cells of one problem. `skipped` says why nothing was tested, `error` why the test ended early."""

    problem_id: str
    profile: str
    cells: Sequence[CellResult] = ()
    seconds: float = 0.0
    skipped: str = ""
    error: str = ""
    deployments: int = 0
    """How often the application was deployed; once, unless a cell left it beyond repair."""

    @property
    def right(self) -> bool:
        """Every cell is right, and none is left out by an error."""
        return not self.error and all(one.outcome is Outcome.RIGHT for one in self.cells)

    @property
    def hold_s(self) -> float:
        return sum(one.hold_s for one in self.cells)

    def as_json(self) -> dict[str, Any]:
        return {
            "problem": self.problem_id,
            "profile": self.profile,
            "right": self.right and not self.skipped,
            "skipped": self.skipped,
            "error": self.error,
            "seconds": round(self.seconds, 1),
            "hold_s": round(self.hold_s, 1),
            "seconds_without_hold": round(self.seconds - self.hold_s, 1),
            "deployments": self.deployments,
            "cells": [one.as_json() for one in self.cells],
        }


@dataclass(frozen=True)
class RestartEverything(Step):
    """A roll-out restart of every Deployment of the application: what a tired engineer tries first."""

    def kubectl(self, namespace: str) -> KubectlCall:
        return KubectlCall(argv=("rollout", "restart", "deployment", "--namespace", namespace), within=120.0)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A repair that is tried on the incident, and whether it must pass."""

    kind: CellKind
    repair: Repair
    passes: bool


def trials(problem: Problem, kinds: Sequence[CellKind]) -> list[Trial]:
    """What is tried on the incident, in an order that costs few injections: what leaves it on comes first.

    Restarting everything comes last: it may leave the application worse than the fault did.
    """
    every = [Trial(kind=CellKind.NOTHING, repair=Repair(name="do nothing", steps=()), passes=False)]
    every += [Trial(kind=CellKind.CHEAT, repair=one, passes=False) for one in problem.cheats()]
    every += [Trial(kind=CellKind.REPAIR, repair=one, passes=True) for one in problem.repairs()]
    restart = Repair(name="restart everything", steps=(RestartEverything(),))
    every.append(Trial(kind=CellKind.RESTART, repair=restart, passes=problem.restart_repairs))
    return [one for one in every if one.kind in kinds]
