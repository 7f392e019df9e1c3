"""What kind is told, and what is checked before it is: names, sizes, ports, memory."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

import yaml

from sregym.cluster.providers.base import ClusterHandle, ClusterSpec
from sregym.cluster.providers.host import GIB, Host
from sregym.cluster.providers.node_image import STORE_IN_NODE
from sregym.cluster.providers.pins import KIND_DATA
from sregym.errors import ClusterError, CommandError, PrerequisiteError, says_disk_full

MEMORY_BASE = GIB
MEMORY_PER_NODE = GIB // 4
MOST_WORKERS = 50
NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,40}[a-z0-9])?")


def cluster_config(spec: ClusterSpec, host: Host, *, store: str | None = None) -> dict[str, Any]:
    """kind's configuration of a cluster on this host. `store`: folder of unpacked images to mount into every node."""
    config: dict[str, Any] = yaml.safe_load((KIND_DATA / "cluster" / "base.yaml").read_text(encoding="utf-8"))
    if spec.api_port:
        config["networking"]["apiServerPort"] = spec.api_port
    config["nodes"] = [{"role": role} for role in ("control-plane", *["worker"] * spec.workers)]
    if store is not None:
        for node in config["nodes"]:
            node["extraMounts"] = [{"hostPath": store, "containerPath": STORE_IN_NODE, "readOnly": True}]
    if "CAP_SYS_RESOURCE" in host.missing_capabilities:
        # A negative oom_score_adj, which the kubelet asks for, is then refused.
        config["containerdConfigPatches"] = ['[plugins."io.containerd.grpc.v1.cri"]\n  restrict_oom_score_adj = true\n']
    return config


def check_port(spec: ClusterSpec) -> None:
    """Raise `PrerequisiteError` where the API port is taken."""
    if spec.api_port and not port_is_free(spec.api_port):
        raise PrerequisiteError(
            f"port {spec.api_port} for the API server is taken", cure="name another one, or 0 for any that is free"
        )


def check_memory(spec: ClusterSpec, host: Host) -> None:
    """Raise `PrerequisiteError` where memory is short."""
    needed = MEMORY_BASE + MEMORY_PER_NODE * (1 + spec.workers)
    if host.memory_available < needed:
        raise PrerequisiteError(
            f"{1 + spec.workers} nodes need {needed / GIB:.1f} GiB of memory, "
            f"{host.memory_available / GIB:.1f} GiB are available",
            cure="end other work, or ask for fewer workers",
        )


def port_is_free(port: int, *, address: str = "127.0.0.1") -> bool:
    """Could we listen here?"""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def check_spec(spec: ClusterSpec) -> None:
    """Raise `PrerequisiteError` for a name or a size that cannot be."""
    if not NAME.fullmatch(spec.name):
        raise PrerequisiteError(
            f"`{spec.name}` cannot name a cluster", cure="use lower-case letters, digits, dots and dashes, at most 42"
        )
    if not 0 <= spec.workers <= MOST_WORKERS:
        raise PrerequisiteError(f"{spec.workers} workers cannot be had", cure=f"ask for 0 to {MOST_WORKERS}")


def check_shape(handle: ClusterHandle, spec: ClusterSpec) -> None:
    """A cluster that works is never replaced because another shape is asked for."""
    if len(handle.workers) != spec.workers:
        raise PrerequisiteError(
            f"there is a cluster {handle.name} with {len(handle.workers)} workers, not {spec.workers}",
            cure=f"name another one, or first remove it: main.py cluster down --name {handle.name}",
        )


def explained(error: CommandError, spec: ClusterSpec, log: Path) -> ClusterError | PrerequisiteError:
    """What kind's failure means to the user."""
    said = error.stderr
    if "port is already allocated" in said or "address already in use" in said:
        return PrerequisiteError(
            f"a port of cluster {spec.name} is taken", cure="name another port, or 0 for any that is free"
        )
    if "Cannot connect to the Docker daemon" in said:
        return PrerequisiteError("Docker stopped while the cluster was made", cure="start Docker and try again")
    if says_disk_full(said):
        return PrerequisiteError("the disk is full", cure="free some space where Docker keeps its data")
    return ClusterError(f"kind could not make the cluster {spec.name}: {error}\nlog: {log}")
