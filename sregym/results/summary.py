"""Totals of attempts: how many passed of those that were scored, with an interval, and what was not scored and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sregym.results.record import AttemptRecord, Grade, Status, Usage

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Passed out of scored. `low` and `high` are the Wilson score interval; None where nothing was scored."""

    passed: int
    scored: int
    low: float | None
    high: float | None

    @property
    def share(self) -> float | None:
        return self.passed / self.scored if self.scored else None

    @classmethod
    def of(cls, passed: int, scored: int) -> Rate:
        """The rate with its interval at 95 %."""
        if not scored:
            return cls(passed=0, scored=0, low=None, high=None)
        from scipy.stats import binomtest  # takes a second to import, which only tables have to pay

        interval = binomtest(passed, scored).proportion_ci(CONFIDENCE, method="wilson")
        return cls(passed=passed, scored=scored, low=float(interval.low), high=float(interval.high))

    @classmethod
    def counted(cls, grades: Iterable[Grade]) -> Rate:
        """The rate among the grades that are no UNSCORED."""
        scored = [one for one in grades if one is not Grade.UNSCORED]
        return cls.of(sum(one is Grade.PASSED for one in scored), len(scored))


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Of one agent, or of any other set of attempts.

    Diagnosis and mitigation count every attempt in which that task was scored, unless the attempt is void (see
    `AttemptRecord.counted`); end-to-end counts those in which both were.
    """

    attempts: int
    by_status: Mapping[Status, int]
    diagnosis: Rate
    mitigation: Rate
    end_to_end: Rate
    diagnosis_unscored: int
    mitigation_unscored: int
    timed_out: int
    mean_ttd_s: float | None
    mean_ttm_s: float | None
    """Time-outs enter the means at the cap."""
    tokens_in: int
    tokens_out: int
    cost_usd: float | None
    """Of all attempts that called a model; None where one of them has no known cost."""
    budgets_spent: int


def summarise(records: Sequence[AttemptRecord]) -> Summary:
    """The totals of some attempts."""
    ran = [one for one in records if one.status in (Status.GRADED, Status.UNSCORED)]
    diagnoses, mitigations = [one.counted[0] for one in ran], [one.counted[1] for one in ran]
    statuses = Counter(one.status for one in records)
    return Summary(
        attempts=len(records),
        by_status={status: statuses[status] for status in Status},
        diagnosis=Rate.counted(diagnoses),
        mitigation=Rate.counted(mitigations),
        end_to_end=Rate.counted(one.end_to_end for one in ran),
        diagnosis_unscored=diagnoses.count(Grade.UNSCORED),
        mitigation_unscored=mitigations.count(Grade.UNSCORED),
        timed_out=sum(one.times.timed_out for one in ran),
        mean_ttd_s=_mean(one.times.ttd_s for one in ran),
        mean_ttm_s=_mean(one.times.ttm_s for one in ran),
        tokens_in=sum(one.usage.tokens_in for one in records),
        tokens_out=sum(one.usage.tokens_out for one in records),
        cost_usd=_cost([one.usage for one in records if one.usage.calls]),
        budgets_spent=sum(one.usage.budget_spent for one in records),
    )


def _cost(used: Sequence[Usage]) -> float | None:
    known = [one.cost_usd for one in used if one.cost_usd is not None]
    return sum(known) if known and len(known) == len(used) else None


def _mean(values: Iterable[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return sum(known) / len(known) if known else None
