"""Is this machine ready? A list of checks, each with what was seen and what to do about it. Changes nothing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from packaging.version import Version

from sregym import process
from sregym.cluster.providers import pins as pin_file
from sregym.cluster.providers.base import DEFAULT_WORKERS
from sregym.cluster.providers.daemon import INOTIFY_INSTANCES, INOTIFY_WATCHES, Docker, DockerDaemon, check_suitable
from sregym.cluster.providers.host import GIB, Host, free_space, look
from sregym.cluster.providers.kind_rules import MEMORY_BASE, MEMORY_PER_NODE, port_is_free
from sregym.cluster.providers.node_source import registry_answers
from sregym.errors import PrerequisiteError
from sregym.progress import Silent

BUILD_SPACE = 15 * GIB
"""A build from nothing: Go's caches 5 GiB, images and the node store 6 GiB, head-room."""
LEAST_GO = Version("1.24")
"""What is known to work. The modules ask for newer ones, which `go` fetches by itself (https://go.dev/doc/toolchain)."""
LEAST_NODE = Version("20")
COMFORTABLE_MEMORY = 5 * GIB
"""Four nodes, observability and one app under load."""


class Status(StrEnum):
    """How a check came out. Only FAILED stands in the way."""

    OK = "ok"
    NOTE = "note"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One check. `todo` is empty where there is nothing to do."""

    check: str
    status: Status
    seen: str
    todo: str = ""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What doctor is asked about, from the settings.

    Attributes:
        ports: By what they are for; 0 is always free.
        keys: Model providers' keys: name and whether there is one. Their values are not handed over.
    """

    cache: Path
    state: Path
    ports: dict[str, int]
    keys: dict[str, bool]


async def examine(wanted: Wanted) -> list[Finding]:
    """Look at everything."""
    host = look()
    docker, docker_finding = await _docker(host, wanted.state)
    registry = await registry_answers(pin_file.read())()
    return [
        _system(host),
        docker_finding,
        _bounding_set(host, docker),
        _image_source(registry=registry),
        *(await _programs(registry=registry)),
        _memory(host),
        _disk("disk for builds", wanted.cache, BUILD_SPACE),
        *([_disk("disk for Docker", docker.data_root, BUILD_SPACE)] if docker else []),
        _inotify(host),
        *(_port(purpose, port) for purpose, port in wanted.ports.items()),
        *(_key(name, given=given) for name, given in wanted.keys.items()),
    ]


def passed(findings: Sequence[Finding]) -> bool:
    """Nothing stands in the way."""
    return all(finding.status is not Status.FAILED for finding in findings)


def _system(host: Host) -> Finding:
    seen = f"{host.system} {host.architecture}, {host.cpus} CPUs, cgroup v{host.cgroup_version}"
    known = host.architecture in ("amd64", "arm64")
    if not known:
        return Finding(check="system", status=Status.FAILED, seen=seen, todo="use a machine with amd64 or arm64")
    if host.system != "Linux":
        todo = "images must be pulled: building from source needs Linux"
        return Finding(check="system", status=Status.NOTE, seen=seen, todo=todo)
    return Finding(check="system", status=Status.OK, seen=seen)


async def _docker(host: Host, state: Path) -> tuple[Docker | None, Finding]:
    name = "docker"
    try:
        docker = await DockerDaemon(state=state, progress=Silent()).find()
        if docker is not None:
            check_suitable(docker, host)
    except PrerequisiteError as error:
        return None, Finding(check=name, status=Status.FAILED, seen=error.message, todo=error.cure)
    if docker is None:
        ours = host.is_root and host.is_debian
        todo = "nothing: `cluster up` installs and starts it" if ours else "install Docker and start it"
        status = Status.NOTE if ours else Status.FAILED
        return None, Finding(check=name, status=status, seen="no daemon answers", todo=todo)
    seen = f"{docker.server_version}, {docker.storage_driver} at {docker.data_root}{', started by us' * docker.ours}"
    return docker, Finding(check=name, status=Status.OK, seen=seen)


def _bounding_set(host: Host, docker: Docker | None) -> Finding:
    name = "capabilities"
    if not host.missing_capabilities:
        return Finding(check=name, status=Status.OK, seen="the bounding set is complete")
    seen = f"the bounding set lacks {', '.join(sorted(host.missing_capabilities))}"
    todo = "nothing: containers run with a runtime that does not ask for it"
    if docker is None:
        todo = "nothing: the daemon that `cluster up` starts will not ask for it"
    return Finding(check=name, status=Status.NOTE, seen=seen, todo=todo)


