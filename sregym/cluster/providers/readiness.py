"""Is a cluster up? Asked over the API, before anything else of ours talks to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from kubernetes.aio import client, config
from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.config.config_exception import ConfigException

from sregym.cluster.providers.base import Node
from sregym.errors import PrerequisiteError

CONTROL_PLANE_LABEL = "node-role.kubernetes.io/control-plane"
SYSTEM_NAMESPACES = ("kube-system", "local-path-storage")
REQUEST_TIMEOUT_S = 5.0


@dataclass(frozen=True, kw_only=True)
class Readiness:
    """What the API says. `reason` is empty where all is well."""

    reason: str
    identity: str = ""
    server_version: str = ""
    nodes: tuple[Node, ...] = ()

    @property
    def ready(self) -> bool:
        return not self.reason


@asynccontextmanager
async def connect(kubeconfig: Path, context: str | None = None) -> AsyncIterator[Any]:
    """An API client of `kubernetes.aio` for a kubeconfig: client certificate, token or exec plug-in.

    Raises:
        PrerequisiteError: The file or the context is not there or cannot be used.
    """
    settings = client.Configuration()
    try:
        await config.load_kube_config(str(kubeconfig), context=context, client_configuration=settings)
    except (ConfigException, OSError) as error:
        raise PrerequisiteError(
            f"{kubeconfig} cannot be used{f' with the context {context}' if context else ''}: {error}",
            cure="name a kubeconfig and a context in it that kubectl can use",
        ) from error
    async with client.ApiClient(settings) as api:
        yield api


async def look(kubeconfig: Path, context: str | None = None, *, system_pods: bool = True) -> Readiness:
    """Look once: every node and, with `system_pods`, every pod of the system must be ready.

    An API that does not answer is a reason, not an error.
    """
    try:
        async with connect(kubeconfig, context) as api:
            version = await client.VersionApi(api).get_code(_request_timeout=REQUEST_TIMEOUT_S)
            core = client.CoreV1Api(api)
            system = await core.read_namespace(SYSTEM_NAMESPACES[0], _request_timeout=REQUEST_TIMEOUT_S)
            nodes = (await core.list_node(_request_timeout=REQUEST_TIMEOUT_S)).items
            pods = []
            for namespace in SYSTEM_NAMESPACES if system_pods else ():
                pods += (await core.list_namespaced_pod(namespace, _request_timeout=REQUEST_TIMEOUT_S)).items
    except ApiException as error:
        return Readiness(reason=f"the API server says {error.status} {error.reason}")
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        return Readiness(reason=f"the API server does not answer ({type(error).__name__}: {error})")
    return Readiness(
        reason=_node_not_ready(nodes) or (_pod_not_ready(pods) if system_pods else ""),
        identity=str(system.metadata.uid),
        server_version=version.git_version,
        nodes=tuple(
            Node(name=node.metadata.name, control_plane=CONTROL_PLANE_LABEL in (node.metadata.labels or {}))
            for node in sorted(nodes, key=lambda node: str(node.metadata.name))
        ),
    )


def _node_not_ready(nodes: list[Any]) -> str:
    for node in nodes:
        if not _true(node.status.conditions, "Ready"):
            return f"node {node.metadata.name} is not ready"
        if any(taint.key.startswith("node.kubernetes.io/") for taint in node.spec.taints or ()):
            return f"node {node.metadata.name} is still tainted"
    return "" if nodes else "no nodes yet"


def _pod_not_ready(pods: list[Any]) -> str:
    if not any(pod.metadata.namespace == "kube-system" for pod in pods):
        return "no system pods yet"
    for pod in pods:
        if pod.status.phase != "Succeeded" and not _true(pod.status.conditions, "Ready"):
            return f"pod {pod.metadata.namespace}/{pod.metadata.name} is not ready ({pod.status.phase})"
    return ""


def _true(conditions: list[Any] | None, kind: str) -> bool:
    return any(condition.type == kind and condition.status == "True" for condition in conditions or ())
