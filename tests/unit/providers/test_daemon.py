"""The Docker daemon: whose it is, and what is said where there is none. `docker` is played by a script."""

from __future__ import annotations

import json
import os
from pathlib import Path

import anyio
import pytest

from sregym.cluster.providers.daemon import PACKAGES, DockerDaemon, install_programs
from sregym.errors import PrerequisiteError
from sregym.progress import Recorded, Silent
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


@pytest.fixture
def bare(program: Program, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Debian without Docker, whose apt-get cannot reach one of its sources."""
    monkeypatch.setattr("sregym.cluster.providers.host.look", a_host)
    monkeypatch.setattr("shutil.which", lambda name: None)
    program("apt-get", 'case "$*" in *update*) exit 100 ;; esac')
    return program


async def test_only_what_is_missing_is_installed(
    bare: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None if name in ("dockerd", "jq") else f"/bin/{name}")
    progress = Recorded()
    await install_programs(PACKAGES, progress)
    assert [one.step for one in progress.ended] == ["install docker.io jq"]
    last = (tmp_path / "bin" / "apt-get.calls").read_text().splitlines()[-1]
    assert last == "--quiet install --yes --no-install-recommends docker.io jq"


async def test_packages_that_cannot_be_had_are_for_the_user(bare: Program) -> None:
    bare("apt-get", "echo 'Unable to locate package' >&2; exit 100")
    with pytest.raises(PrerequisiteError, match="Unable to locate package"):
        await install_programs(PACKAGES, Silent())


async def test_nothing_is_installed_by_those_who_may_not(bare: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sregym.cluster.providers.host.look", lambda: a_host(is_root=False))
    with pytest.raises(PrerequisiteError, match=r"docker\.io"):
        await install_programs(PACKAGES, Silent())


@pytest.fixture
def installable(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Debian without Docker, on which apt-get brings programs. Returns where calls of `service` are written."""
    programs = tmp_path / "bin"
    # A process that is named dockerd, as a script's would not be.
    program("apt-get", f'case "$*" in *install*) ln -s /bin/sleep {programs}/dockerd ;; esac')
    for name in PACKAGES:
        if name != "dockerd":
            program(name, "")
    program("docker", f"echo '{INFO}'")
    monkeypatch.setattr("sregym.cluster.providers.host.look", a_host)
    monkeypatch.setattr("shutil.which", lambda name: str(programs / name) if (programs / name).exists() else None)
    monkeypatch.setattr(DockerDaemon, "_command", lambda self, host: ["dockerd", "60"])
    return program("service", "")


LACKING = a_host(missing_capabilities=frozenset({"CAP_SYS_RESOURCE"}))


async def test_a_daemon_that_we_start_is_ours_to_stop(daemon: DockerDaemon, installable: Path) -> None:
    """Where capabilities are missing: one that the new package has started is stopped, and ours is started."""
    started = await daemon._start(LACKING)
    assert started.ours
    assert await anyio.Path(installable).read_text() == "docker stop\n"
    assert await daemon.stop()
    assert not await daemon.stop()


async def test_a_service_that_was_installed_before_is_left_alone(daemon: DockerDaemon, installable: Path) -> None:
    (installable.parent / "dockerd").symlink_to("/bin/sleep")
    started = await daemon._start(LACKING)
    assert started.ours
    assert not await anyio.Path(installable).exists()
    assert await daemon.stop()


async def test_a_daemon_that_the_new_package_started_is_taken(daemon: DockerDaemon, installable: Path) -> None:
    started = await daemon._start(a_host())
    assert not started.ours
    assert not await anyio.Path(installable).exists()
