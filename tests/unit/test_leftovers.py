"""What is said when Docker is not there to remove what is ours on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sregym.cluster.leftovers import HostThing, remove_host_thing
from sregym.errors import RecoveryError


async def test_a_docker_that_has_stopped_is_said_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
    program = tmp_path / "docker"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(RecoveryError) as caught:
        await remove_host_thing(HostThing.of("container", "x"))
    assert str(caught.value) == "container x cannot be removed: Docker does not answer; start it again"
