"""Runs the cells of one problem on a live cluster, and proves the world equal afterwards.

Repairs and cheats are run as the agent, through the gateway's proxy and under its rights: what an agent may not do is
no repair. The application is deployed once and kept between cells; a cell that leaves it in a state that cannot be
taken back costs a new deployment.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field, replace

import anyio

from sregym.agents.as_agent import agent_kubectl
from sregym.api.app import Profile
from sregym.api.grading import VerdictState
from sregym.api.problem import Problem
from sregym.api.repair import Exec, KubectlCall, Repair
from sregym.catalogue import Entry
from sregym.cluster.journal import Journal
from sregym.coordinator.clock import PhaseClock
from sregym.coordinator.lab import Lab
from sregym.coordinator.putback import put_back
from sregym.coordinator.run import equipped, lacking_capabilities
from sregym.coordinator.world import running_app
from sregym.errors import InjectionError, RecoveryError, SregymError, principal
from sregym.events import Emit
from sregym.judge import Judge, JudgeInput
from sregym.process import Completed
from sregym.verify.cells import CellKind, CellResult, Outcome, Report, Trial, trials
from sregym.verify.stage import Beyond, Stage, State

Run = Callable[[KubectlCall], Awaitable[Completed]]

ALL_CELLS = frozenset(CellKind)


async def verify(
    lab: Lab,
    entry: Entry,
    *,
    profile: Profile,
    judge: Judge,
    emit: Emit,
    kinds: Collection[CellKind] = ALL_CELLS,
    hold: Callable[[Problem], Awaitable[None]] | None = None,
) -> Report:
    """Tests one problem. `hold` is awaited while the incident is on, for an author to look around.

    Raises RecoveryError where the world could not be put back; what happens to the problem is in the report.
    """
    begun = anyio.current_time()
    problem = equipped(entry.build(profile), lab.site.tools)
    report = Report(problem_id=entry.id, profile=profile)
    if lacking := await lacking_capabilities(lab, problem):
        return replace(report, skipped=lacking)
    course = _Course(lab=lab, problem_id=entry.id, problem=problem, emit=emit, kinds=frozenset(kinds), hold=hold)
    if CellKind.DIAGNOSIS in kinds:
        course.cells.extend(await diagnosis_cells(problem, judge))
    if kinds != {CellKind.DIAGNOSIS}:
        await course.run()
    seconds = anyio.current_time() - begun
    return replace(report, cells=course.cells, error=course.error, deployments=course.deployments, seconds=seconds)


async def diagnosis_cells(problem: Problem, judge: Judge) -> list[CellResult]:
    """Whether the judge agrees with the problem's own right and wrong diagnoses."""
    told, found = problem.diagnoses(), []
    for passes, texts in ((True, told.right), (False, told.wrong)):
        for number, text in enumerate(texts, start=1):
            begun = anyio.current_time()
            judgement = await judge.grade(JudgeInput.of(problem, text))
            expected, seen = (("passed" if one else "failed") for one in (passes, judgement.passed))
            found.append(
                CellResult(
                    kind=CellKind.DIAGNOSIS,
                    name=f"{'right' if passes else 'wrong'} {number}",
                    expected=expected,
                    seen=seen,
                    outcome=Outcome.RIGHT if expected == seen else Outcome.WRONG,
                    why=f"{judgement.score}",
                    seconds=anyio.current_time() - begun,
                )
            )
    return found


