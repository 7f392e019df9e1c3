"""A run: many attempts, one after the other, on a cluster that is proven clean between them.

A world that cannot be put back costs a new cluster, not the run. What was finished is on disk at every moment.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from sregym.agents.outside import Greet, OutsideAgent, outside_world
from sregym.agents.runtime import ReferencePayload, RunningAgent, agent_world
from sregym.agents.spec import AgentSpec
from sregym.api.app import Profile
from sregym.api.problem import Problem
from sregym.catalogue import Entry
from sregym.cluster.journal import Journal
from sregym.coordinator.attempt import AgentOnCall, MakesAgent, Order, run_attempt
from sregym.coordinator.auditing import LeakAudit, node_tool
from sregym.coordinator.lab import Lab, Site, open_lab
from sregym.coordinator.recovery import abandon_cluster
from sregym.errors import AgentError, ClusterError, CommandError, PrerequisiteError, RecoveryError
from sregym.events import Emit, Event, EventLog
from sregym.gateway.desk import Desk
from sregym.gateway.internet.access import InternetAccess
from sregym.gateway.models import ModelAccess
from sregym.gateway.server import TcpPorts
from sregym.gateway.telemetry.access import TelemetryAccess
from sregym.judge import Judge
from sregym.results import (
    AgentFacts,
    AttemptRecord,
    ProblemFacts,
    RunFolder,
    Status,
    Times,
    Usage,
)
from sregym.settings import Settings

MAX_REPLACEMENTS = 3
"""New clusters in one run before it is given up: something is wrong that a new cluster does not cure."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run consists of."""

    entries: Sequence[Entry]
    agents: Sequence[AgentSpec]
    attempts: int
    profile: Profile
    judge: Judge
    model: ModelAccess | None = None
    internet: InternetAccess = field(default_factory=InternetAccess)
    reasoning_effort: str | None = None
    session_limit_s: float
    healthy_s: float
    done: frozenset[tuple[str, str, int]] = frozenset()
    """(agent, problem, attempt) that a resumed run has already."""

    def tasks(self) -> list[Task]:
        """All attempts in order: by problem, then agent, then number."""
        return [
            Task(entry=entry, agent=agent, attempt=number)
            for entry in self.entries
            for agent in self.agents
            for number in range(1, self.attempts + 1)
            if (agent.name, entry.id, number) not in self.done
        ]


@dataclass(frozen=True, kw_only=True)
class Task:
    """One attempt to be made."""

    entry: Entry
    agent: AgentSpec
    attempt: int


