"""Doctor: every finding that stands in the way says what to do."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from sregym.cluster.providers import doctor
from sregym.cluster.providers.doctor import Finding, Status, Wanted, examine, passed
from sregym.cluster.providers.host import GIB, Host
from tests.unit.providers.conftest import Program
from tests.unit.providers.test_host import a_host


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch, program: Program, tmp_path: Path) -> Program:
    """A machine where all is well; tests change one thing."""

    async def no_registry() -> bool:
        return False

    monkeypatch.setattr(doctor, "registry_answers", lambda pins: no_registry)
    monkeypatch.setattr(doctor, "free_space", lambda path: 100 * GIB)
    program(
        "docker",
        f"""echo '{{"ServerVersion":"1","DockerRootDir":"{tmp_path}","Driver":"overlay2","DefaultRuntime":"runc"}}'""",
    )
    program("go", "echo go version go1.99")
    program("node", "echo v20")
    monkeypatch.setattr(doctor, "look", a_host)
    return program


async def findings(tmp_path: Path, **changes: object) -> dict[str, Finding]:
    values: dict[str, object] = {"cache": tmp_path, "state": tmp_path, "ports": {}, "keys": {}}
    return {one.check: one for one in await examine(Wanted(**{**values, **changes}))}  # type: ignore[arg-type]


async def test_a_good_machine_passes(examined: Program, tmp_path: Path) -> None:
    found = await findings(tmp_path)
    assert passed(list(found.values()))
    assert found["docker"].status is Status.OK


@pytest.mark.parametrize(
    ("host", "check"),
    [
        (a_host(memory_available=GIB), "memory"),
        (a_host(architecture="riscv64"), "system"),
        (a_host(missing_capabilities=frozenset({"CAP_SYS_RESOURCE"})), "docker"),
    ],
)
async def test_what_stands_in_the_way_is_failed_and_says_what_to_do(
    examined: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: Host, check: str
) -> None:
    monkeypatch.setattr(doctor, "look", lambda: host)
    found = await findings(tmp_path)
    assert not passed(list(found.values()))
    assert found[check].status is Status.FAILED
    assert found[check].todo


@pytest.mark.parametrize(
    ("name", "said"),
    [("go", "go version go1.9"), ("go", "go version go1.22.1"), ("node", "v8.1"), ("go", ""), ("node", "none")],
)
async def test_a_program_that_is_too_old_is_named_with_what_is_needed(
    examined: Program, tmp_path: Path, name: str, said: str
) -> None:
    examined(name, f"echo {said}")
    found = (await findings(tmp_path))[name]
    assert found.status is Status.FAILED
    assert "or newer" in found.todo


@pytest.mark.parametrize(("name", "said"), [("go", "go version go1.24 linux/amd64"), ("node", "v20.0.0")])
async def test_the_oldest_that_works_is_fine(examined: Program, tmp_path: Path, name: str, said: str) -> None:
    examined(name, f"echo {said}")
    assert (await findings(tmp_path))[name].status is Status.OK


async def test_a_go_that_may_not_fetch_another_is_noted(examined: Program, tmp_path: Path) -> None:
    examined("go", '[ "$1" = env ] && echo local || echo go version go1.99')
    found = (await findings(tmp_path))["go"]
    assert found.status is Status.NOTE
    assert "GOTOOLCHAIN" in found.todo


async def test_no_daemon_is_ours_to_start_only_as_root_on_debian(
    examined: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    examined("docker", "exit 1")
    assert (await findings(tmp_path))["docker"].status is Status.NOTE
    monkeypatch.setattr(doctor, "look", lambda: a_host(is_root=False))
    assert (await findings(tmp_path))["docker"].status is Status.FAILED


async def test_little_disk_is_a_note_and_almost_none_a_failure(
    examined: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "free_space", lambda path: 10 * GIB)
    assert (await findings(tmp_path))["disk for builds"].status is Status.NOTE
    monkeypatch.setattr(doctor, "free_space", lambda path: GIB)
    assert (await findings(tmp_path))["disk for builds"].status is Status.FAILED


async def test_a_taken_port_is_failed_and_a_free_choice_is_not(examined: Program, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        found = await findings(tmp_path, ports={"one": taken.getsockname()[1], "other": 0})
    assert found["port for one"].status is Status.FAILED
    assert found["port for other"].status is Status.OK


async def test_absent_keys_do_not_stand_in_the_way(examined: Program, tmp_path: Path) -> None:
    found = await findings(tmp_path, keys={"A_KEY": False, "B_KEY": True})
    assert found["A_KEY"].status is Status.NOTE
    assert found["B_KEY"].status is Status.OK
    assert passed(list(found.values()))


async def test_node_is_needed_only_to_build(examined: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None if name == "node" else f"/bin/{name}")
    assert (await findings(tmp_path))["node"].status is Status.FAILED

    async def a_registry() -> bool:
        return True

    monkeypatch.setattr(doctor, "registry_answers", lambda pins: a_registry)
    assert (await findings(tmp_path))["node"].status is Status.NOTE
