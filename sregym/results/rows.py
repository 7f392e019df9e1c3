"""The CSV of a run: one row an attempt, the columns that tools of this field read.

Lists and mappings are JSON in their cell. A task that was not scored leaves `success` empty: it is neither right nor
wrong. The schema version stands in the last column.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping

from sregym.results.record import SCHEMA_VERSION, AttemptRecord, DiagnosisRecord, Grade, MitigationRecord, Status, Usage

_DIAGNOSIS = (
    "success",
    "accuracy",
    "judgment",
    "reasoning",
    "composite_score",
    "dimensions",
    "checklist",
    "submission",
    "error",
)
_MITIGATION = ("success", "reasons", "observations", "hold_s", "error")
SUBMISSION_LIMIT = 20_000
"""Characters of a submission in its cell; the whole of it stands in `attempt.json`."""
COLUMNS = (
    "problem_id",
    "attempt",
    *(f"Diagnosis.{name}" for name in _DIAGNOSIS),
    *(f"Mitigation.{name}" for name in _MITIGATION),
    "TTL",
    "TTM",
    "timed_out",
    "agent_timeout_seconds",
    "deploy_failed",
    "agent",
    "model",
    "profile",
    "status",
    "reason",
    "judge",
    "tau",
    "problem_revision",
    "end_to_end",
    "model_calls",
    "tokens_in",
    "tokens_out",
    "cached_tokens",
    "reasoning_tokens",
    "cost_usd",
    "budget_spent",
    "internet_access",
    "schema_version",
)


def text_of(records: Iterable[AttemptRecord]) -> str:
    """The whole CSV."""
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(row(one) for one in records)
    return out.getvalue()


def row(record: AttemptRecord) -> dict[str, str]:
    """One attempt as a row."""
    times = record.times
    cells: dict[str, object] = {
        "problem_id": record.problem.id,
        "attempt": record.attempt,
        **_prefixed("Diagnosis", _diagnosis(record.diagnosis)),
        **_prefixed("Mitigation", _mitigation(record.mitigation)),
        **_successes(record),
        "TTL": times.ttd_s,
        "TTM": times.ttm_s,
        "timed_out": times.timed_out,
        "agent_timeout_seconds": times.agent_timeout_s,
        "deploy_failed": record.status is Status.VOID and record.diagnosis is None and record.mitigation is None,
        "agent": record.agent.name,
        "model": record.agent.model,
        "profile": record.profile,
        "status": record.status.value,
        "reason": record.reason,
        "judge": record.diagnosis.judge if record.diagnosis else None,
        "tau": record.diagnosis.tau if record.diagnosis else None,
        "problem_revision": record.problem.revision,
        "end_to_end": _success(record.end_to_end),
        **_usage(record.usage),
        "internet_access": record.agent.internet_access,
        "schema_version": SCHEMA_VERSION,
    }
    return {name: _cell(cells.get(name)) for name in COLUMNS}


def _usage(used: Usage) -> dict[str, object]:
    """Empty where no model was called; the cost also where it is not known."""
    if not used.calls and not used.budget_spent:
        return {}
    return {
        "model_calls": used.calls,
        "tokens_in": used.tokens_in,
        "tokens_out": used.tokens_out,
        "cached_tokens": used.cached_tokens,
        "reasoning_tokens": used.reasoning_tokens,
        "cost_usd": used.cost_usd,
        "budget_spent": used.budget_spent,
    }


def _prefixed(task: str, cells: Mapping[str, object]) -> dict[str, object]:
    return {f"{task}.{name}": value for name, value in cells.items()}


def _successes(record: AttemptRecord) -> dict[str, object]:
    diagnosis, mitigation = record.counted
    return {"Diagnosis.success": _success(diagnosis), "Mitigation.success": _success(mitigation)}


def _success(grade: Grade) -> bool | None:
    return None if grade is Grade.UNSCORED else grade is Grade.PASSED


def _diagnosis(one: DiagnosisRecord | None) -> dict[str, object]:
    if one is None:
        return {}
    return {
        "accuracy": None if one.score is None else round(float(one.score) * 100, 4),
        "judgment": None if one.grade is Grade.UNSCORED else str(one.grade is Grade.PASSED),
        "reasoning": one.reason,
        "composite_score": None if one.score is None else float(one.score),
        "dimensions": {name: float(share) for name, share in one.shares.items()},
        "checklist": [answer.model_dump() for answer in one.answers],
        "submission": one.submission and one.submission[:SUBMISSION_LIMIT],
        "error": one.error,
    }


def _mitigation(one: MitigationRecord | None) -> dict[str, object]:
    if one is None:
        return {}
    return {
        "reasons": list(one.reasons),
        "observations": [seen.model_dump() for seen in one.observations],
        "hold_s": one.hold_s,
        "error": one.error,
    }


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)
