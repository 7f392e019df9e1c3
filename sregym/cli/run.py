"""`main.py` without a command, and `main.py demo`: put agents on call, grade them, show why each verdict fell."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import anyio
from cyclopts import Group, Parameter

from sregym.agents.images import image_of
from sregym.agents.outside import Greet, OutsideAgent
from sregym.agents.spec import AgentSpec
from sregym.api.app import Profile
from sregym.cli.console import ConsoleProgress, console, output, show_event
from sregym.cli.model import limits_of
from sregym.cli.request import Request, Where, request_of
from sregym.cli.resume import RESUME_COMMAND, lock_to_go_on_with
from sregym.cli.table import show
from sregym.cluster.providers.base import DEFAULT_NAME, DEFAULT_WORKERS, ClusterSpec
from sregym.coordinator.lab import Content, Site, prepare
from sregym.coordinator.run import Plan, Runner
from sregym.errors import InjectionError, JudgeError, PrerequisiteError, SregymError, principal
from sregym.gateway.internet.access import Endpoint, InternetAccess
from sregym.gateway.models import Budget
from sregym.gateway.web import check_ports
from sregym.results import ClusterFacts, RunFolder, RunLock, Status, load_run
from sregym.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
WHAT = Group("What to run", sort_key=1)
HOW = Group("How", sort_key=2)
WHERE = Group("Where", sort_key=3)

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]

EXTERNAL = "external"
DEMO_SUITE = "demo"
DEMO_AGENTS = ("playbook", "reference")
DEMO_HEALTHY_S = 20.0


def run_command(content: Callable[[], Content]) -> Callable[..., object]:
    """The default command."""

    async def run(
        *,
        problem: Annotated[tuple[str, ...], Parameter(group=WHAT, help="A problem's id; may be repeated.")] = (),
        suite: Annotated[
            str | None, Parameter(group=WHAT, help="A suite of problems instead: all, demo or smoke.")
        ] = None,
        agent: Annotated[
            tuple[str, ...],
            Parameter(
                group=WHAT, help="Who is on call: a built-in name or the path of an agent.yaml; may be repeated."
            ),
        ] = (),
        use_external_harness: Annotated[
            bool,
            Parameter(group=WHAT, help="Invite an agent of your own that runs anywhere: same as --agent external."),
        ] = False,
        model: Annotated[str | None, Parameter(group=HOW, help="Any LiteLLM model string, or local/NAME.")] = None,
        judge_model: Annotated[
            str | None, Parameter(group=HOW, help="Who grades diagnoses; `offline` needs no key.")
        ] = None,
        reasoning_effort: Annotated[
            Effort | None, Parameter(group=HOW, help="How long the agent's model thinks before it answers.")
        ] = None,
        max_cost: Annotated[
            float | None, Parameter(group=HOW, help="USD that the agent's model may cost in one attempt.")
        ] = None,
        max_tokens: Annotated[
            int | None, Parameter(group=HOW, help="Tokens that the agent's model may take in one attempt, in and out.")
        ] = None,
        internet_access: Annotated[
            Literal["filtered", "open"],
            Parameter(group=HOW, help="What the agent reaches besides the gateway: nothing, or public addresses."),
        ] = "filtered",
        allow_agent_endpoint: Annotated[
            tuple[str, ...],
            Parameter(group=HOW, help="URL whose host and port the agent may reach in any case; may be repeated."),
        ] = (),
        n_attempts: Annotated[int, Parameter(group=HOW, help="Attempts of each agent at each problem.")] = 1,
        agent_timeout: Annotated[
            float | None, Parameter(group=HOW, help="Seconds that a session may take; 1800 unless set.")
        ] = None,
        healthy_phase: Annotated[
            float | None, Parameter(group=HOW, help="Seconds of normal traffic before the incident; 120 unless set.")
        ] = None,
        resume: Annotated[
            Path | None,
            Parameter(
                group=HOW,
                help="Go on with a run (its folder, results.csv or id). Alone: just as that run was started.",
            ),
        ] = None,
        seed: Annotated[int, Parameter(group=HOW, help="Seed of the users' behaviour.")] = 1,
        profile: Annotated[
            Profile, Parameter(group=WHERE, help="lite: images built here; full: the real ones, from a registry.")
        ] = "lite",
        cluster: Annotated[
            str | None, Parameter(group=WHERE, help=f"Name of the kind cluster; {DEFAULT_NAME} unless set.")
        ] = None,
        workers: Annotated[
            int | None, Parameter(group=WHERE, help=f"Its worker nodes; {DEFAULT_WORKERS} unless set.")
        ] = None,
        kubeconfig: Annotated[
            Path | None, Parameter(group=WHERE, help="A cluster that exists, and that others may use, instead.")
        ] = None,
        context: Annotated[
            str | None, Parameter(group=WHERE, help="Its context in that file; the current one unless set.")
        ] = None,
    ) -> int:
        """Deploys an application, breaks it, puts an agent on call, and grades its diagnosis and its mitigation.

        With no `--problem` and no `--suite` every problem is run. Nothing but `--agent` is needed:
        `python main.py --agent playbook --suite demo`.
        """
        settings = Settings()
        request = request_of(
            content(),
            settings,
            problem=problem,
            suite=suite,
            agents=(*agent, *((EXTERNAL,) if use_external_harness else ())),
            model=model,
            judge_model=judge_model,
            reasoning_effort=reasoning_effort,
            budget=Budget(cost_usd=max_cost, tokens=max_tokens),
            internet=InternetAccess(
                open=internet_access == "open", endpoints=tuple(map(Endpoint.of, allow_agent_endpoint))
            ),
            attempts=n_attempts,
            session_limit_s=agent_timeout,
            healthy_s=healthy_phase,
            resume=resume,
            seed=seed,
            profile=profile,
            where=Where.of(kubeconfig=kubeconfig, context=context, cluster=cluster, workers=workers),
        )
        return await carry_out(request, content(), settings)

    return run


def demo_command(content: Callable[[], Content]) -> Callable[..., object]:
    """`main.py demo`."""

    async def demo(
        *,
        healthy_phase: Annotated[
            float, Parameter(help="Seconds of normal traffic before each incident.")
        ] = DEMO_HEALTHY_S,
        resume: Annotated[Path | None, Parameter(help="Go on with a demo: its folder, results.csv or id.")] = None,
        cluster: Annotated[str, Parameter(help="Name of the kind cluster.")] = DEFAULT_NAME,
    ) -> int:
        """From a bare machine to graded incidents: two problems, a rule-based agent, and one that knows the answer.

        Needs no key and no image registry. The first time everything that is missing is built, which takes a while.
        """
        settings = Settings()
        request = request_of(
            content(),
            settings,
            suite=DEMO_SUITE,
            agents=DEMO_AGENTS,
            judge_model="offline",
            healthy_s=healthy_phase,
            resume=resume,
            where=Where(spec=ClusterSpec(name=cluster)),
        )
        return await carry_out(request, content(), settings)

    return demo


def invite(agent: OutsideAgent) -> None:
    """Tells the owner of an outside agent where everything is: as lines that a shell can read."""
    invitation = agent.invitation
    output.print(f"# {invitation.app_name} has an incident. Namespaces: {', '.join(invitation.namespaces)}.")
    output.print(f"# POST {invitation.api_url}/submit, GET {invitation.api_url}/status and /get_app", soft_wrap=True)
    for name, value in invitation.environment.items():
        output.print(f"export {name}={shlex.quote(value)}", soft_wrap=True)


async def carry_out(
    request: Request, content: Content, settings: Settings, *, greet: Greet = invite, resumable: bool = True
) -> int:
    """Prepares the site, runs, and shows the table. The table is shown of whatever was finished, also on Ctrl-C.

    Args:
        resumable: Whether `--resume` can go on with it, which is to be told where it ends early.
    """
    begun = anyio.current_time()
    if any(agent.outside for agent in request.agents):
        ports = settings.ports
        check_ports(ports.bind_host, ports.api, ports.mcp, ports.kube_proxy)
    folder = _folder(request, settings.paths.results)
    with _under_way(folder, resumable=resumable) as prepared:
        lock = lock_to_go_on_with(folder, await _lock(request, folder))
        folder.write_lock(lock)
        apps = list({entry.variant.app: entry.build(request.profile).app for entry in request.entries}.values())
        where = request.where
        site = await prepare(settings, content, apps, where.spec, ConsoleProgress(), existing=where.existing)
        prepared()
        console.print(f"site ready after {anyio.current_time() - begun:.0f} s")
        cluster = _cluster(site)
        if lock.cluster not in (ClusterFacts(), cluster):
            console.print(f"[yellow]note[/]: the run began on {lock.cluster}, and goes on on {cluster}")
        folder.write_lock(lock.on(cluster, {ref: one.id for one in site.images.values() for ref in one.node_refs}))
        await _have_images(request.agents, site, folder)
        runner = Runner(
            plan=_plan(request, folder),
            settings=settings,
            folder=folder,
            listeners=[show_event],
            seed=request.seed,
            greet=greet,
        )
        try:
            await runner.run(site)
        finally:
            show(load_run(folder.path), output)
            console.print(f"total {anyio.current_time() - begun:.0f} s")
    return exit_code(one.status for one in load_run(folder.path).attempts)


@contextmanager
def _under_way(folder: RunFolder, *, resumable: bool) -> Iterator[Callable[[], None]]:
    """A run that ends early says how to go on; one that is refused before its site is there leaves no folder.

    Yields what is to be called when the site is there.
    """
    refusable, ended = True, False

    def prepared() -> None:
        nonlocal refusable
        refusable = False

    try:
        yield prepared
        ended = True
    except (SregymError, OSError, BaseExceptionGroup) as error:
        if refusable and isinstance(principal(error), PrerequisiteError):
            folder.discard()
            ended = True
        raise
    finally:
        if resumable and not ended:
            console.print(f"go on with: {RESUME_COMMAND} {shlex.quote(str(folder.path))}", soft_wrap=True, markup=False)


def exit_code(statuses: Iterable[Status]) -> int:
    """Of a run that came to its end: 0 where every attempt was graded, or skipped for a reason."""
    ended = set(statuses)
    if Status.VOID in ended:
        return InjectionError.exit_code
    return JudgeError.exit_code if Status.UNSCORED in ended else 0


def _folder(request: Request, results: Path) -> RunFolder:
    return RunFolder.create(results) if request.resume is None else RunFolder.find(request.resume, results)


async def _have_images(agents: Sequence[AgentSpec], site: Site, folder: RunFolder) -> None:
    """Builds or pulls the agents' images while nothing is broken yet. Raises AgentError where that fails."""
    for agent in agents:
        if not agent.outside:
            await image_of(agent, site.agent_images, log=folder.path / f"image-{agent.name}.log")


