"""What a provider promises and the records that it speaks in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel, ConfigDict

DEFAULT_NAME = "kind"
"""Names of nodes begin with the cluster's name and agents see them: it must say nothing about us."""
DEFAULT_WORKERS = 3


class Origin(StrEnum):
    """Where a cluster's nodes come from."""

    PULLED = "pulled"
    BUILT = "built"
    EXISTING = "existing"


@dataclass(frozen=True, kw_only=True)
class ClusterSpec:
    """What is wanted. `api_port` on the host: 0 = any free one."""

    name: str = DEFAULT_NAME
    workers: int = DEFAULT_WORKERS
    api_port: int = 0


class Node(BaseModel):
    """A node and, on kind, the container that plays it (same name)."""

    model_config = ConfigDict(frozen=True)
    name: str
    control_plane: bool


class ClusterHandle(BaseModel):
    """A cluster that is up: all that others need to talk to it. Kept as JSON in the state folder."""

    model_config = ConfigDict(frozen=True)
    name: str
    provider: str
    """`kind` or `kubeconfig`."""
    kubeconfig: Path
    context: str
    server_version: str
    nodes: tuple[Node, ...]
    identity: str = ""
    """Uid of the namespace kube-system: another cluster, also one of the same name, has another."""
    docker_network: str | None = None
    """Network that the nodes are containers on."""
    internal_server: str | None = None
    """URL of the API server as containers on that network reach it."""
    node_image: str | None = None
    node_image_id: str | None = None
    origin: Origin = Origin.EXISTING

    @property
    def shared(self) -> bool:
        """Others use it, too: nothing outside our namespaces is ours to change."""
        return self.provider != "kind"

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(node.name for node in self.nodes)

    @property
    def workers(self) -> tuple[str, ...]:
        return tuple(node.name for node in self.nodes if not node.control_plane)


@dataclass(frozen=True, kw_only=True)
class ClusterStatus:
    """What there is of a cluster. `reason` says why it is not ready."""

    name: str
    exists: bool
    ready: bool
    reason: str = ""
    handle: ClusterHandle | None = None


class Provider(Protocol):
    """Makes clusters, or finds them. Everything is safe to repeat."""

    async def up(self, spec: ClusterSpec) -> ClusterHandle:
        """The cluster, made if need be, with every node ready and the system's pods running.

        Raises:
            PrerequisiteError: The user has to do something first; also where there is one of that name, and it is of
                another shape or in use.
            ClusterError: It could not be made, or does not become ready.
        """

    async def status(self, name: str) -> ClusterStatus:
        """What there is. Raises nothing for a cluster that is absent or broken."""

    async def down(self, name: str) -> bool:
        """Remove a cluster that we made. True if there was one. Raises PrerequisiteError where a run is using it."""

    async def replace(self, spec: ClusterSpec) -> ClusterHandle:
        """A new cluster in the place of the old one, whoever uses that: for the run that holds it.

        Raises:
            DirtyClusterError: It is not ours to replace.
        """
