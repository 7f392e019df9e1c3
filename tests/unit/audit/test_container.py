"""What is read of an image: our own files whole, of others only lines with our names, and the names of all."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from sregym.audit.container import BLOCK, ImageLooker, digest_of, read_image
from sregym.audit.evidence import Kind


def archive(files: dict[str, bytes]) -> tarfile.TarFile:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    made.seek(0)
    return tarfile.open(fileobj=made)


def test_ours_whole_others_where_they_name_us() -> None:
    across = b"x" * (BLOCK - 3) + b"SREGym" + b"y" * 10
    files = {
        "opt/oncall/oncall/tool.py": b"chaos = 1\n",
        "usr/lib/python3/benchmark.py": b"chaos = 1\n",
        "usr/bin/program": b"\0\0built in /home/ada/.cache/x\0",
        "usr/bin/large": across,
    }
    rows = {where: (text, kind) for where, text, kind in read_image(archive(files), ("sregym", "home/ada/.cache"))}
    assert rows["agent: /opt/oncall/oncall/tool.py"] == ("chaos = 1\n", Kind.AGENT)
    assert "agent: /usr/lib/python3/benchmark.py" not in rows
    assert "home/ada/.cache" in rows["agent: /usr/bin/program"][0]
    assert "SREGym" in rows["agent: /usr/bin/large"][0]
    assert rows["agent: names of files"][0].splitlines() == list(files)


def test_folders_are_whole_parts_of_a_path() -> None:
    files = {"a": b"in /srv/bench/x", "b": b"in /old-srv/bench/x", "c": b"in /srv/benches", "d": b"at srv/bench"}
    rows = {where for where, _, _ in read_image(archive(files), ("sregym",), ("srv/bench",))}
    assert rows == {"agent: /a", "agent: /d", "agent: names of files"}


async def test_an_image_is_looked_through_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    async def said(command: Sequence[str], *, within: float = 60.0) -> str:
        return "sha256:0a1b"

    async def export(self: ImageLooker, container: str) -> list[tuple[str, str, str]]:
        looked.append(container)
        return [("agent: /a", "text", Kind.AGENT)]

    monkeypatch.setattr("sregym.audit.container._said", said)
    monkeypatch.setattr(ImageLooker, "_export", export)
    looker = ImageLooker(cache=tmp_path, own=("sregym",))
    first = await looker.look("one")
    assert await looker.look("two") == first
    assert looked == ["one"]
    (file,) = [one async for one in anyio.Path(tmp_path).iterdir()]
    await file.write_text('[["agent: /a", "te', encoding="utf-8")  # as a full disk leaves it
    assert await looker.look("three") == first
    assert looked == ["one", "three"]
    await ImageLooker(cache=tmp_path, own=("sregym",), folders=("a/b",)).look("four")
    assert looked[-1] == "four"


def test_what_was_seen_is_forgotten_when_other_words_are_looked_for() -> None:
    assert digest_of(("a",)) != digest_of(("b",))
    assert digest_of(("a",)) == digest_of(("a",))
