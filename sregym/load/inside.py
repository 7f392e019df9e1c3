"""The users of an application on a cluster that is not ours: the generator in a Pod, in a namespace of its own.

Nothing has to be published for it: the program is copied into a Pod that runs an image which the application uses
anyway, and is spoken with through the API server. Names say nothing; whoever is on call there has no rights in that
namespace.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from sregym import process
from sregym.api.app import App
from sregym.cluster import waits
from sregym.cluster.contract import Cluster
from sregym.cluster.journal import Journal
from sregym.cluster.namespaces import remove_namespaces
from sregym.cluster.objects import POD, SERVICEACCOUNT, Obj, Ref, dig
from sregym.cluster.traffic import LoadPhase
from sregym.errors import ClusterError, CommandError
from sregym.events import Emit, silent
from sregym.load.running import Users, container_noted, talking

CLIENTS = "clients"
"""The namespace."""
CLIENT = Ref(POD, "client", CLIENTS)
IN_IMAGE = "/usr/local/bin/load"
IN_POD = "/opt/client/client"
READY_WITHIN_S = 120.0
COPY_WITHIN_S = 120.0


@asynccontextmanager
async def users_inside(
    app: App,
    *,
    cluster: Cluster,
    image: str,
    kubectl: Sequence[str | Path],
    seed: int,
    base: LoadPhase | None = None,
    journal: Journal | None = None,
    emit: Emit = silent,
) -> AsyncIterator[Users]:
    """As `users`, on any cluster.

    Args:
        image: The load generator's image, as Docker on this machine knows it; only its program is used.
        kubectl: How kubectl is called here for this cluster.

    Raises:
        WaitTimeout: The Pod does not become ready.
        ClusterError: The program cannot be copied into it.
        Unavailable: The generator did not start.
    """
    base = base or LoadPhase(rate=app.topology.rate)
    into = [*kubectl, "exec", "--stdin", "--namespace", CLIENTS, CLIENT.name, "--"]
    with tempfile.TemporaryDirectory(prefix="client-") as folder:
        async with _pod(cluster, image_with_shell(app)):
            program = await _program(image, Path(folder), journal)
            await _copy(program, into)
            async with talking([*into, IN_POD], app, reader=cluster, seed=seed, base=base, emit=emit) as running:
                yield running


def image_with_shell(app: App) -> str:
    """An image of the application that has a shell: a datastore's, where there is one."""
    services = sorted(app.topology.services, key=lambda one: one.role != "datastore")
    return app.topology.images[services[0].image][app.profile]


@asynccontextmanager
async def _pod(cluster: Cluster, image: str) -> AsyncIterator[None]:
    await remove_namespaces(cluster, [CLIENTS])
    try:
        await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CLIENTS}})
        account = Ref(SERVICEACCOUNT, "default", CLIENTS)  # without it no pod is admitted
        await waits.poll(lambda: cluster.find(account), what=str(account), every=0.2, within=READY_WITHIN_S)
        await cluster.create(client_pod(image))

        async def ready() -> bool | None:
            conditions = dig(await cluster.get(CLIENT), "status", "conditions", default=[])
            return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions) or None

        await waits.poll(ready, what=f"{CLIENT} is ready", every=0.5, within=READY_WITHIN_S)
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await remove_namespaces(cluster, [CLIENTS])


def client_pod(image: str) -> Obj:
    """A Pod that waits, with a folder that programs can be run from."""
    container = {
        "name": "client",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", "trap 'exit 0' TERM; while true; do sleep 1; done"],
        "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "work", "mountPath": "/opt/client"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": CLIENT.name, "namespace": CLIENTS, "labels": {"app": "client"}},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65534, "fsGroup": 65534},
            "containers": [container],
            "volumes": [{"name": "work", "emptyDir": {"sizeLimit": "128Mi"}}],
        },
    }


async def _program(image: str, folder: Path, journal: Journal | None) -> Path:
    """The generator itself, taken out of its image."""
    program = folder / "client"
    async with container_noted(journal) as name:
        await process.run(["docker", "create", "--name", name, image])
        await process.run(["docker", "cp", f"{name}:{IN_IMAGE}", program], within=COPY_WITHIN_S)
    return program


async def _copy(program: Path, into: Sequence[str | Path]) -> None:
    script = f"cat > {IN_POD} && chmod 755 {IN_POD} && test -x {IN_POD}"
    try:
        await process.run([*into, "sh", "-c", script], stdin=program, within=COPY_WITHIN_S)
    except CommandError as error:
        raise ClusterError(f"the users' program cannot be copied into {CLIENT}: {error}") from error
