"""What grading says: passed, failed with reasons, or unscored with the error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from sregym.cluster.check import Observation, State


class VerdictState(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    UNSCORED = "unscored"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The outcome of an oracle. `observations` are all the looks that it rests on, with their evidence."""

    state: VerdictState
    reasons: Sequence[str] = ()
    observations: Sequence[Observation] = ()
    hold_s: float = 0.0
    """Seconds spent in proof windows, reported apart from overhead."""

    @property
    def passed(self) -> bool:
        return self.state is VerdictState.PASSED

    @classmethod
    def of(cls, seen: Observation, *, hold_s: float = 0.0) -> Verdict:
        """The verdict that one look amounts to: UNKNOWN is UNSCORED, anything else that does not hold is FAILED."""
        if seen.holds:
            return cls(state=VerdictState.PASSED, observations=[seen], hold_s=hold_s)
        state = VerdictState.UNSCORED if seen.state is State.UNKNOWN else VerdictState.FAILED
        reasons = [f"{leaf.check}: {leaf.reason}" for leaf in seen.leaves() if not leaf.holds] or [seen.reason]
        return cls(state=state, reasons=reasons, observations=[seen], hold_s=hold_s)

    @classmethod
    def unscored(cls, reason: str) -> Verdict:
        return cls(state=VerdictState.UNSCORED, reasons=[reason])
