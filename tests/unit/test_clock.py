"""Where an attempt's seconds go, and what the agent's clock counts."""

from __future__ import annotations

import anyio
import pytest

from sregym.coordinator.clock import AGENT, HEALTHY, PhaseClock, SessionClock

pytestmark = pytest.mark.usefixtures("fake_time")


async def test_overhead_leaves_out_the_agent_the_healthy_phase_and_proof_windows() -> None:
    clock = PhaseClock()
    for name, seconds in (("deploy", 10.0), (HEALTHY, 120.0), (AGENT, 300.0), ("mitigation", 40.0)):
        with clock.phase(name):
            await anyio.sleep(seconds)
    clock.hold_s = 30.0
    assert clock.overhead_s == pytest.approx(20.0, abs=0.01)


async def test_a_phase_is_booked_also_when_it_fails() -> None:
    clock = PhaseClock()

    async def fails() -> None:
        with clock.phase("inject"):
            await anyio.sleep(3)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fails()
    assert clock.phases["inject"] == pytest.approx(3, abs=0.01)


async def test_a_missing_submission_counts_as_the_cap() -> None:
    clock = SessionClock(limit_s=1800)
    clock.start()
    await anyio.sleep(60)
    clock.diagnosis_at = anyio.current_time()
    assert clock.ttd_s == pytest.approx(60, abs=0.01)
    assert clock.ttm_s == 1800


async def test_nothing_is_timed_before_the_incident_is_handed_over() -> None:
    assert SessionClock(limit_s=1800).ttd_s is None


async def test_a_late_submission_is_capped() -> None:
    clock = SessionClock(limit_s=100)
    clock.start()
    await anyio.sleep(150)
    clock.mitigation_at = anyio.current_time()
    assert clock.ttm_s == 100
