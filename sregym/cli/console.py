"""How the command line shows long work: live on a terminal, plain lines elsewhere. Nothing over 2 s is silent."""

from __future__ import annotations

from dataclasses import dataclass, field

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from sregym.events import Event
from sregym.progress import Outcome

console = Console(stderr=True, highlight=False)
"""Progress and messages go to standard error; standard output is for results (tables, JSON)."""

output = Console(highlight=False)
if not output.is_terminal:
    output.width = 100  # what tables are made for; rich would take 80 for a file or a pipe

_MARK = {
    Outcome.DONE: "[green]done[/]",
    Outcome.FAILED: "[red]failed[/]",
    Outcome.CANCELLED: "[yellow]cancelled[/]",
}


@dataclass
class ConsoleProgress:
    """A `Progress` that prints when a step begins and ends, and its newest line now and then on a terminal.

    A step whose result was there already has done nothing, and is not told.
    """

    quiet: bool = False
    _status: Status | None = field(default=None, init=False)
    _open: dict[str, str] = field(default_factory=dict, init=False)

    def started(self, step: str, *, expected_s: float | None = None) -> None:
        if self.quiet:
            return
        about = f" [dim](took {expected_s:.0f} s before)[/]" if expected_s and expected_s >= 2 else ""
        self._open[step] = ""
        if not console.is_terminal:
            console.print(f"... {step}{about}")
        self._redraw()

    def note(self, step: str, line: str) -> None:
        if step in self._open:
            self._open[step] = line.strip()[:100]
            self._redraw()

    def finished(self, step: str, outcome: Outcome, *, seconds: float) -> None:
        self._open.pop(step, None)
        if not self.quiet and outcome is not Outcome.CACHED:
            console.print(f"    {step}: {_MARK[outcome]} [dim]{seconds:.1f} s[/]")
        self._redraw()

    def _redraw(self) -> None:
        if not console.is_terminal or self.quiet:
            return
        if self._status is None:
            self._status = Status("", console=console)
        if not self._open:
            self._status.stop()
            return
        step, line = list(self._open.items())[-1]
        self._status.update(f"{escape(step)} [dim]{escape(line)}[/]")
        self._status.start()


_SHOWN = {
    "attempt.begun": "[bold]{problem}[/] with [bold]{agent}[/], attempt {number}",
    "cluster.ready": "  cluster {name} is ready ({seconds:.0f} s)",
    "app.deploying": "  deploying {app} ({profile})",
    "app.healthy": "  {app} is healthy and serves users ({seconds:.0f} s)",
    "healthy.begun": "  healthy phase: {seconds:.0f} s of normal traffic first",
    "fault.injecting": "  breaking it",
    "fault.confirmed": "  the incident is on: {symptom} ({seconds:.0f} s)",
    "agent.started": "  the agent is on call",
    "submission.taken": "  {stage} submitted after {seconds:.0f} s",
    "diagnosis.graded": "  diagnosis: {state} ({score})",
    "mitigation.checking": "  checking the system that the agent left",
    "mitigation.graded": "  mitigation: {state}{why}",
    "world.equal": "  the world is as it was before",
    "world.unequal": "  [yellow]the world differs in {count} places; putting it back[/]",
    "attempt.void": "  [yellow]void: {reason}[/]",
    "attempt.ended": "  ended ({overhead_s:.0f} s overhead, {hold_s:.0f} s proof windows)",
}


def show_event(event: Event) -> None:
    """Prints the events that a person wants to follow; the others are only in the file."""
    if (text := _SHOWN.get(event.name)) is not None:
        console.print(text.format(**event.data))
