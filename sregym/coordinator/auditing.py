"""The leak audit in an attempt, and by itself (`main.py audit`): when it looks, and what becomes of a finding."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import anyio

from sregym.agents.runtime import agent_world
from sregym.agents.spec import load_agent
from sregym.api.problem import Problem
from sregym.audit import AuditReport, Evidence, Finding, Text, Vocabulary, examine
from sregym.audit.collect import Scene, agent_client, collect, from_own_pod
from sregym.audit.container import ImageLooker, is_of_image, look_into
from sregym.audit.vocabulary import OWN, lasting_folders_of
from sregym.catalogue import Entry
from sregym.cluster.editor import JournalledEditor
from sregym.cluster.journal import Journal
from sregym.cluster.tasks import single_error
from sregym.coordinator.clock import PhaseClock
from sregym.coordinator.lab import Lab
from sregym.coordinator.putback import put_back
from sregym.coordinator.world import Incident, World, active_fault, app_info, running_app
from sregym.errors import LeakError, RecoveryError, SregymError, principal
from sregym.events import Emit, silent
from sregym.gateway.desk import Desk
from sregym.gateway.node.tool import NodeTool
from sregym.gateway.telemetry.access import TelemetryAccess
from sregym.settings import Settings

AUDITOR = "nop"
"""The agent whose container a standing audit looks into: what every agent gets, and nothing of its own."""


class InContainer(Protocol):
    """An agent; `container` is the name of its container, None where it is outside ours."""

    @property
    def container(self) -> str | None: ...


@dataclass(kw_only=True)
class Looking:
    """An audit under way."""

    audit: LeakAudit
    world: World
    incident: Incident
    emit: Emit
    evidence: Evidence | None = None
    _seen: anyio.Event = field(default_factory=anyio.Event)

    async def look(self, own_pod: str | None = None) -> None:
        """Collects what is in the cluster. Raises ClusterError."""
        lab, began = self.audit.lab, anyio.current_time()
        problem = self.world.problem
        async with agent_client(lab.access) as agent:
            scene = Scene(
                cluster=lab.cluster,
                agent=agent,
                app=problem.app,
                nodes=await NodeTool.of(
                    lab.cluster, self.world.faults.editor.section("looks"), namespace=problem.app.namespace
                ),
                made=await problem.app.manifests(problem.ships()),
                changed_at=self.incident.began_at,
                telemetry=TelemetryAccess.of(lab.site.profile),
            )
            evidence = await collect(scene)
            if own_pod is not None:
                text = await from_own_pod(scene, own_pod)
                evidence = replace(evidence, texts=(*evidence.texts, text))
        self.evidence = evidence
        self.emit("audit.collected", seconds=round(anyio.current_time() - began, 2), parts=dict(evidence.seconds))
        self._seen.set()

    async def evidence_with(self, container: str | None) -> Evidence:
        """All evidence, the agent's container included where there is one. Raises AgentError."""
        texts: list[Text] = []
        if container is not None:
            ours = await is_of_image(container, self.audit.lab.site.agent_images.workstation)
            texts += await look_into(container, ours=ours)
            texts += await self.audit.images.look(container) if ours else []
        await self._seen.wait()
        assert self.evidence is not None
        return replace(self.evidence, texts=(*self.evidence.texts, *texts))

    async def finish(self, agent: object) -> None:
        """Raises LeakError with the findings."""
        findings = examine(await self.evidence_with(getattr(agent, "container", None)), self.audit.words)
        if findings:
            self.emit("audit.found", findings=[str(one) for one in findings])
            raise LeakError(f"the incident gives itself away: {_told(findings)}")
        self.emit("audit.clean")


