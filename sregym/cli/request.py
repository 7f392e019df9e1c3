"""What the user asks of a run, checked before anything is touched."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sregym.agents.spec import AgentSpec, load_agent
from sregym.api.app import Profile
from sregym.catalogue import Entry
from sregym.cli.model import check_key, model_of
from sregym.cluster.providers.base import DEFAULT_NAME, DEFAULT_WORKERS, ClusterSpec
from sregym.cluster.providers.kubeconfig import KubeconfigProvider
from sregym.coordinator.lab import Content
from sregym.errors import PrerequisiteError
from sregym.gateway.internet.access import InternetAccess
from sregym.gateway.models import Budget, ModelAccess
from sregym.judge import Judge, make_judge
from sregym.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Where:
    """The cluster: a kind cluster of ours, or `existing`, that the user names."""

    spec: ClusterSpec
    existing: KubeconfigProvider | None = None

    @classmethod
    def of(cls, *, kubeconfig: Path | None, context: str | None, cluster: str | None, workers: int | None) -> Where:
        """As the command line says. Raises PrerequisiteError where it says two things."""
        ours = {"--cluster": cluster, "--workers": workers}
        given = [option for option, value in ours.items() if value is not None]
        if kubeconfig is None:
            if context is not None:
                raise PrerequisiteError("--context needs --kubeconfig", cure="name the file that the context is in")
            return cls(
                spec=ClusterSpec(name=cluster or DEFAULT_NAME, workers=DEFAULT_WORKERS if workers is None else workers)
            )
        if given:
            raise PrerequisiteError(
                f"--kubeconfig and {' and '.join(given)} exclude each other",
                cure="leave --kubeconfig out for a kind cluster, or name the cluster in that file with --context",
            )
        return cls(
            spec=ClusterSpec(),
            existing=KubeconfigProvider(kubeconfig=kubeconfig.expanduser().absolute(), context=context),
        )


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for, checked."""

    entries: Sequence[Entry]
    agents: Sequence[AgentSpec]
    attempts: int
    profile: Profile
    model: ModelAccess | None
    internet: InternetAccess
    reasoning_effort: str | None
    judge: Judge
    session_limit_s: float
    healthy_s: float
    where: Where
    seed: int
    resume: Path | None = None


def request_of(
    content: Content,
    settings: Settings,
    *,
    agents: Sequence[str],
    problem: Sequence[str] = (),
    suite: str | None = None,
    model: str | None = None,
    judge_model: str | None = None,
    budget: Budget | None = None,
    internet: InternetAccess | None = None,
    reasoning_effort: str | None = None,
    attempts: int = 1,
    session_limit_s: float | None = None,
    healthy_s: float | None = None,
    resume: Path | None = None,
    seed: int = 1,
    profile: Profile = "lite",
    where: Where | None = None,
) -> Request:
    """Checks everything before anything is touched. Raises PrerequisiteError."""
    if problem and suite:
        raise PrerequisiteError("--problem and --suite exclude each other", cure="give one of them")
    if not agents:
        raise PrerequisiteError("no agent is given", cure="say who is on call, e.g. --agent playbook")
    if attempts < 1:
        raise PrerequisiteError("--n-attempts must be at least 1", cure="leave it out for one attempt")
    if session_limit_s is not None and not 0 < session_limit_s < math.inf:
        raise PrerequisiteError("--agent-timeout must be more than 0 s, and must end", cure="leave it out for 1800 s")
    if healthy_s is not None and not 0 <= healthy_s < math.inf:
        raise PrerequisiteError("--healthy-phase cannot be less than 0 s, and must end", cure="leave it out for 120 s")
    catalogue = content.catalogue
    entries = [catalogue.entry(one) for one in dict.fromkeys(problem)] or list(catalogue.suite(suite or "all"))
    name = model or settings.models.agent_model
    specs = [load_agent(one) for one in dict.fromkeys(agents)]
    for one in specs:
        if one.needs_model and not name:
            raise PrerequisiteError(f"agent {one.name} needs a model", cure="give one with --model or AGENT_MODEL_ID")
    budget = budget or Budget()
    _check_use(
        specs,
        {
            "--model": model,
            "--reasoning-effort": reasoning_effort,
            "--max-cost": budget.cost_usd,
            "--max-tokens": budget.tokens,
        },
    )
    if name and (model or any(one.needs_model for one in specs)):
        check_key(settings.models, name)
    internet = internet or InternetAccess()
    return Request(
        entries=entries,
        agents=specs,
        attempts=attempts,
        profile=profile,
        model=model_of(settings.models, name, budget, internet),
        internet=internet,
        reasoning_effort=reasoning_effort or settings.models.agent_reasoning_effort or None,
        judge=make_judge(settings.models, model=judge_model),
        session_limit_s=session_limit_s or settings.timeouts.session_s,
        healthy_s=settings.timeouts.healthy_phase_s if healthy_s is None else healthy_s,
        where=where or Where(spec=ClusterSpec()),
        seed=seed,
        resume=resume,
    )


def _check_use(agents: Sequence[AgentSpec], options: Mapping[str, object]) -> None:
    """Raises PrerequisiteError where options of the model are given and no agent would notice."""
    given = [option for option, value in options.items() if value is not None]
    if given and not any(one.needs_model or one.outside for one in agents):
        names = ", ".join(one.name for one in agents)
        raise PrerequisiteError(
            f"{' and '.join(given)} would have no effect: no agent here has a model ({names})",
            cure="leave it out, or put an agent with a model on call, e.g. --agent react",
        )
