"""Host facts, and the runtime that asks only for what the host can give."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sregym import process
from sregym.cluster.providers import host
from sregym.cluster.providers.daemon import Docker, check_suitable, render_runtime
from sregym.cluster.providers.host import CAPABILITIES, Host, missing_from
from sregym.errors import PrerequisiteError

WHOLE = (1 << len(CAPABILITIES)) - 1
PRIVILEGED = {"bounding": ["CAP_SYS_ADMIN", "CAP_SYS_RESOURCE"], "effective": ["CAP_SYS_RESOURCE"]}


def a_host(**changes: object) -> Host:
    facts: dict[str, object] = {
        "system": "Linux",
        "architecture": "amd64",
        "is_root": True,
        "is_debian": True,
        "release": "bookworm",
        "missing_capabilities": frozenset(),
        "cgroup_version": 2,
        "memory_total": 16 * host.GIB,
        "memory_available": 12 * host.GIB,
        "cpus": 4,
        "inotify_instances": 8192,
        "inotify_watches": 524_288,
    }
    return Host(**{**facts, **changes})  # type: ignore[arg-type]


def a_docker(**changes: object) -> Docker:
    facts: dict[str, object] = {
        "server_version": "28.0",
        "data_root": Path("/var/lib/docker"),
        "storage_driver": "overlay2",
        "default_runtime": "runc",
        "ours": False,
    }
    return Docker(**{**facts, **changes})  # type: ignore[arg-type]


def test_a_whole_bounding_set_lacks_nothing() -> None:
    assert missing_from(WHOLE, last=len(CAPABILITIES) - 1) == frozenset()


def test_missing_capabilities_are_named_by_bit() -> None:
    without = WHOLE & ~(1 << 24) & ~(1 << 12)
    assert missing_from(without, last=40) == {"CAP_SYS_RESOURCE", "CAP_NET_ADMIN"}


def test_bits_that_the_kernel_does_not_know_are_not_missing() -> None:
    assert missing_from((1 << 38) - 1, last=37) == frozenset()


def test_looking_at_this_machine_finds_something() -> None:
    seen = host.look()
    assert seen.cpus >= 1
    assert seen.memory_total > seen.memory_available > 0


def test_space_is_asked_where_the_folder_will_be(tmp_path: Path) -> None:
    host.require_space(tmp_path / "not" / "yet", needed=1, purpose="a test")
    with pytest.raises(PrerequisiteError, match=r"a test needs .* GiB"):
        host.require_space(tmp_path / "not" / "yet", needed=1 << 60, purpose="a test")


async def run_runtime(folder: Path, missing: frozenset[str], arguments: list[str]) -> None:
    script = folder / "runtime"
    script.write_text(render_runtime(missing, runc="echo"))
    script.chmod(0o755)
    await process.run([script, *arguments], cwd=folder)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--root", "/run/x", "create", "--bundle", "BUNDLE", "id"],
        ["create", "-b", "BUNDLE", "id"],
        ["run", "--bundle=BUNDLE", "id"],
    ],
)
async def test_runtime_trims_a_new_container(tmp_path: Path, arguments: list[str]) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    config = bundle / "config.json"
    config.write_text(json.dumps({"process": {"capabilities": PRIVILEGED, "oomScoreAdj": -999}, "root": {"path": "r"}}))
    filled = [argument.replace("BUNDLE", str(bundle)) for argument in arguments]
    await run_runtime(tmp_path, frozenset({"CAP_SYS_RESOURCE"}), filled)
    written = json.loads(config.read_text())
    assert written["process"]["capabilities"] == {"bounding": ["CAP_SYS_ADMIN"], "effective": []}
    assert written["process"]["oomScoreAdj"] == 0
    assert written["root"] == {"path": "r"}


async def test_runtime_trims_a_command_in_a_container(tmp_path: Path) -> None:
    file = tmp_path / "process.json"
    file.write_text(json.dumps({"capabilities": PRIVILEGED, "args": ["sh"]}))
    await run_runtime(tmp_path, frozenset({"CAP_SYS_ADMIN"}), ["exec", "--process", str(file), "id"])
    written = json.loads(file.read_text())
    assert written["capabilities"]["bounding"] == ["CAP_SYS_RESOURCE"]
    assert written["args"] == ["sh"]


async def test_runtime_keeps_low_oom_scores_where_the_host_may_set_them(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"process": {"oomScoreAdj": -999}}))
    await run_runtime(tmp_path, frozenset({"CAP_SYS_ADMIN"}), ["create", "--bundle", str(tmp_path), "id"])
    assert json.loads(config.read_text())["process"]["oomScoreAdj"] == -999


async def test_runtime_leaves_other_commands_alone(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"process": {"capabilities": PRIVILEGED}}))
    await run_runtime(tmp_path, frozenset({"CAP_SYS_RESOURCE"}), ["delete", "--force", "id"])
    assert json.loads(config.read_text())["process"]["capabilities"] == PRIVILEGED


def test_plain_runc_is_unsuitable_where_capabilities_are_missing() -> None:
    lacking = a_host(missing_capabilities=frozenset({"CAP_SYS_RESOURCE"}))
    with pytest.raises(PrerequisiteError, match="CAP_SYS_RESOURCE"):
        check_suitable(a_docker(), lacking)
    check_suitable(a_docker(default_runtime="within-bounds"), lacking)
    check_suitable(a_docker(), a_host())


def test_a_driver_that_copies_every_layer_is_unsuitable() -> None:
    with pytest.raises(PrerequisiteError, match="vfs"):
        check_suitable(a_docker(storage_driver="vfs"), a_host())
