"""The agent's container, looked at before it is started: environment, files that we put there, mounts, and its image.

A container with the same settings runs `cat` on what tells a process about itself. An image's contents are looked
through once and remembered by the image's id: only our names count in files of distributions, every rule in ours.
"""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Self

import anyio.to_thread

from sregym import process
from sregym.audit.evidence import Kind, Text
from sregym.errors import AgentError, CommandError
from sregym.results.atomic import write_atomically

ENVIRONMENT = "/proc/self/environ"
SELF = (
    "/proc/self/mountinfo",
    ENVIRONMENT,
    "/proc/cmdline",
    "/proc/version",
    "/etc/hosts",
    "/etc/hostname",
    "/etc/resolv.conf",
)
DESK = "/oncall"
OURS = ("opt/oncall/", "home/", "usr/local/bin/", "etc/profile", "etc/motd")
"""Folders of an image in which its makers' own files lie."""
LARGEST_TEXT = 256 * 1024
BLOCK = 1024 * 1024
EXPORT_WITHIN_S = 120.0
NO_SUCH_PROGRAM = (125, 126, 127)


async def is_of_image(container: str, image: str) -> bool:
    """Whether a container is one of an image. Raises AgentError where Docker cannot say."""
    made_of = (await _said(["docker", "inspect", "--format", "{{.Image}}", container])).strip()
    return made_of == (await _said(["docker", "image", "inspect", "--format", "{{.Id}}", image])).strip()


async def look_into(container: str, *, ours: bool) -> list[Text]:
    """What the agent will find in its container. Raises AgentError where Docker cannot say.

    Args:
        ours: Whether image, command and environment are ours. What an agent brings along tells it nothing.
    """
    facts = json.loads(await _said(["docker", "inspect", container]))[0]
    config, host = facts["Config"], facts["HostConfig"]
    own = {
        "hostname": config.get("Hostname"),
        "mounted at": [one["Destination"] for one in facts.get("Mounts", [])],
    }
    if ours:
        own |= {
            "environment": config.get("Env"),
            "labels": config.get("Labels"),
            "command": [*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())],
        }
    files = [one for one in SELF if ours or one != ENVIRONMENT]
    texts = [Text(where="agent: settings of its container", text=json.dumps(own, indent=0), kind=Kind.AGENT)]
    sibling = ["docker", "run", "--rm", "--network", host["NetworkMode"], "--volumes-from", f"{container}:ro"]
    flags = ["--hostname", config["Hostname"], "--read-only", "--cap-drop", "ALL", "--user", config["User"] or "1000"]
    seen = await process.run(
        [*sibling, *flags, "--entrypoint", "cat", facts["Image"], *files], check=False, within=60.0
    )
    if seen.code not in NO_SUCH_PROGRAM:
        texts.append(Text(where="agent: /proc and /etc", text=seen.stdout.replace("\0", "\n"), kind=Kind.AGENT))
    texts += await _copied(container)
    return texts


async def _copied(container: str) -> list[Text]:
    """The files that we put into its volume."""
    with TemporaryDirectory(prefix="desk-") as folder:
        target = Path(folder) / "desk"
        await _said(["docker", "cp", f"{container}:{DESK}", str(target)])
        return [
            Text(
                where=f"agent: {DESK}/{path.relative_to(target)}",
                text=path.read_text(encoding="utf-8", errors="replace"),
                kind=Kind.AGENT,
            )
            for path in sorted(target.rglob("*"))
            if path.is_file()
        ]


@dataclass(frozen=True, kw_only=True)
class ImageLooker:
    """Looks through images and remembers what it saw in `cache`, by the image's id and our names (see `Vocabulary`)."""

    cache: Path
    own: tuple[str, ...]
    folders: tuple[str, ...] = ()

    async def look(self, container: str) -> list[Text]:
        """Texts of the image of a container (made, not necessarily started). Raises AgentError."""
        image = (await _said(["docker", "inspect", "--format", "{{.Image}}", container])).strip()
        file = self.cache / f"{re.sub(r'[^0-9a-f]', '', image)[-32:]}-{digest_of((*self.own, *self.folders))}.json"
        try:
            rows = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            rows = await self._export(container)
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, json.dumps(rows))
        return [Text(where=where, text=text, kind=Kind(kind)) for where, text, kind in rows]

    async def _export(self, container: str) -> list[tuple[str, str, str]]:
        with TemporaryDirectory(prefix="image-") as folder:
            archive = Path(folder) / "image.tar"
            await _said(["docker", "export", "--output", str(archive), container], within=EXPORT_WITHIN_S)
            return await anyio.to_thread.run_sync(self._read, archive)

    def _read(self, archive: Path) -> list[tuple[str, str, str]]:
        with tarfile.open(archive) as tar:
            return list(read_image(tar, self.own, self.folders))


@dataclass(frozen=True, kw_only=True)
class Sought:
    """Names that are looked for in files of any size, whatever their case."""

    literals: tuple[bytes, ...]
    """In small letters. Whether one is there at all is found many times faster than where it is a hit."""
    pattern: re.Pattern[bytes]

    @classmethod
    def of(cls, own: Sequence[str], folders: Sequence[str]) -> Self:
        patterns = [*map(re.escape, own), *(rf"(?<![\w.-]){re.escape(one)}(?![\w.-])" for one in folders)]
        return cls(
            literals=tuple(one.encode().lower() for one in (*own, *folders)),
            pattern=re.compile("|".join(patterns).encode(), re.IGNORECASE),
        )

    def first_in(self, handle: IO[bytes]) -> str:
        """The first place in a file where one is, with some bytes around it; empty where none is."""
        before = b""
        while block := handle.read(BLOCK):
            data = before + block
            small = data.lower()
            if any(one in small for one in self.literals) and (found := self.pattern.search(data)):
                return data[max(0, found.start() - 40) : found.end() + 40].decode("ascii", errors="replace")
            before = data[-256:]
        return ""


def read_image(tar: tarfile.TarFile, own: Sequence[str], folders: Sequence[str] = ()) -> Iterator[tuple[str, str, str]]:
    """(where, text, kind): names of all files, contents of the makers' own, and lines with our names in any other."""
    sought = Sought.of(own, folders)
    names: list[str] = []
    for member in tar:
        names.append(member.name)
        if not member.isfile() or (handle := tar.extractfile(member)) is None:
            continue
        if member.name.startswith(OURS) and member.size <= LARGEST_TEXT:
            text = handle.read().decode("utf-8", errors="replace")
            if "\0" not in text:
                yield f"agent: /{member.name}", text, Kind.AGENT
                continue
            handle.seek(0)
        if hit := sought.first_in(handle):
            yield f"agent: /{member.name}", hit, Kind.PLATFORM
    yield "agent: names of files", "\n".join(names), Kind.PLATFORM


def digest_of(words: Sequence[str]) -> str:
    """The same for the same words in every process."""
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:12]


async def _said(command: Sequence[str], *, within: float = 60.0) -> str:
    try:
        return (await process.run(list(command), within=within)).stdout
    except CommandError as error:
        raise AgentError(f"the agent's container could not be looked into: {error}") from error
