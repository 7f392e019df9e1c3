"""What the generator is told."""

from __future__ import annotations

import json

from apps.hotel_reservation import HotelReservation
from sregym.cluster.traffic import LoadPhase
from sregym.load.spec import RECORDED_UP_TO, phase_lines, spec_line

BASE = LoadPhase(rate=10)


def test_the_first_line_holds_the_whole_task() -> None:
    topology = HotelReservation().topology
    line = spec_line(topology, target="10.0.0.1:5000", seed=7, base=BASE)
    assert "\n" not in line
    told = json.loads(line)
    assert told["host"] == "frontend:5000"
    assert [one["name"] for one in told["operations"]] == [one.name for one in topology.operations]
    assert told["phases"] == [{"name": "base", "rate": 10.0, "duration_s": None}]
    search = told["operations"][0]
    assert search["vars"][0] == {"name": "in", "date": {"from": "2015-04-09", "to": "2015-04-23"}}
    assert search["expect"]["status"] == [200]
    assert "needs" not in search


def test_after_a_phase_with_an_end_the_base_comes_back() -> None:
    *_, told = map(json.loads, phase_lines(LoadPhase(rate=80, seconds=5), name="burst", base=BASE))
    assert [(row["name"], row["duration_s"]) for row in told["phases"]] == [("burst", 5), ("base", None)]


def test_a_phase_without_an_end_stays() -> None:
    *_, told = map(json.loads, phase_lines(LoadPhase(rate=5, operations={"search": 1.0}), name="p", base=BASE))
    assert told["phases"] == [{"name": "p", "rate": 5, "duration_s": None, "weights": {"search": 1.0}}]


def test_single_requests_are_recorded_only_at_moderate_rates() -> None:
    calm, *_ = map(json.loads, phase_lines(LoadPhase(rate=RECORDED_UP_TO), name="p", base=BASE))
    wild, *_ = map(json.loads, phase_lines(LoadPhase(rate=RECORDED_UP_TO + 1), name="p", base=BASE))
    assert (calm["on"], wild["on"]) == (True, False)