@dataclass(frozen=True, kw_only=True)
class LeakAudit:
    """Audits incidents of a lab."""

    lab: Lab
    words: Vocabulary
    images: ImageLooker

    @classmethod
    def of(cls, lab: Lab, settings: Settings) -> LeakAudit:
        words = Vocabulary.of(lab.site.catalogue, settings)
        # An image was made before the run, and cannot know its results' folder.
        images = ImageLooker(cache=settings.paths.cache / "audit", own=OWN, folders=lasting_folders_of(settings))
        return cls(lab=lab, words=words, images=images)

    @asynccontextmanager
    async def begin(self, world: World, incident: Incident, emit: Emit) -> AsyncIterator[Looking]:
        """Begins to look; `finish` waits for the end. A look that fails ends what runs inside, with its error."""
        async with self._looking(world, incident, emit, own_pod=None) as looking:
            yield looking

    @asynccontextmanager
    async def _looking(
        self, world: World, incident: Incident, emit: Emit, *, own_pod: str | None
    ) -> AsyncIterator[Looking]:
        with single_error():
            async with anyio.create_task_group() as group:
                looking = Looking(audit=self, world=world, incident=incident, emit=emit)
                group.start_soon(looking.look, own_pod)
                yield looking
                group.cancel_scope.cancel()

    async def audit(self, entry: Entry, problem: Problem, settings: Settings, folder: Path, emit: Emit) -> AuditReport:
        """One problem, deployed and broken for it, and put back. What goes wrong with it is in the report.

        Raises RecoveryError where the world could not be put back.
        """
        lab, namespaces = self.lab, [problem.app.namespace]
        began, report = anyio.current_time(), AuditReport(problem_id=entry.id)
        journal = lab.journal(f"audit-{entry.id}", namespaces=namespaces, problem=entry.id)
        try:
            try:
                report = await self._live(problem, settings, folder, journal, report, emit)
            finally:
                with anyio.move_on_after(settings.timeouts.teardown_s, shield=True) as budget:
                    await put_back(lab.cluster, journal, lab.base, namespaces, emit=emit)
            if budget.cancelled_caught:
                raise RecoveryError("putting the world back took too long; finish it with: python main.py recover")
        except (SregymError, ExceptionGroup) as error:
            known = principal(error)
            if known is None or isinstance(known, RecoveryError):
                raise
            report = replace(report, error=f"{type(known).__name__}: {known}")
        return replace(report, seconds=anyio.current_time() - began)

    async def _live(
        self, problem: Problem, settings: Settings, folder: Path, journal: Journal, report: AuditReport, emit: Emit
    ) -> AuditReport:
        lab, clock = self.lab, PhaseClock()
        desk = Desk(app_info(problem), emit=emit)
        topology = problem.app.topology
        image = topology.images[topology.service(topology.entry).image][problem.app.profile]
        async with running_app(lab.bench, problem, journal, clock=clock, emit=emit) as world:
            baseline = await problem.mitigation().baseline(world.oracle_ctx)
            async with (
                active_fault(world, baseline, clock=clock, timeouts=settings.timeouts) as incident,
                self._looking(world, incident, emit, own_pod=image) as looking,
                agent_world(
                    spec=load_agent(AUDITOR),
                    images=lab.site.agent_images,
                    access=lab.access,
                    desk=desk,
                    attempt_dir=folder,
                    state_dir=settings.paths.state,
                    journal=journal,
                    nodes=await node_tool(lab, problem, journal, silent),
                    emit=emit,
                ) as agent,
            ):
                evidence = await looking.evidence_with(agent.container)
        return replace(
            report,
            findings=examine(evidence, self.words),
            objects=len(evidence.objects),
            texts=len(evidence.texts),
            characters=sum(len(one.text) for one in evidence.texts),
            parts_s=evidence.seconds,
        )


async def node_tool(lab: Lab, problem: Problem, journal: Journal, emit: Emit) -> NodeTool:
    """The node tool of one attempt; what it changes is undone from the attempt's journal."""
    editor = JournalledEditor(lab.cluster, journal, emit=emit).section("node")
    return await NodeTool.of(lab.cluster, editor, namespace=problem.app.namespace, emit=emit)


def _told(findings: list[Finding], most: int = 3) -> str:
    more = f" (and {len(findings) - most} more)" if len(findings) > most else ""
    return "; ".join(str(one) for one in findings[:most]) + more
