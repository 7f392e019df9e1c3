"""A person plays the agent: `python cli.py`, then `options`, `start ID`, `submit("...")`, `exit`."""

from __future__ import annotations

import sys
from typing import Annotated

from sregym.cli.start import libraries

with libraries("cli.py"):
    from cyclopts import App, Parameter

    from main import content
    from sregym.cli.entry import run
    from sregym.cli.person import play
    from sregym.cli.version import version
    from sregym.cluster.providers.base import DEFAULT_NAME, DEFAULT_WORKERS, ClusterSpec

app = App(
    name="cli.py",
    help='Be on call yourself: options, start ID, submit("..."), exit; the rest is a shell.',
    version=version,
)


@app.default
async def on_call(
    *,
    cluster: Annotated[str, Parameter(help="Name of the kind cluster.")] = DEFAULT_NAME,
    workers: Annotated[int, Parameter(help="Its worker nodes.")] = DEFAULT_WORKERS,
    healthy_phase: Annotated[float | None, Parameter(help="Seconds of normal traffic before the incident.")] = None,
) -> int:
    """Reads commands until `exit`."""
    return await play(content, spec=ClusterSpec(name=cluster, workers=workers), healthy_s=healthy_phase)


if __name__ == "__main__":
    sys.exit(run(app))
