"""The Docker daemon: found, or installed and started by us where none runs and we are root on Debian.

A daemon that we started is recorded in the state folder and is ours to stop; nobody else's ever is. It runs detached,
so that it, and the cluster on it, outlive the coordinator.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from sregym import process
from sregym.cluster import waits
from sregym.cluster.providers import host as host_facts
from sregym.cluster.providers.host import Host
from sregym.errors import CommandError, PrerequisiteError, WaitTimeout
from sregym.progress import Progress, step

RUNTIME_RECIPE = Path(__file__).parents[3] / "kind" / "runtime" / "runc-within-bounds.sh"
RUNTIME_NAME = "within-bounds"
PACKAGES = {"dockerd": "docker.io", "containerd": "containerd", "runc": "runc", "iptables": "iptables", "jq": "jq"}
"""Programs that a daemon needs, and Debian's packages for them."""
READY_WITHIN_S = 60.0
INOTIFY_INSTANCES = 8192
INOTIFY_WATCHES = 524_288
"""kind's known limits for several nodes on one host (kind.sigs.k8s.io, known issues: "too many open files")."""


@dataclass(frozen=True, kw_only=True)
class Docker:
    """A daemon that answers."""

    server_version: str
    data_root: Path
    storage_driver: str
    default_runtime: str
    ours: bool
    """We started it and may stop it."""


class _Record(BaseModel):
    """What we remember of a daemon that we started."""

    model_config = ConfigDict(frozen=True)
    pid: int
    log: Path


