"""Records say everything they must, survive a round trip, and refuse to contradict themselves."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from pydantic import ValidationError

from sregym.results import AttemptRecord, DiagnosisRecord, Grade, MitigationRecord, Status, SubmissionRecord
from tests.unit.results.records import FAILED, PASSED, RIGHT, UNSEEN, attempt, judged, unscored_diagnosis


def test_a_record_survives_the_round_trip() -> None:
    record = attempt(diagnosis=judged(RIGHT), mitigation=FAILED)
    assert AttemptRecord.model_validate_json(record.to_json()) == record


def test_scores_are_written_as_exact_fractions() -> None:
    body = json.loads(attempt(diagnosis=judged("geo-config lacks GeoMongoAddress"), mitigation=FAILED).to_json())
    assert body["schema_version"] == 2
    assert body["diagnosis"]["score"] == "8/9"
    assert body["diagnosis"]["tau"] == "7/9"
    assert {one["dimension"] for one in body["diagnosis"]["answers"]} == set(body["diagnosis"]["shares"])
    assert all(one["reason"] for one in body["diagnosis"]["answers"])


def test_a_mitigation_keeps_every_look_with_its_evidence() -> None:
    passed, failed = (MitigationRecord.of(one, seconds=1) for one in (PASSED, FAILED))
    assert passed.observations[0].evidence == {"ok": 40, "sent": 40}
    assert [part.check for part in failed.observations[0].parts] == ["search serves", "geo ready"]
    assert list(failed.reasons) == ["search serves: 0 of 12 requests succeeded"]


@pytest.mark.parametrize(
    ("diagnosis", "mitigation"),
    [(judged(RIGHT), None), (None, PASSED), (judged(RIGHT), UNSEEN), (unscored_diagnosis(), PASSED)],
)
def test_graded_needs_both_grades(diagnosis: DiagnosisRecord | None, mitigation: object) -> None:
    with pytest.raises(ValidationError, match="a graded attempt has a grade"):
        attempt(diagnosis=diagnosis, mitigation=mitigation)  # type: ignore[arg-type]


@pytest.mark.parametrize("status", [Status.UNSCORED, Status.VOID, Status.SKIPPED])
def test_what_is_not_graded_says_why(status: Status) -> None:
    with pytest.raises(ValidationError, match="says why"):
        attempt(status=status)


def test_end_to_end_counts_only_where_both_were_scored() -> None:
    assert attempt(diagnosis=judged(RIGHT), mitigation=PASSED).end_to_end is Grade.PASSED
    assert attempt(diagnosis=judged("unknown"), mitigation=PASSED).end_to_end is Grade.FAILED
    half = attempt(diagnosis=unscored_diagnosis(), mitigation=FAILED, status=Status.UNSCORED, reason="judge")
    assert half.end_to_end is Grade.UNSCORED


def test_a_missing_diagnosis_is_failed_not_unscored() -> None:
    record = DiagnosisRecord.missing(reason="none within 1800 s", judge="offline", tau=Fraction(7, 9))
    assert record.grade is Grade.FAILED
    assert record.score == 0


@pytest.mark.parametrize("text", ["\ud800 half a surrogate", "\x00\x01 binary", "x" * 1_000_000])
def test_any_submission_can_be_kept(text: str) -> None:
    record = attempt(diagnosis=judged(text), mitigation=FAILED).model_copy(
        update={"submissions": (SubmissionRecord(stage="diagnosis", text=text, at_s=1),)}
    )
    back = AttemptRecord.model_validate_json(record.to_json())
    assert len(back.submissions[0].text) == len(text)


def test_unknown_fields_and_other_schema_versions_are_refused() -> None:
    body = json.loads(attempt(diagnosis=judged(RIGHT), mitigation=PASSED).to_json())
    for change in ({"schema_version": 3}, {"colour": "red"}):
        with pytest.raises(ValidationError):
            AttemptRecord.model_validate(body | change)


def test_records_of_the_first_version_are_still_read() -> None:
    body = json.loads(attempt(diagnosis=judged(RIGHT), mitigation=PASSED).to_json())
    body["schema_version"] = 1
    body["usage"] = {"calls": 1, "tokens_in": 2, "tokens_out": 3, "cost_usd": None}
    del body["agent"]["internet_access"], body["agent"]["endpoints"]
    read = AttemptRecord.model_validate(body)
    assert (read.schema_version, read.usage.calls, read.agent.internet_access) == (1, 1, "filtered")