def _image_source(*, registry: bool) -> Finding:
    seen = "an image registry answers: the node image is pulled" if registry else "no image registry answers"
    todo = "" if registry else "nothing: images are built from source (about 15 minutes the first time)"
    return Finding(check="images", status=Status.OK if registry else Status.NOTE, seen=seen, todo=todo)


async def _programs(*, registry: bool) -> list[Finding]:
    go = await _program("go", ["go", "version"], least=LEAST_GO, required=True)
    if go.status is Status.OK:
        chosen = await process.run(["go", "env", "GOTOOLCHAIN"], check=False, within=20)
        if chosen.stdout.strip() == "local":
            todo = "unset GOTOOLCHAIN, so that go can fetch the version that a module asks for"
            go = replace(go, status=Status.NOTE, todo=todo)
    return [go, await _program("node", ["node", "--version"], least=LEAST_NODE, required=not registry)]


async def _program(name: str, command: Sequence[str], *, least: Version, required: bool) -> Finding:
    lacking = Status.FAILED if required else Status.NOTE
    todo = f"install {name} {least} or newer"
    if shutil.which(name) is None:
        return Finding(check=name, status=lacking, seen="not found", todo=todo)
    done = await process.run(command, check=False, within=20)
    seen = (done.stdout or done.stderr).strip()
    found = re.search(r"\d+(\.\d+)*", done.stdout)
    if not done.ok or found is None or Version(found[0]) < least:
        return Finding(check=name, status=lacking, seen=seen, todo=todo)
    return Finding(check=name, status=Status.OK, seen=seen)


def _memory(host: Host) -> Finding:
    least = MEMORY_BASE + MEMORY_PER_NODE * (1 + DEFAULT_WORKERS)
    available = host.memory_available
    seen = f"{available / GIB:.1f} of {host.memory_total / GIB:.1f} GiB available"
    if available < least:
        return Finding(check="memory", status=Status.FAILED, seen=seen, todo=f"{least / GIB:.1f} GiB are needed")
    if available < COMFORTABLE_MEMORY:
        todo = f"{COMFORTABLE_MEMORY / GIB:.0f} GiB are better: a cluster, observability and an app under load"
        return Finding(check="memory", status=Status.NOTE, seen=seen, todo=todo)
    return Finding(check="memory", status=Status.OK, seen=seen)


def _disk(name: str, path: Path, needed: int) -> Finding:
    free = free_space(path)
    seen = f"{free / GIB:.0f} GiB free at {path}"
    if free >= needed:
        return Finding(check=name, status=Status.OK, seen=seen)
    todo = f"a build from nothing takes up to {needed / GIB:.0f} GiB; free some space or set SREGYM_CACHE_DIR"
    return Finding(check=name, status=Status.FAILED if free < needed // 5 else Status.NOTE, seen=seen, todo=todo)


def _inotify(host: Host) -> Finding:
    seen = f"{host.inotify_instances} instances, {host.inotify_watches} watches"
    enough = host.inotify_instances >= INOTIFY_INSTANCES and host.inotify_watches >= INOTIFY_WATCHES
    if enough or host.system != "Linux":
        return Finding(check="inotify", status=Status.OK, seen=seen)
    todo = f"sysctl -w fs.inotify.max_user_instances={INOTIFY_INSTANCES} fs.inotify.max_user_watches={INOTIFY_WATCHES}"
    if host.is_root:
        return Finding(check="inotify", status=Status.NOTE, seen=seen, todo="nothing: `cluster up` raises them")
    return Finding(check="inotify", status=Status.NOTE, seen=seen, todo=todo)


def _port(purpose: str, port: int) -> Finding:
    if port == 0 or port_is_free(port):
        return Finding(check=f"port for {purpose}", status=Status.OK, seen=str(port) if port else "any free one")
    todo = "end the program that has it, or name another port"
    return Finding(check=f"port for {purpose}", status=Status.FAILED, seen=f"{port} is taken", todo=todo)


def _key(name: str, *, given: bool) -> Finding:
    if given:
        return Finding(check=name, status=Status.OK, seen="present")
    todo = "only for agents and judges that use a model; the built-in baselines and the offline judge need none"
    return Finding(check=name, status=Status.NOTE, seen="not set", todo=todo)
