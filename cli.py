"""A person plays the agent: `python cli.py`, then `options`, `start ID`, `submit("...")`, `exit`."""

from __future__ import annotations

import sys

import anyio

from main import content
from sregym.cli.person import play

if __name__ == "__main__":
    sys.exit(anyio.run(play, content))
