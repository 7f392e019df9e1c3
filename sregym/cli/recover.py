"""`main.py recover`: finishes what a killed run left, in the cluster and on this machine."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from cyclopts import App as Cyclopts

from sregym.cli.console import console
from sregym.cluster.contract import Cluster
from sregym.coordinator.lab import connect
from sregym.coordinator.recovery import JournalFacts, recover_everything
from sregym.settings import Settings

RECOVER_COMMAND = "python main.py recover"


def recover_app() -> Cyclopts:
    """The command, as an app so that it can be mounted."""
    app = Cyclopts(
        name="recover", help="Undo what a killed run left behind. Safe to repeat. Exit code 6 while anything is left."
    )

    @app.default
    async def recover() -> int:
        """Undoes every open journal, removes the applications, containers, networks and processes of killed runs."""
        done = await recover_everything(Settings().paths.state, _connect)
        if not done:
            console.print("nothing is left to recover")
        for one in done:
            mark = "[green]ok[/]" if one.ok else "[red]left[/]"
            console.print(f"{mark} {one.attempt}: {one.how}", soft_wrap=True)
            if one.error:
                console.print(one.error, markup=False, soft_wrap=True)
        return 0 if all(one.ok for one in done) else 6

    return app


def _connect(facts: JournalFacts) -> AbstractAsyncContextManager[Cluster]:
    return connect(facts.kubeconfig, facts.context, facts.nodes)
