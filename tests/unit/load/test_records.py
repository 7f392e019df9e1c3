"""Lines of the generator become windows; silence and nonsense become errors, never figures."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sregym.errors import Unavailable
from sregym.load.records import Latency, Records, quantile


def window(
    t: float, operation: str = "search", *, ok: int = 5, reasons: dict[str, int] | None = None, **more: Any
) -> str:
    failed = sum((reasons or {}).values())
    row = {
        "kind": "window",
        "t": t,
        "seconds": 1,
        "phase": "base",
        "operation": operation,
        "scheduled": ok + failed,
        "sent": ok + failed,
        "missed": 0,
        "completed": ok + failed,
        "ok": ok,
        "failed": failed,
        "reasons": reasons or {},
        "in_flight": 0,
        "latency_ms": {"p50": 10.0, "p90": 20.0, "p95": 30.0, "p99": 40.0, "max": 50.0, "mean": 12.0} if ok else None,
    }
    return json.dumps(row | more)


def request(latency: float, outcome: str = "ok", operation: str = "search") -> str:
    row = {"kind": "request", "t": 1.0, "operation": operation, "outcome": outcome, "latency_ms": latency}
    return json.dumps(row)


def fed(*lines: str) -> Records:
    records = Records()
    for line in lines:
        records.feed(line)
    return records


def test_a_window_is_the_sum_of_its_seconds() -> None:
    records = fed(*(window(t, ok=5, reasons={"status_500": t}) for t in range(4)))
    seen = records.window(2)
    assert (seen.seconds, seen.operations["search"].sent, seen.operations["search"].ok) == (2, 15, 10)
    assert seen.operations["search"].failures == {"http_500": 5}
    assert seen.rate == pytest.approx(7.5)


def test_an_earlier_window_can_be_asked_for() -> None:
    records = fed(window(0, ok=1), window(1, ok=2), window(2, ok=4), window(3, ok=8))
    assert records.window(2, until_s_ago=1).operations["search"].ok == 6
    with pytest.raises(Unavailable):
        records.window(2, until_s_ago=10)


def test_a_young_run_gives_what_it_has() -> None:
    assert fed(window(0), window(1)).window(30).seconds == 2


def test_before_the_first_second_there_is_nothing_rather_than_zero() -> None:
    with pytest.raises(Unavailable):
        Records().window(5)


def test_an_operation_without_requests_has_no_success_rate() -> None:
    stats = fed(window(0, "reserve", ok=0)).window(1).operations["reserve"]
    assert (stats.sent, stats.success_rate, stats.p95_ms) == (0, None, None)


def test_latencies_are_those_of_successful_requests() -> None:
    records = fed(request(5), request(15), request(4000, "failed"), window(0, ok=2, reasons={"timeout": 1}))
    stats = records.window(1).operations["search"]
    assert (stats.p50_ms, stats.p99_ms) == (5, 15)
    assert stats.failures == {"timeout": 1}


def test_without_single_records_the_summaries_stand_in() -> None:
    stats = fed(window(0, ok=100)).window(1).operations["search"]
    assert (stats.p50_ms, stats.p95_ms, stats.p99_ms) == (10, 30, 40)


def test_a_missed_schedule_shows_as_its_share() -> None:
    assert fed(window(0, ok=10, missed=1)).window(1).late_share == pytest.approx(0.1)


def test_reasons_have_the_contracts_names() -> None:
    stats = fed(window(0, ok=0, reasons={"body": 1, "status_503": 2, "connect": 3})).window(1).of()
    assert stats.failures == {"bad_body": 1, "http_503": 2, "connect": 3}


@pytest.mark.parametrize("line", ["", "ip: RTNETLINK answers: File exists", "[]", '{"t": 1}'])
def test_nonsense_is_an_error(line: str) -> None:
    with pytest.raises(Unavailable, match="something else"):
        Records().feed(line)


def test_phases_errors_and_the_summary_are_kept() -> None:
    records = fed(
        '{"kind":"ready","t":1,"seed":7,"target":"x"}',
        '{"kind":"phase","t":1,"name":"base","rate":10}',
        '{"kind":"error","message":"no such command"}',
        '{"kind":"summary","t":9,"seconds":8,"scheduled":80,"missed_share":0}',
    )
    assert records.phases == ["base"]
    assert records.errors == ["no such command"]
    assert records.summary is not None
    assert records.summary["scheduled"] == 80


@given(st.lists(st.floats(0, 1e4), min_size=1), st.floats(0.01, 1))
def test_a_quantile_covers_its_share(values: list[float], share: float) -> None:
    found = quantile(sorted((Latency(v) for v in values), key=lambda latency: latency.ms), share)
    assert found is not None
    assert sum(v <= found for v in values) >= share * len(values) - 1e-6
    assert sum(v < found for v in values) < share * len(values) + 1e-6