class DockerDaemon:
    """Finds, starts and stops the daemon. `state` is our state folder."""

    def __init__(self, *, state: Path, progress: Progress) -> None:
        self._folder = state / "docker"
        self._record = self._folder / "daemon.json"
        self._progress = progress

    async def find(self) -> Docker | None:
        """The daemon that our `docker` client reaches, or None where none answers.

        Raises:
            PrerequisiteError: A daemon is there, but we may not use it.
        """
        if shutil.which("docker") is None:
            return None
        done = await process.run(["docker", "info", "--format", "{{json .}}"], check=False, within=60)
        said = done.stderr + done.stdout
        if "permission denied" in said:
            raise PrerequisiteError(
                "Docker runs, but this user may not use it", cure="add the user to the group `docker`, or run as root"
            )
        info = _json(done.stdout)
        if not done.ok or not info.get("ServerVersion"):
            return None
        return Docker(
            server_version=info["ServerVersion"],
            data_root=Path(info["DockerRootDir"]),
            storage_driver=info["Driver"],
            default_runtime=info["DefaultRuntime"],
            ours=self._our_pid() is not None,
        )

    async def ensure(self, host: Host) -> Docker:
        """A daemon that answers and can hold kind nodes; installed and started where that is ours to do.

        Raises:
            PrerequisiteError: There is none and we cannot start one, or it is unsuitable.
        """
        docker = await self.find() or await self._start(host)
        await raise_inotify_limits(host)
        check_suitable(docker, host)
        return docker

    async def stop(self) -> bool:
        """Stop the daemon if it is ours. True if one was stopped."""
        pid = self._our_pid()
        if pid is None:
            return False
        process.terminate(pid)

        async def gone() -> bool | None:
            return None if process.is_alive(pid, name="dockerd") else True

        await waits.poll(gone, what="dockerd has ended", every=0.2, within=READY_WITHIN_S)
        self._record.unlink(missing_ok=True)
        return True

    async def _start(self, host: Host) -> Docker:
        if not (host.system == "Linux" and host.is_root and host.is_debian):
            raise PrerequisiteError("no Docker daemon answers", cure="install Docker and start it, then try again")
        was_installed = shutil.which("dockerd") is not None
        await install_programs(PACKAGES, self._progress)
        if host.missing_capabilities and not was_installed:
            # The package that we have just installed may have started one with plain runc, of no use here.
            await process.run(["service", "docker", "stop"], check=False)
        elif not was_installed and (started := await self.find()):
            return started
        with step(self._progress, "start Docker"):
            if host_facts.has_systemd() and not host.missing_capabilities:
                await process.run(["systemctl", "start", "docker"])
            else:
                self._start_detached(host)
            return await self._ready()

    def _start_detached(self, host: Host) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        log = self._folder / "dockerd.log"
        pid = process.start_detached(self._command(host), log=log)
        self._record.write_text(_Record(pid=pid, log=log).model_dump_json(), encoding="utf-8")

    def _command(self, host: Host) -> list[str]:
        command = ["dockerd"]
        if host.missing_capabilities:
            runtime = self._folder / RUNTIME_RECIPE.name
            runtime.write_text(render_runtime(host.missing_capabilities), encoding="utf-8")
            runtime.chmod(0o755)
            command += [f"--add-runtime={RUNTIME_NAME}={runtime}", f"--default-runtime={RUNTIME_NAME}"]
        return command

    async def _ready(self) -> Docker:
        try:
            return await waits.poll(self.find, what="Docker answers", every=0.2, within=READY_WITHIN_S)
        except WaitTimeout as error:
            raise PrerequisiteError(
                f"Docker was started but does not answer after {READY_WITHIN_S:g} s\n{self._last_words()}",
                cure=f"read {self._folder / 'dockerd.log'}, or `journalctl -u docker` where systemd runs it",
            ) from error

    def _last_words(self) -> str:
        log = self._folder / "dockerd.log"
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        return "\n".join(text.splitlines()[-process.LAST_LINES :])

    def _our_pid(self) -> int | None:
        try:
            record = _Record.model_validate_json(self._record.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return record.pid if process.is_alive(record.pid, name="dockerd") else None


def render_runtime(missing: frozenset[str], *, runc: str | None = None) -> str:
    """The runtime wrapper for a host that lacks these capabilities."""
    values = {
        "@MISSING@": json.dumps(sorted(missing)),
        "@MAY_LOWER_OOM_SCORE@": json.dumps("CAP_SYS_RESOURCE" not in missing),
        "@RUNC@": runc or shutil.which("runc") or "runc",
    }
    text = RUNTIME_RECIPE.read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def check_suitable(docker: Docker, host: Host) -> None:
    """Raise `PrerequisiteError` where this daemon cannot hold kind nodes."""
    if docker.storage_driver == "vfs":
        raise PrerequisiteError(
            f"Docker keeps its data at {docker.data_root} with the driver `vfs`, which copies every layer",
            cure="move its data root to ext4 or xfs, so that it can use overlay2",
        )
    if host.missing_capabilities and docker.default_runtime == "runc":
        names = ", ".join(sorted(host.missing_capabilities))
        raise PrerequisiteError(
            f"this host lacks {names}, so privileged containers, which kind needs, cannot start with plain runc",
            cure="stop that Docker daemon and let `main.py cluster up` start one with a runtime that asks for less",
        )


async def install_programs(programs: dict[str, str], progress: Progress) -> None:
    """Install the Debian packages of those programs that are missing.

    Raises:
        PrerequisiteError: We are not root on Debian, or the packages cannot be had.
    """
    packages = sorted({package for program, package in programs.items() if shutil.which(program) is None})
    if not packages:
        return
    host = host_facts.look()
    if not (host.is_root and host.is_debian):
        missing = " ".join(packages)
        raise PrerequisiteError(f"missing: {missing}", cure=f"install the packages {missing}")
    name = f"install {' '.join(packages)}"

    def note(line: str) -> None:
        progress.note(name, line)

    with step(progress, name):
        try:
            # Sources of others that cannot be reached do not matter as long as what we need can be had.
            await process.run(["apt-get", "--quiet", "update"], check=False, on_line=note)
            install = ["apt-get", "--quiet", "install", "--yes", "--no-install-recommends", *packages]
            await process.run(install, env={"DEBIAN_FRONTEND": "noninteractive"}, on_line=note)
        except CommandError as error:
            message = f"Debian packages cannot be installed: {error}"
            raise PrerequisiteError(message, cure="see what apt-get says above") from error


async def raise_inotify_limits(host: Host) -> None:
    """Raise the limits that several nodes on one host exhaust, where we may; elsewhere `doctor` names them."""
    if not (host.is_root and host.system == "Linux"):
        return
    wanted = {
        "fs.inotify.max_user_instances": (host.inotify_instances, INOTIFY_INSTANCES),
        "fs.inotify.max_user_watches": (host.inotify_watches, INOTIFY_WATCHES),
    }
    settings = [f"{name}={want}" for name, (have, want) in wanted.items() if have < want]
    if settings:
        await process.run(["sysctl", "--write", *settings])


def _json(text: str) -> dict[str, str]:
    try:
        return dict(json.loads(text))
    except ValueError:
        return {}
