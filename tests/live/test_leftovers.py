"""What a killed run leaves on this machine goes by the journal alone: containers, networks, volumes, folders."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sregym import process
from sregym.cluster.journal import Journal, open_journals
from sregym.cluster.leftovers import HostThing, remove_host_thing
from sregym.cluster.recovery import abandon

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]


async def docker(*argv: str, check: bool = True) -> process.Completed:
    return await process.run(("docker", *argv), check=check, within=60)


@pytest.fixture
async def image() -> str:
    """Any image that is there: its program need not run for its container to exist."""
    listed = await docker("images", "--quiet")
    if not listed.stdout.split():
        pytest.fail("this machine has no Docker image at all")
    return listed.stdout.split()[0]


@pytest.fixture
async def name() -> AsyncIterator[str]:
    fresh = f"leftover-{uuid.uuid4().hex[:8]}"
    yield fresh
    await docker("rm", "--force", fresh, check=False)
    await docker("network", "rm", fresh, check=False)
    await docker("volume", "rm", fresh, check=False)


async def test_everything_is_removed_newest_first(tmp_path: Path, image: str, name: str) -> None:
    journal = Journal.create(tmp_path / "state", identity="c", attempt="a")
    folder = tmp_path / "scratch"
    journal.note_host("folder", str(folder))
    folder.mkdir()
    (folder / "file").write_text("x")
    for kind, argv in (
        ("network", ("network", "create", name)),
        ("volume", ("volume", "create", name)),
        ("container", ("create", "--name", name, "--network", name, "--volume", f"{name}:/data", image, "true")),
    ):
        journal.note_host(kind, name)
        await docker(*argv)
    [found] = open_journals(tmp_path / "state")
    await abandon(found)
    for kind in ("container", "network", "volume"):
        assert not (await docker(kind, "inspect", name, check=False)).ok
    assert not folder.exists()
    assert open_journals(tmp_path / "state") == []


@pytest.mark.parametrize("kind", ["container", "network", "volume"])
async def test_what_was_noted_but_never_made_is_no_error(kind: str, name: str) -> None:
    await remove_host_thing(HostThing.of(kind, name))


async def test_a_network_goes_although_a_stranger_hangs_on_it(image: str, name: str) -> None:
    await docker("network", "create", name)
    await docker("create", "--name", name, "--network", name, image, "true")
    await remove_host_thing(HostThing.of("network", name))
    assert not (await docker("network", "inspect", name, check=False)).ok
