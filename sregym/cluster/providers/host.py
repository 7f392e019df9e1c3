"""Facts about this machine that decide how a cluster can be made here. Reads only; changes nothing."""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

from sregym.errors import PrerequisiteError

# fmt: off
CAPABILITIES = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
    "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
    "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
    "CHECKPOINT_RESTORE",
)
# fmt: on
"""Linux capabilities by bit number (include/uapi/linux/capability.h)."""

MIB = 1024 * 1024
GIB = 1024 * MIB

GO_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, kw_only=True)
class Host:
    """What this machine is and has. Sizes in bytes."""

    system: str
    architecture: str
    """In Go's words: amd64, arm64."""
    is_root: bool
    is_debian: bool
    release: str
    """Debian's code name, or empty."""
    missing_capabilities: frozenset[str]
    """Capabilities (CAP_...) that our bounding set lacks and no child of ours can therefore get."""
    cgroup_version: int
    memory_total: int
    memory_available: int
    cpus: int
    inotify_instances: int
    inotify_watches: int


def look() -> Host:
    """Look at the machine we run on."""
    os_release = _key_values(_read(Path("/etc/os-release")))
    memory = _meminfo()
    machine = platform.machine()
    return Host(
        system=platform.system(),
        architecture=GO_ARCHITECTURES.get(machine, machine),
        is_root=os.geteuid() == 0,
        is_debian=os_release.get("ID") == "debian",
        release=os_release.get("VERSION_CODENAME", ""),
        missing_capabilities=_missing_capabilities(),
        cgroup_version=2 if Path("/sys/fs/cgroup/cgroup.controllers").exists() else 1,
        memory_total=memory.get("MemTotal", 0),
        memory_available=memory.get("MemAvailable", 0),
        cpus=os.cpu_count() or 1,
        inotify_instances=int(_read(Path("/proc/sys/fs/inotify/max_user_instances")) or 0),
        inotify_watches=int(_read(Path("/proc/sys/fs/inotify/max_user_watches")) or 0),
    )


def missing_from(bounding_set: int, *, last: int) -> frozenset[str]:
    """Names of the capabilities up to bit `last` that a bounding set lacks."""
    known = CAPABILITIES[: last + 1]
    return frozenset(f"CAP_{name}" for bit, name in enumerate(known) if not bounding_set >> bit & 1)


def has_systemd() -> bool:
    """Does systemd run this machine (sd_booted(3))?"""
    return Path("/run/systemd/system").is_dir()


def free_space(path: Path) -> int:
    """Free bytes for us on the file system that `path` is, or will be, on."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def require_space(path: Path, *, needed: int, purpose: str) -> None:
    """Raise `PrerequisiteError` unless `needed` bytes are free where `path` is."""
    free = free_space(path)
    if free < needed:
        raise PrerequisiteError(
            f"{purpose} needs {needed / GIB:.1f} GiB of disk at {path}, only {free / GIB:.1f} GiB are free",
            cure="free some space, or name another folder with SREGYM_CACHE_DIR",
        )


def _missing_capabilities() -> frozenset[str]:
    status = _key_values(_read(Path("/proc/self/status")), separator=":")
    if "CapBnd" not in status:
        return frozenset()
    last = int(_read(Path("/proc/sys/kernel/cap_last_cap")) or len(CAPABILITIES) - 1)
    return missing_from(int(status["CapBnd"], 16), last=last)


def _meminfo() -> dict[str, int]:
    pairs = _key_values(_read(Path("/proc/meminfo")), separator=":")
    return {key: int(value.split()[0]) * 1024 for key, value in pairs.items()}


def _key_values(text: str, *, separator: str = "=") -> dict[str, str]:
    pairs = (line.partition(separator) for line in text.splitlines() if separator in line)
    return {key.strip(): value.strip().strip('"') for key, _, value in pairs}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
