"""Records for tests, as a coordinator would make them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

from sregym.api.grading import Verdict
from sregym.cluster.check import Observation, State
from sregym.judge import OfflineJudge
from sregym.results import (
    AgentFacts,
    AttemptRecord,
    DiagnosisRecord,
    MitigationRecord,
    ProblemFacts,
    Status,
    SubmissionRecord,
    Times,
    Usage,
)
from tests.unit.judge.truths import MISSING_KEY, ask

BEGUN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
RIGHT = "ConfigMap geo-config lacks the key GeoMongoAddress, so geo crashes and hotel search fails."
PASSED = Verdict.of(
    Observation(check="whole app serves", state=State.HOLDS, evidence={"ok": 40, "sent": 40}), hold_s=30
)
FAILED = Verdict.of(
    Observation(
        check="all of",
        state=State.NOT_YET,
        parts=[
            Observation(check="search serves", state=State.NOT_YET, reason="0 of 12 requests succeeded"),
            Observation(check="geo ready", state=State.HOLDS),
        ],
    )
)
UNSEEN = Verdict.unscored("traffic: the load generator is silent")


def judged(text: str) -> DiagnosisRecord:
    judgement = asyncio.run(OfflineJudge().grade(ask(text, MISSING_KEY)))
    return DiagnosisRecord.of(judgement, submission=text, seconds=0.1)


def unscored_diagnosis() -> DiagnosisRecord:
    return DiagnosisRecord.unscored(
        submission=RIGHT, error="no usable answer after 6 tries", judge="some/model", tau=Fraction(7, 9)
    )


def attempt(
    problem: str = "missing_config_key_hotel_reservation",
    *,
    agent: str = "playbook",
    number: int = 1,
    diagnosis: DiagnosisRecord | None = None,
    mitigation: Verdict | None = None,
    status: Status = Status.GRADED,
    reason: str = "",
    minutes: int = 0,
    **more: Any,
) -> AttemptRecord:
    begun = BEGUN + timedelta(minutes=minutes)
    return AttemptRecord(
        problem=ProblemFacts(
            id=problem,
            primitive="ConfigKeyMissing",
            revision=1,
            app="hotel-reservation",
            fault_class="misconfiguration",
            layer="application",
            provenance="new",
            params={"configmap": "geo-config", "key": "GeoMongoAddress"},
        ),
        agent=AgentFacts(name=agent, leaderboard=agent != "reference"),
        attempt=number,
        profile="lite",
        status=status,
        reason=reason,
        diagnosis=diagnosis,
        mitigation=MitigationRecord.of(mitigation, seconds=31.0) if mitigation else None,
        submissions=(SubmissionRecord(stage="diagnosis", text=RIGHT, at_s=12.5),),
        times=Times(
            started_at=begun,
            ended_at=begun + timedelta(seconds=120),
            phases_s={"deploy": 20.1, "inject": 6.0, "mitigation_check": 31.0, "restore": 4.0},
            hold_s=30.0,
            agent_s=40.0,
            overhead_s=31.1,
            ttd_s=more.pop("ttd_s", 12.5),
            ttm_s=more.pop("ttm_s", 40.0),
            timed_out=more.pop("timed_out", False),
            agent_timeout_s=1800.0,
        ),
        usage=more.pop("usage", Usage()),
        world_equal=True,
        **more,
    )
