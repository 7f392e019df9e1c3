"""`cli.py`: a person plays the agent.

    options              what there is
    start ID             an incident
    submit("text")       the diagnosis; later submit("") when the incident is mitigated
    exit                 give up, clean up, leave

Anything else goes to a shell that has the agent's rights: `kubectl get pods`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
import httpx
from anyio import to_thread

from sregym import process
from sregym.agents.outside import Invitation, OutsideAgent
from sregym.cli.console import console, output
from sregym.cli.request import Where, request_of
from sregym.cli.run import EXTERNAL, carry_out
from sregym.cluster.providers.base import ClusterSpec
from sregym.coordinator.lab import Content
from sregym.errors import CommandError, PrerequisiteError, SregymError, principal
from sregym.settings import Settings

PROMPT = "oncall> "
HELP = 'options | start ID | submit("...") | exit | any shell command'
COMMAND_WITHIN_S = 600.0


@dataclass
class Session:
    """What goes on: at most one incident at a time."""

    spec: ClusterSpec
    healthy_s: float | None = None
    agent: OutsideAgent | None = None
    handed_over: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope | None = None

    @property
    def invitation(self) -> Invitation | None:
        return self.agent.invitation if self.agent else None

    def greet(self, agent: OutsideAgent) -> None:
        self.agent = agent
        self.handed_over.set()
        told = agent.invitation
        output.print(f"You are on call for {told.app_name} (namespaces {', '.join(told.namespaces)}).\n{HELP}")


async def play(content: Callable[[], Content], *, spec: ClusterSpec, healthy_s: float | None = None) -> int:
    """Reads commands until `exit` or the end of the input."""
    session = Session(spec=spec, healthy_s=healthy_s)
    output.print(HELP)
    async with anyio.create_task_group() as tasks:
        while (line := await _ask()) is not None:
            words = line.split()
            if not words:
                continue
            if words[0] == "exit":
                break
            if words[0] == "options":
                for entry in content().catalogue.suite("all"):
                    output.print(entry.id)
            elif words[0] == "start":
                if session.scope is not None:
                    output.print("an incident is under way already: hand in, or exit")
                else:
                    tasks.start_soon(_incident, session, content(), words[1:])
                    await _until_handed_over(session)
            elif line.startswith("submit"):
                await _submit(session, line)
            else:
                await _shell(session, line)
        if session.agent:
            session.agent.leave()
        elif session.scope:
            session.scope.cancel()
    return 0


async def _incident(session: Session, content: Content, words: list[str]) -> None:
    """One incident, from the cluster to the table of verdicts."""
    with anyio.CancelScope() as session.scope:
        try:
            settings = Settings()
            if len(words) != 1:
                raise PrerequisiteError("start takes one problem's id", cure="see `options`")
            request = request_of(
                content,
                settings,
                problem=words,
                agents=[EXTERNAL],
                healthy_s=session.healthy_s,
                where=Where(spec=session.spec),
            )
            await carry_out(request, content, settings, greet=session.greet, resumable=False)
        except (SregymError, BaseExceptionGroup) as error:
            known = principal(error)
            if known is None:
                raise
            console.print(f"[red]{type(known).__name__}[/]: {known}", soft_wrap=True)
    session.agent, session.scope = None, None
    session.handed_over.set()
    session.handed_over = anyio.Event()


async def _until_handed_over(session: Session) -> None:
    await session.handed_over.wait()


async def _ask() -> str | None:
    """The next line; None at the end of the input."""
    try:
        return (await to_thread.run_sync(input, PROMPT, abandon_on_cancel=True)).strip()
    except EOFError:
        return None


async def _submit(session: Session, line: str) -> None:
    if session.invitation is None:
        output.print("there is no incident: start one")
        return
    try:
        call = ast.parse(line, mode="eval").body
        if not isinstance(call, ast.Call):
            raise ValueError(line)
        solution = ast.literal_eval(call.args[0]) if call.args else ""
    except (SyntaxError, ValueError):
        output.print('write submit("text"), or submit("") when the incident is mitigated')
        return
    try:
        async with httpx.AsyncClient(timeout=30) as client:
            reply = await client.post(f"{session.invitation.api_url}/submit", json={"solution": solution})
    except httpx.HTTPError:
        output.print("the desk does not answer: the session is over")
        return
    output.print(reply.json()["message"])


async def _shell(session: Session, line: str) -> None:
    environment = dict(session.invitation.environment) if session.invitation else {}
    tools = environment.pop("TOOLS", None)
    command = f"PATH='{tools}':$PATH; {line}" if tools else line
    try:
        done = await process.run(
            ["bash", "-c", command], env=environment, check=False, within=COMMAND_WITHIN_S, on_line=_print_plain
        )
    except CommandError as error:
        output.print(str(error))
        return
    if not done.ok:
        output.print(f"status {done.code}")


def _print_plain(line: str) -> None:
    output.print(line, markup=False, soft_wrap=True)
