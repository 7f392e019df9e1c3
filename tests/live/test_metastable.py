"""The composed problem stays broken by itself: the trigger is gone, nobody touches anything, users go on failing."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.images import HOST_SIDE, STEPS, recipes_for
from sregym.catalogue import Catalogue
from sregym.cluster.providers.base import ClusterSpec
from sregym.coordinator.clock import PhaseClock
from sregym.coordinator.lab import Content, open_lab, prepare
from sregym.coordinator.putback import put_back
from sregym.coordinator.run import equipped
from sregym.coordinator.world import active_fault, running_app
from sregym.events import EventLog
from sregym.progress import Silent
from sregym.settings import Settings
from tests.live.command import CLUSTER

pytestmark = [pytest.mark.live, pytest.mark.acceptance, pytest.mark.timeout(1200)]

PROBLEM = "search_rate_retry_collapse_hotel_reservation"
UNTOUCHED_S = 300.0


async def test_it_stays_broken_for_five_minutes(tmp_path: Path) -> None:
    settings = Settings()
    content = Content(
        catalogue=Catalogue.discover("problems"), app_images=recipes_for, host_images=HOST_SIDE, steps=STEPS
    )
    problem = content.catalogue.build(PROBLEM, "lite")
    site = await prepare(settings, content, [problem.app], ClusterSpec(name=CLUSTER), Silent())
    problem = equipped(problem, site.tools)
    clock = PhaseClock()
    with EventLog(tmp_path / "events.jsonl") as emit:
        async with open_lab(site, settings, seed=1, emit=emit) as lab:
            journal = lab.journal("metastable", namespaces=[problem.app.namespace], problem=PROBLEM)
            try:
                async with running_app(lab.bench, problem, journal, clock=clock, emit=emit) as world:
                    baseline = await problem.mitigation().baseline(world.oracle_ctx)
                    async with active_fault(world, baseline, clock=clock, timeouts=settings.timeouts):
                        seen = await world.faults.holds(problem.symptom(), for_=UNTOUCHED_S, within=UNTOUCHED_S + 60)
                        assert seen.holds
            finally:
                await put_back(lab.cluster, journal, lab.base, [problem.app.namespace], emit=emit)
