"""Any cluster that exists, by kubeconfig and context: client certificate, token or exec plug-in.

Such a cluster is not ours: it is never made, replaced or removed, and its nodes have no containers that we could enter.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kubernetes.aio import config
from kubernetes.aio.config.config_exception import ConfigException
from yaml import YAMLError

from sregym.cluster.providers import readiness
from sregym.cluster.providers.base import ClusterHandle, ClusterSpec, ClusterStatus, Origin
from sregym.errors import DirtyClusterError, PrerequisiteError


@dataclass(frozen=True, kw_only=True)
class KubeconfigProvider:
    """Finds one cluster. Without a context, the file's current one."""

    kubeconfig: Path
    context: str | None = None

    async def up(self, spec: ClusterSpec) -> ClusterHandle:
        """The cluster, if it answers; `spec` has no say in what it is like.

        Raises:
            PrerequisiteError: The kubeconfig cannot be used, or the cluster does not answer.
        """
        status = await self.status(spec.name)
        if status.handle is None or not status.ready:
            raise PrerequisiteError(
                f"the cluster of {self._where()} cannot be used: {status.reason}",
                cure="see whether `kubectl get nodes` works with the same kubeconfig and context",
            )
        return status.handle

    async def status(self, name: str) -> ClusterStatus:
        """Whether it answers and its nodes are ready; its other pods are its owner's business."""
        try:
            context = self._context()
            seen = await readiness.look(self.kubeconfig, context, system_pods=False)
        except PrerequisiteError as error:
            return ClusterStatus(name=name, exists=False, ready=False, reason=f"{error.message}; {error.cure}")
        handle = ClusterHandle(
            name=context,
            provider="kubeconfig",
            kubeconfig=self.kubeconfig,
            context=context,
            server_version=seen.server_version,
            nodes=seen.nodes,
            identity=seen.identity,
            origin=Origin.EXISTING,
        )
        return ClusterStatus(name=context, exists=True, ready=seen.ready, reason=seen.reason, handle=handle)

    async def down(self, name: str) -> bool:
        """Does nothing: the cluster is not ours."""
        return False

    async def replace(self, spec: ClusterSpec) -> ClusterHandle:
        """Not ours to do. Raises DirtyClusterError."""
        raise DirtyClusterError(f"the cluster of {self._where()} differs from before and is not ours to replace")

    def _context(self) -> str:
        """The context that is used: the one asked for, or the file's current one."""
        if not self.kubeconfig.is_file():
            raise PrerequisiteError(
                f"there is no kubeconfig {self.kubeconfig}", cure="name a file that kubectl can use"
            )
        try:
            contexts, current = config.list_kube_config_contexts(str(self.kubeconfig))
        except (ConfigException, OSError, YAMLError, TypeError, AttributeError, KeyError) as error:
            raise PrerequisiteError(
                f"{self.kubeconfig} is no kubeconfig: {error}", cure="name a file that kubectl can use"
            ) from error
        names = [str(context["name"]) for context in contexts]
        if self.context is not None and self.context not in names:
            raise PrerequisiteError(
                f"{self.kubeconfig} has no context {self.context}", cure=f"it has: {', '.join(names)}"
            )
        return self.context or str(current["name"])

    def _where(self) -> str:
        return f"{self.kubeconfig}{f' ({self.context})' if self.context else ''}"