@dataclass
class _Course:
    """The live cells of one problem: what is left to do, and what came out."""

    lab: Lab
    problem_id: str
    problem: Problem
    emit: Emit
    kinds: frozenset[CellKind]
    hold: Callable[[Problem], Awaitable[None]] | None = None
    cells: list[CellResult] = field(default_factory=list)
    error: str = ""
    deployments: int = 0
    pending: list[Trial] = field(init=False)

    def __post_init__(self) -> None:
        self.pending = trials(self.problem, list(self.kinds))

    async def run(self) -> None:
        """Deploys as often as it must; every deployment does at least one cell, or the test ends with an error."""
        while not self.error and (self._unseen() or self.pending or self.deployments == 0):
            before = (len(self.cells), len(self.pending))
            await self._deployment()
            if before == (len(self.cells), len(self.pending)) and (self.pending or self._unseen()):
                self.error = self.error or "a fresh deployment did not bring the test any further"

    def _unseen(self) -> list[CellKind]:
        """Cells outside the trials that are wanted and have not been looked at."""
        done = {one.kind for one in self.cells}
        return [kind for kind in (CellKind.HEALTHY, CellKind.INJECT) if kind in self.kinds and kind not in done]

    async def _deployment(self) -> None:
        self.deployments += 1
        name = f"verify-{self.problem_id}-{self.deployments}"
        journal = self.lab.journal(name, namespaces=[self.problem.app.namespace], problem=self.problem_id)
        try:
            try:
                await self._live(journal)
            finally:
                await self._put_back(journal)
        except (SregymError, ExceptionGroup) as error:
            known = principal(error)
            if known is None or isinstance(known, RecoveryError):
                raise
            if not isinstance(known, Beyond):
                self.error = f"{type(known).__name__}: {known}"
            self.emit("verify.deployment_ended", reason=str(known))

    async def _live(self, journal: Journal) -> None:
        bench, emit = self.lab.bench, self.emit
        kubectl = (self.lab.site.tools["kube"], "kubectl")
        namespace = self.problem.app.namespace
        async with (
            running_app(bench, self.problem, journal, clock=PhaseClock(), emit=emit) as world,
            agent_kubectl(self.lab.access, kubectl=kubectl, namespace=namespace, emit=emit) as run,
        ):
            stage = await Stage.of(self.lab.cluster, world, bench.timeouts, emit)
            if CellKind.HEALTHY in self._unseen():
                await self._healthy(stage)
            if CellKind.INJECT in self._unseen() or self.hold is not None:
                await self._inject(stage)
            if self.hold is not None:
                await self.hold(self.problem)
            while self.pending and not self.error:
                await self._try(stage, self.pending[0], run)
                del self.pending[0]

    async def _healthy(self, stage: Stage) -> None:
        begun = anyio.current_time()
        oracle, ctx = self.problem.mitigation(), stage.world.oracle_ctx
        if self.problem.latent:
            # The exercises would be the trigger.
            verdict = await stage.passing_glance()
        else:
            verdict = await oracle.check(ctx, stage.baseline)
        seconds = anyio.current_time() - begun
        self._add(CellResult.judged(CellKind.HEALTHY, "healthy", passes=True, verdict=verdict, seconds=seconds))

    async def _inject(self, stage: Stage) -> None:
        """The incident comes on: the symptom holds, and the oracle says FAILED."""
        begun = anyio.current_time()
        expected = "symptom holds, oracle fails"
        try:
            incident = await stage.on()
        except InjectionError as error:
            self.error = str(error)
            outcome, seen, why = Outcome.WRONG, "void", str(error)
        else:
            outcome, seen, why = Outcome.RIGHT, expected, "; ".join(incident.glance.reasons)
        self._add(
            CellResult(
                kind=CellKind.INJECT,
                name=incident_name(self.problem),
                expected=expected,
                seen=seen,
                outcome=outcome,
                why=why,
                seconds=anyio.current_time() - begun,
            )
        )

    async def _try(self, stage: Stage, trial: Trial, run: Run) -> None:
        begun = anyio.current_time()
        incident = await stage.on()
        if self.hold is None:
            self.emit("verify.trying", kind=trial.kind, name=trial.repair.name)
        note = await self._act(trial.repair, run)
        stage.state = State.TOUCHED if trial.repair.steps else State.ON
        if any(isinstance(step, Exec) for step in trial.repair.steps):
            stage.state = State.OVER
        verdict = await incident.oracle.check(stage.world.oracle_ctx, incident.baseline)
        if verdict.state is not VerdictState.FAILED:
            stage.state = State.OVER
        seconds = anyio.current_time() - begun
        result = CellResult.judged(
            trial.kind, trial.repair.name, passes=trial.passes, verdict=verdict, seconds=seconds, note=note
        )
        if trial.passes and note:
            # A right repair that the agent's rights, or kubectl, refuse is a broken problem.
            result = replace(result, outcome=Outcome.WRONG)
        self._add(result)

    async def _act(self, repair: Repair, run: Run) -> str:
        """Runs the steps as the agent. Returns what was refused, empty where nothing was."""
        refused = []
        for step in repair.steps:
            done = await run(step.kubectl(self.problem.app.namespace))
            if done.code != 0:
                said = (done.stderr.strip() or done.stdout.strip()).splitlines()
                refused.append(f"refused: {said[-1] if said else done.code}")
        return "; ".join(refused)

    async def _put_back(self, journal: Journal) -> None:
        begun = anyio.current_time()
        budget_s = self.lab.bench.timeouts.teardown_s
        namespaces = [self.problem.app.namespace]
        with anyio.move_on_after(budget_s, shield=True) as budget:
            await put_back(self.lab.cluster, journal, self.lab.base, namespaces, emit=self.emit)
        if budget.cancelled_caught:
            raise RecoveryError(f"putting the world back took longer than {budget_s:g} s: python main.py recover")
        self.cells[:] = [one for one in self.cells if one.kind is not CellKind.RESTORED]
        self._add(
            CellResult(
                kind=CellKind.RESTORED,
                name="world afterwards",
                expected="equal",
                seen="equal",
                outcome=Outcome.RIGHT,
                seconds=anyio.current_time() - begun,
            )
        )

    def _add(self, result: CellResult) -> None:
        self.cells.append(result)
        self.emit("verify.cell", problem=self.problem_id, **result.as_json())


def incident_name(problem: Problem) -> str:
    """How the incident of a problem is called in a table."""
    return type(problem).__name__