def _plan(request: Request, folder: RunFolder) -> Plan:
    done = frozenset(
        (one.agent.name, one.problem.id, one.attempt)
        for one in load_run(folder.path).attempts
        if one.status == "graded"
    )
    return Plan(
        entries=request.entries,
        agents=request.agents,
        attempts=request.attempts,
        profile=request.profile,
        judge=request.judge,
        model=request.model,
        internet=request.internet,
        reasoning_effort=request.reasoning_effort,
        session_limit_s=request.session_limit_s,
        healthy_s=request.healthy_s,
        done=done,
    )


def _cluster(site: Site) -> ClusterFacts:
    handle = site.handle
    return ClusterFacts(
        provider=handle.provider,
        kubernetes=handle.server_version,
        workers=len(handle.workers),
        node_image=handle.node_image or "",
        node_image_digest=handle.node_image_id or "",
    )


async def _lock(request: Request, folder: RunFolder) -> RunLock:
    model = request.model if any(one.needs_model for one in request.agents) else None
    return await RunLock.collect(
        run_id=folder.run_id,
        repo=ROOT,
        profile=request.profile,
        judge=request.judge.fingerprint().as_json(),
        agents={one.name: one.version for one in request.agents},
        model=model.model if model else None,
        reasoning_effort=request.reasoning_effort,
        internet_access=request.internet.mode,
        agent_endpoints=request.internet.named(),
        budget=limits_of(model),
        problems={entry.id: entry.primitive.revision for entry in request.entries},
        seeds={"users": request.seed},
        timeouts_s={"session": request.session_limit_s, "healthy": request.healthy_s},
    )
