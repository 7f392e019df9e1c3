"""The Docker daemon: whose it is, and what is said where there is none. `docker` is played by a script."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sregym.cluster.providers.daemon import DockerDaemon
from sregym.errors import PrerequisiteError
from sregym.progress import Silent
from tests.unit.providers.conftest import Program
from tests.unit.providers.test_host import a_host

INFO = json.dumps(
    {"ServerVersion": "28.0", "DockerRootDir": "/var/lib/docker", "Driver": "overlay2", "DefaultRuntime": "runc"}
)


@pytest.fixture
def daemon(tmp_path: Path) -> DockerDaemon:
    return DockerDaemon(state=tmp_path / "state", progress=Silent())


async def test_a_daemon_that_answers_is_found_and_not_ours(daemon: DockerDaemon, program: Program) -> None:
    program("docker", f"echo '{INFO}'")
    found = await daemon.find()
    assert found is not None
    assert (found.server_version, found.ours) == ("28.0", False)


async def test_a_client_without_a_daemon_finds_none(daemon: DockerDaemon, program: Program) -> None:
    # This is what docker(1) does: it prints what it knows of itself and exits 1.
    program("docker", """echo '{"ServerVersion":"","ServerErrors":["Cannot connect"]}'; exit 1""")
    assert await daemon.find() is None


async def test_a_daemon_that_refuses_us_is_for_the_user_to_open(daemon: DockerDaemon, program: Program) -> None:
    program("docker", "echo 'permission denied while trying to connect' >&2; exit 1")
    with pytest.raises(PrerequisiteError, match="may not use it"):
        await daemon.find()


async def test_only_root_on_debian_starts_one(daemon: DockerDaemon, program: Program) -> None:
    program("docker", "exit 1")
    for host in (a_host(is_root=False), a_host(is_debian=False), a_host(system="Darwin")):
        with pytest.raises(PrerequisiteError, match="no Docker daemon answers"):
            await daemon.ensure(host)


async def test_nobody_elses_daemon_is_stopped(daemon: DockerDaemon, tmp_path: Path) -> None:
    assert not await daemon.stop()
    record = tmp_path / "state" / "docker" / "daemon.json"
    record.parent.mkdir(parents=True)
    # The id of a process that is alive but is no dockerd: ours has died and its number was given away.
    record.write_text(json.dumps({"pid": os.getpid(), "log": "/dev/null"}))
    assert not await daemon.stop()
