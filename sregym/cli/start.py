"""What a program says where it is started with a Python that cannot run it. Read by old ones, too: no new syntax."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

OURS = ("sregym", "main", "apps", "injectors", "oracles", "problems")
NEEDED = (3, 11)
USAGE = 2


@contextmanager
def libraries(program: str) -> Iterator[None]:
    """Ends the program with its cure where Python is too old, or an import in this context lacks its library."""
    if sys.version_info < NEEDED:
        version = ".".join(map(str, sys.version_info[:3]))
        _stop(program, f"Python {version} is too old: {'.'.join(map(str, NEEDED))} is needed")
    try:
        yield
    except ImportError as error:
        name = (error.name or "").partition(".")[0]
        if name in OURS:
            raise
        _stop(program, f"the library {name} is not there for {sys.executable}")


def _stop(program: str, why: str) -> None:
    print(
        f"{why}\n  -> start it with: scripts/uv run {program} ..., or once in this shell: . .venv/bin/activate",
        file=sys.stderr,
    )
    sys.exit(USAGE)
