"""Programs that are played by small scripts, so that no test here needs Docker or a network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Program = Callable[[str, str], Path]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """`program(name, script)` puts a shell script of that name first on the search path; its calls are in `calls`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def put(name: str, script: str) -> Path:
        path = folder / name
        calls = folder / f"{name}.calls"
        path.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n{script}\n', encoding="utf-8")
        path.chmod(0o755)
        return calls

    return put
