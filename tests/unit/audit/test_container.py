"""What is read of an image: our own files whole, of others only lines with our names, and the names of all."""

from __future__ import annotations

import io
import tarfile

from sregym.audit.container import BLOCK, digest_of, read_image
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


def test_what_was_seen_is_forgotten_when_other_words_are_looked_for() -> None:
    assert digest_of(("a",)) != digest_of(("b",))
    assert digest_of(("a",)) == digest_of(("a",))