@dataclass(kw_only=True)
class Runner:
    """Works off a plan."""

    plan: Plan
    settings: Settings
    folder: RunFolder
    listeners: Sequence[Callable[[Event], None]] = ()
    seed: int = 1
    greet: Greet | None = None
    """Hands an incident to an agent outside our container; needed where the plan has one."""
    _replaced: int = 0

    async def run(self, site: Site) -> None:
        """Makes every attempt of the plan. Raises RecoveryError when new clusters do not help either."""
        tasks = self.plan.tasks()
        with EventLog(self.folder.path / "run.jsonl", *self.listeners) as emit:
            while tasks:
                try:
                    tasks = await self._work(site, tasks, emit)
                except RecoveryError as error:
                    self._replaced += 1
                    emit("cluster.replacing", reason=str(error))
                    if self._replaced > MAX_REPLACEMENTS:
                        raise
                    tasks = [one for one in tasks if not self._is_done(one)]
                    spoilt, site = site, await _another(site, error)
                    await abandon_cluster(self.settings.paths.state, spoilt.handle.identity, emit=emit)

    async def _work(self, site: Site, tasks: Sequence[Task], emit: EventLog) -> list[Task]:
        async with open_lab(site, self.settings, seed=self.seed, emit=emit) as lab:
            for task in tasks:
                await self._attempt(lab, task)
        return []

    async def _attempt(self, lab: Lab, task: Task) -> None:
        problem = equipped(task.entry.build(self.plan.profile), lab.site.tools)
        place = self.folder.attempt(agent=task.agent.name, problem=task.entry.id, attempt=task.attempt)
        if lacking := await lacking_capabilities(lab, problem):
            self.folder.write(self._skipped(task, problem, lacking))
            return
        journal = lab.journal(
            f"{self.folder.run_id}-{task.agent.name}-{task.entry.id}-{task.attempt}",
            namespaces=[problem.app.namespace],
            problem=task.entry.id,
        )
        order = Order(
            problem_id=task.entry.id,
            problem=problem,
            provenance=task.entry.variant.provenance,
            agent=self._facts(task.agent),
            make_agent=self._agents(lab, task.agent),
            begin_audit=LeakAudit.of(lab, self.settings).begin,
            attempt=task.attempt,
            judge=self.plan.judge,
            profile=self.plan.profile,
            session_limit_s=self.plan.session_limit_s,
            healthy_s=self.plan.healthy_s,
        )
        with EventLog(place.events, *self.listeners) as emit:
            await run_attempt(
                lab.bench, order, base=lab.base, journal=journal, place=place, write=self._write, emit=emit
            )

    def _write(self, record: AttemptRecord) -> None:
        self.folder.write(record)

    def _is_done(self, task: Task) -> bool:
        return self.folder.attempt(agent=task.agent.name, problem=task.entry.id, attempt=task.attempt).record.exists()

    def _skipped(self, task: Task, problem: Problem, reason: str) -> AttemptRecord:
        now = datetime.now(UTC)
        return AttemptRecord(
            problem=ProblemFacts.of(task.entry.id, problem, task.entry.variant.provenance),
            agent=self._facts(task.agent),
            attempt=task.attempt,
            profile=self.plan.profile,
            status=Status.SKIPPED,
            reason=f"the cluster lacks {reason}",
            times=Times(started_at=now, ended_at=now),
        )

    def _facts(self, agent: AgentSpec) -> AgentFacts:
        model = self.plan.model.model if self.plan.model and agent.needs_model else None
        return AgentFacts(
            name=agent.name,
            model=model,
            version=agent.version,
            reasoning_effort=self.plan.reasoning_effort if model else None,
            leaderboard=agent.leaderboard,
            internet_access="outside" if agent.outside else self.plan.internet.mode,
            endpoints=() if agent.outside else self.plan.internet.named(),
        )

    def _agents(self, lab: Lab, spec: AgentSpec) -> MakesAgent:
        plan, state = self.plan, self.settings.paths.state
        if spec.outside:
            return self._outside(lab, spec)

        @asynccontextmanager
        async def make(
            *, problem: Problem, desk: Desk, folder: Path, journal: Journal, emit: Emit
        ) -> AsyncIterator[AgentOnCall]:
            async with agent_world(
                spec=spec,
                images=lab.site.agent_images,
                access=lab.access,
                desk=desk,
                attempt_dir=folder,
                state_dir=state,
                journal=journal,
                telemetry=TelemetryAccess.of(plan.profile),
                kubectl=(lab.site.tools["kube"], "kubectl"),
                model=plan.model,
                internet=plan.internet,
                reasoning_effort=plan.reasoning_effort,
                nodes=await node_tool(lab, problem, journal, emit),
                emit=emit,
                reference_payload=payload_of(problem) if spec.reads_payload else None,
            ) as agent:
                yield MeteredAgent(agent)

        return make

    def _outside(self, lab: Lab, spec: AgentSpec) -> MakesAgent:
        if self.greet is None:
            raise AgentError(f"agent {spec.name} is outside our container, and nobody is there to invite it")
        greet, ports = self.greet, self.settings.ports

        @asynccontextmanager
        async def make(
            *, problem: Problem, desk: Desk, folder: Path, journal: Journal, emit: Emit
        ) -> AsyncIterator[AgentOnCall]:
            async with outside_world(
                spec=spec,
                access=lab.access,
                desk=desk,
                attempt_dir=folder,
                state_dir=self.settings.paths.state,
                journal=journal,
                ports=TcpPorts(host=ports.bind_host, api=ports.api, kube=ports.kube_proxy, mcp=ports.mcp),
                greet=greet,
                kubectl=(lab.site.tools["kube"], "kubectl"),
                telemetry=TelemetryAccess.of(self.plan.profile),
                model=self.plan.model,
                reasoning_effort=self.plan.reasoning_effort,
                nodes=await node_tool(lab, problem, journal, emit),
                emit=emit,
            ) as agent:
                yield MeteredAgent(agent)

        return make


async def _another(site: Site, error: RecoveryError) -> Site:
    """The site with a new cluster. Raises RecoveryError where none can be made: Docker has stopped, say."""
    try:
        return await site.replaced()
    except (PrerequisiteError, ClusterError, CommandError, RecoveryError) as cause:
        raise RecoveryError(
            f"{error}\nand no new cluster could be made: {cause}\nthen finish the clean-up with: python main.py recover"
        ) from cause


def equipped(problem: Problem, tools: Mapping[str, Path]) -> Problem:
    """The problem with an app that knows where this site's programs are."""
    return replace(problem, app=problem.app.equipped(tools))


async def lacking_capabilities(lab: Lab, problem: Problem) -> str:
    """Why the problem cannot be run here; empty where it can."""
    if not problem.requires:
        return ""
    have = await lab.capabilities()
    lacking = [
        f"{name}: {have[name].reason if name in have else 'not known here'}"
        for name in sorted(problem.requires)
        if name not in have or not have[name].present
    ]
    return "; ".join(lacking)


def payload_of(problem: Problem) -> ReferencePayload:
    """What the `reference` agent is told: the first right repair and the first right diagnosis."""
    calls = [step.kubectl(problem.app.namespace) for step in problem.repairs()[0].steps]
    return ReferencePayload(diagnosis=problem.diagnoses().right[0], calls=calls)


class MeteredAgent:
    """An agent, in our container or outside, as the attempt sees it."""

    def __init__(self, agent: RunningAgent | OutsideAgent) -> None:
        self._agent = agent
        self.container = agent.container
        self.start = agent.start
        self.wait_finished = agent.wait_finished
        self.withdraw = agent.withdraw

    def usage(self) -> Usage:
        used = self._agent.usage()
        return Usage(
            calls=used.calls,
            failed=used.failed,
            tokens_in=used.prompt_tokens,
            tokens_out=used.completion_tokens,
            cached_tokens=used.cached_tokens,
            reasoning_tokens=used.reasoning_tokens,
            unmetered=used.unmetered,
            cost_usd=used.cost_usd,
            budget_spent=used.budget_spent,
        )
