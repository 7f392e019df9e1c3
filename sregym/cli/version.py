"""What `--version` says. This is run from its checkout and never installed, so that is in pyproject.toml only."""

from __future__ import annotations

import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def version() -> str:
    """The project's version."""
    return str(tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["version"])
