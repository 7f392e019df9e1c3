"""The nested contexts that an attempt, and every cell of `verify`, is made of.

`running_app` is an application that serves users and is healthy; `active_fault` is an incident that has been shown to
be on. Leaving a context takes back what entering it did.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import anyio

from sregym.api.app import App, FaultContext, OracleContext
from sregym.api.grading import Verdict, VerdictState
from sregym.api.oracle import Baseline, Oracle
from sregym.api.problem import Problem
from sregym.cluster import waits
from sregym.cluster.check import Observation
from sregym.cluster.contract import Cluster
from sregym.cluster.editor import JournalledEditor
from sregym.cluster.journal import Journal
from sregym.cluster.objects import Obj
from sregym.cluster.traffic import LoadPhase, Traffic
from sregym.coordinator.clock import PhaseClock
from sregym.coordinator.witnessing import Witness
from sregym.errors import ClusterError, InjectionError, RecoveryError, WaitTimeout
from sregym.events import Emit
from sregym.gateway.desk import AppInfo
from sregym.settings import Timeouts

JUDGED_WITHIN_S = 30.0
"""For how long an oracle that cannot judge is asked again before the incident is given up."""


class Users(Protocol):
    """Makes the load: a generator outside the cluster that calls the app's entry."""

    def __call__(
        self, app: App, *, base: LoadPhase | None, journal: Journal, emit: Emit
    ) -> AbstractAsyncContextManager[Traffic]: ...


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What an attempt runs on: the cluster, and the makers of what surrounds the application."""

    cluster: Cluster
    users: Users
    access: Callable[[Sequence[str]], Sequence[Obj]]
    """The agent's rights as objects, for the app's namespaces."""
    witness: Witness | None = None
    """None on a cluster that others use: only the application is put up there."""
    timeouts: Timeouts


@dataclass(frozen=True, kw_only=True)
class World:
    """A running application: where faults act and oracles look."""

    problem: Problem
    faults: FaultContext
    oracle_ctx: OracleContext

    @property
    def app(self) -> App:
        return self.problem.app


@asynccontextmanager
async def running_app(
    bench: Bench, problem: Problem, journal: Journal, *, clock: PhaseClock, emit: Emit
) -> AsyncIterator[World]:
    """The problem's application, deployed with what the problem ships, under load, and healthy.

    Stops the load at the end; removing the application is `putback`'s, after undo. Raises WaitTimeout or ClusterError
    where it does not become healthy.
    """
    app, cluster = problem.app, bench.cluster
    begun = anyio.current_time()
    with clock.phase("deploy"):
        emit("app.deploying", app=app.name, profile=app.profile)
        await app.remove(cluster, emit=emit)
        await app.deploy(cluster, problem.ships(), emit=emit)
        await cluster.apply(bench.access([app.namespace]))
    async with bench.users(app, base=problem.load(), journal=journal, emit=emit) as traffic:
        editor = JournalledEditor(cluster, journal, emit=emit)
        # A section of its own: undoing the fault must not take the load's container away, which is in the same journal.
        fault_editor = editor.section("fault")
        faults = FaultContext(
            app=app, reader=cluster, shell=cluster, traffic=traffic, emit=emit, cluster=cluster, editor=fault_editor
        )
        oracle_ctx = OracleContext(
            app=app, reader=cluster, shell=cluster, traffic=traffic, emit=emit, editor=editor.section("exercises")
        )
        with clock.phase("settle"):
            await faults.until(app.healthy(), within=bench.timeouts.app_ready_s)
        emit("app.healthy", app=app.name, seconds=anyio.current_time() - begun)
        yield World(problem=problem, faults=faults, oracle_ctx=oracle_ctx)


@dataclass(frozen=True, kw_only=True)
class Incident:
    """A fault that bites: what was seen of it, and what the oracle noted before. `began_at` is UTC."""

    began_at: datetime
    symptom: Observation
    oracle: Oracle
    baseline: Baseline
    glance: Verdict


@asynccontextmanager
async def active_fault(
    world: World, baseline: Baseline, *, clock: PhaseClock, timeouts: Timeouts
) -> AsyncIterator[Incident]:
    """The problem's fault, injected and confirmed: the symptom has held and the oracle says FAILED.

    Undone at the end (shielded, under a budget); what cannot be undone here is left to `putback`, which removes the
    application with it: it is no reason to lose a grade. Raises InjectionError where it does not bite.
    """
    try:
        with clock.phase("inject"):
            incident = await inject(world, baseline, timeouts)
        yield incident
    finally:
        with clock.phase("undo"), anyio.move_on_after(timeouts.teardown_s, shield=True) as budget:
            try:
                await world.problem.fault().recover(world.faults)
            except RecoveryError as error:
                world.faults.emit("fault.not_undone", reason=str(error))
        if budget.cancelled_caught:
            world.faults.emit("fault.not_undone", reason=f"it took longer than {timeouts.teardown_s:g} s")


async def inject(world: World, baseline: Baseline, timeouts: Timeouts) -> Incident:
    """The fault, injected and shown to bite.

    Undoing it is the caller's. Raises InjectionError.
    """
    problem, ctx = world.problem, world.faults
    oracle, begun, began_at = problem.mitigation(), anyio.current_time(), datetime.now(UTC)
    ctx.emit("fault.injecting", fault=repr(problem.fault()))
    try:
        await problem.fault().inject(ctx)
        symptom = await ctx.until(problem.symptom(), within=timeouts.symptom_s)
    except (WaitTimeout, ClusterError) as error:
        raise InjectionError(f"the fault does not show: {error}") from error
    glance = await _glance(oracle, world, baseline)
    if glance.state is not VerdictState.FAILED:
        raise InjectionError(f"the symptom holds, but the oracle says {glance.state}: {'; '.join(glance.reasons)}")
    ctx.emit("fault.confirmed", symptom=symptom.check, seconds=anyio.current_time() - begun, oracle=glance.reasons)
    return Incident(began_at=began_at, symptom=symptom, oracle=oracle, baseline=baseline, glance=glance)


async def _glance(oracle: Oracle, world: World, baseline: Baseline) -> Verdict:
    """The oracle's glance; again for a while where it could not judge: the load generator was held up, say."""
    seen: list[Verdict] = []

    async def judged() -> Verdict | None:
        seen.append(await oracle.glance(world.oracle_ctx, baseline))
        return None if seen[-1].state is VerdictState.UNSCORED else seen[-1]

    with suppress(WaitTimeout):
        await waits.poll(judged, what="the oracle can judge", every=1.0, within=JUDGED_WITHIN_S)
    return seen[-1]


def app_info(problem: Problem) -> AppInfo:
    """What agents are told of the application."""
    app = problem.app
    return AppInfo(
        app_name=app.name,
        namespace=app.namespace,
        namespaces=(app.namespace,),
        descriptions=app.topology.description,
    )
