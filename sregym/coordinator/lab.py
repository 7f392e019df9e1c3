"""A cluster that is ready for attempts: images there, lease held, leftovers recovered, proven to be as at first.

The base snapshot is taken once in a cluster's life, before any application, and kept on disk; every later process
compares with it before it trusts the cluster.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio

from sregym import observability
from sregym.agents.images import AgentImages
from sregym.agents.images import recipes as agent_recipes
from sregym.api.app import App, Profile
from sregym.catalogue import Catalogue
from sregym.cluster import snapshot
from sregym.cluster.client import KubeCluster
from sregym.cluster.contract import Cluster
from sregym.cluster.journal import Journal
from sregym.cluster.lease import lease
from sregym.cluster.nodes import DockerNodeShell
from sregym.cluster.objects import NAMESPACE, Obj, Ref
from sregym.cluster.providers import host as host_facts
from sregym.cluster.providers.base import ClusterHandle, ClusterSpec, Provider
from sregym.cluster.providers.capabilities import Capabilities, capabilities_of
from sregym.cluster.providers.images import BuiltImage, ImageRecipe
from sregym.cluster.providers.kind import KindProvider, node_reads
from sregym.cluster.providers.kubeconfig import KubeconfigProvider
from sregym.cluster.providers.node_source import ImageSource
from sregym.cluster.providers.steps import Step
from sregym.cluster.snapshot import Snapshot
from sregym.coordinator.putback import equalise
from sregym.coordinator.recovery import JournalFacts, forget_replaced, recover_cluster
from sregym.coordinator.world import Bench, Users
from sregym.errors import PrerequisiteError
from sregym.events import Emit
from sregym.gateway.access import access_objects
from sregym.gateway.admission import admission_objects
from sregym.gateway.upstream import ClusterAccess
from sregym.load import CLIENTS, users, users_inside
from sregym.progress import Progress
from sregym.settings import Settings

LOAD_IMAGE = "load-generator"
TOOLS = ("helm", "kube")
"""Programs that attempts need on this machine."""


@dataclass(frozen=True, kw_only=True)
class Content:
    """What the composition root knows of content: the problems, and how images are made."""

    catalogue: Catalogue
    app_images: Callable[[Iterable[str]], Sequence[ImageRecipe]]
    """Image references of topologies -> the recipes of those that are made here."""
    host_images: Sequence[ImageRecipe]
    steps: Sequence[Step]


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where attempts run: a cluster with everything on it, not yet opened."""

    catalogue: Catalogue
    provider: Provider
    spec: ClusterSpec
    handle: ClusterHandle
    progress: Progress
    namespaces: Sequence[str] = ()
    """Where the applications stand."""
    profile: Profile = "lite"
    images: Mapping[str, BuiltImage]
    tools: Mapping[str, Path]

    @property
    def agent_images(self) -> AgentImages:
        return AgentImages.of(self.images)

    async def replaced(self) -> Site:
        """The same site with a new cluster."""
        handle = await self.provider.replace(self.spec)
        return replace(self, handle=handle)


def provider_of(
    settings: Settings,
    content: Content,
    apps: Sequence[App],
    progress: Progress,
    source: ImageSource = ImageSource.AUTO,
) -> KindProvider:
    """Makes clusters that have the apps' images on their nodes, and the images that stand beside them."""
    return KindProvider(
        cache=settings.paths.cache,
        state=settings.paths.state,
        progress=progress,
        source=source,
        recipes=[*content.app_images(dict.fromkeys(_refs(apps))), *_stack_images(apps)],
        beside=[*content.host_images, *agent_recipes()],
        extra_steps=[*content.steps, *observability.steps()],
    )


def _stack_images(apps: Sequence[App]) -> Sequence[ImageRecipe]:
    """The stack's images where they are made here."""
    return observability.recipes() if any(app.profile == "lite" for app in apps) else ()


def _refs(apps: Sequence[App]) -> list[str]:
    return [ref for app in apps for ref in app.topology.images_of(app.profile)]


async def prepare(
    settings: Settings,
    content: Content,
    apps: Sequence[App],
    spec: ClusterSpec,
    progress: Progress,
    *,
    existing: KubeconfigProvider | None = None,
) -> Site:
    """Builds or finds everything and brings the cluster up. Safe to repeat; quick when nothing is missing.

    With an `existing` cluster only what stands beside it is made here: its nodes have, or pull, the apps' images.
    """
    provider = provider_of(settings, content, [] if existing else apps, progress)
    if existing:
        handle = await existing.up(spec)  # first: it may not answer, and building takes a while
        made = content.app_images(dict.fromkeys(_refs(apps)))
        progress.note("images", f"its nodes must have {', '.join(ref for one in made for ref in one.also)}")
        await provider.daemon.ensure(host_facts.look())
    else:
        handle = await provider.up(spec)
    images = await provider.images([*provider.recipes, *provider.beside])
    return Site(
        catalogue=content.catalogue,
        provider=existing or provider,
        spec=spec,
        handle=handle,
        progress=progress,
        namespaces=[app.namespace for app in apps],
        profile=next((app.profile for app in apps), "lite"),
        images=images,
        tools={name: await provider.tool(name) for name in TOOLS},
    )


@dataclass(frozen=True, kw_only=True)
class Lab:
    """An open site: what attempts are run with."""

    site: Site
    bench: Bench
    cluster: Cluster
    base: Snapshot
    base_file: Path
    state: Path
    access: ClusterAccess
    identity: str
    cache: Path

    async def capabilities(self) -> Capabilities:
        """What this cluster can do: probed once in its life."""
        handle = self.site.handle
        shell = None if handle.shared else DockerNodeShell(handle.node_names)
        return await capabilities_of(
            handle, self.cluster, node_shell=shell, cache=self.cache, progress=self.site.progress
        )

    def journal(self, attempt: str, *, namespaces: Sequence[str], problem: str) -> Journal:
        """A new journal whose head lets another process put the world back."""
        handle = self.site.handle
        facts = JournalFacts(
            kubeconfig=handle.kubeconfig,
            context=handle.context,
            nodes=() if handle.shared else handle.node_names,
            namespaces=(*namespaces, CLIENTS) if handle.shared else tuple(namespaces),
            base=self.base_file,
            problem=problem,
        )
        return Journal.create(
            self.state, identity=self.identity, attempt=attempt, cluster=handle.name, facts=facts.as_json()
        )


@asynccontextmanager
async def open_lab(site: Site, settings: Settings, *, seed: int, emit: Emit) -> AsyncIterator[Lab]:
    """Takes the cluster for this process.

    Raises PrerequisiteError where another coordinator holds it, RecoveryError where leftovers cannot be recovered,
    DirtyClusterError where it differs from its base and cannot be put right.
    """
    state, handle = settings.paths.state, site.handle
    begun = anyio.current_time()
    async with AsyncExitStack() as stack:
        nodes = () if handle.shared else handle.node_names
        cluster = await stack.enter_async_context(connect(handle.kubeconfig, handle.context, nodes))
        identity = await cluster.identity()
        await stack.enter_async_context(lease(state, identity, cluster=handle.name))
        for done in [
            *await recover_cluster(state, cluster, emit=emit),
            *await forget_replaced(state, handle.kubeconfig, handle.context, identity, emit=emit),
        ]:
            emit("recovered", attempt=done.attempt, how=done.how)
        base_file, base = await _settle_in(site, cluster, identity, state, emit)
        bench = Bench(
            cluster=cluster,
            users=_users_of(site, cluster, seed),
            access=partial(_access_in, shared=handle.shared),
            witness=None if handle.shared else observability.Telemetry(cluster=cluster),
            timeouts=settings.timeouts,
        )
        emit("cluster.ready", name=handle.name, seconds=anyio.current_time() - begun)
        yield Lab(
            site=site,
            bench=bench,
            cluster=cluster,
            base=base,
            base_file=base_file,
            state=state,
            access=ClusterAccess(kubeconfig=handle.kubeconfig, context=handle.context),
            identity=identity,
            cache=settings.paths.cache,
        )


@asynccontextmanager
async def connect(kubeconfig: Path, context: str | None, nodes: Sequence[str]) -> AsyncIterator[KubeCluster]:
    """A cluster's client; with its nodes' shell where they are containers here."""
    shell = DockerNodeShell(tuple(nodes)) if nodes else None
    async with KubeCluster.connect(kubeconfig, context, node_shell=shell) as cluster:
        yield cluster


def _users_of(site: Site, cluster: Cluster, seed: int) -> Users:
    handle, image = site.handle, site.images[LOAD_IMAGE].ref
    if not handle.shared:
        return partial(users, handle, reader=cluster, image=image, seed=seed)
    where: list[str | Path] = ["--kubeconfig", handle.kubeconfig, "--context", handle.context]
    kubectl = [site.tools["kube"], "kubectl", *where]
    return partial(users_inside, cluster=cluster, image=image, kubectl=kubectl, seed=seed)


async def _settle_in(site: Site, cluster: Cluster, identity: str, state: Path, emit: Emit) -> tuple[Path, Snapshot]:
    """What stands there before any application, and the base snapshot with its file.

    On a cluster that others use nothing is put up outside our namespaces, and nothing else is looked at.
    """
    handle = site.handle
    if handle.shared:
        ours = (*dict.fromkeys(site.namespaces), CLIENTS)
        path = state / "bases" / f"{identity}-shared-{_digest_of(ours)}.json"
        return path, await _claim(cluster, path, ours)
    masters = [node.name for node in handle.nodes if node.control_plane]
    stack = await observability.install(cluster, site.profile, emit=emit)
    walls = [*node_reads(), *access_objects([]), *admission_objects(control_plane=masters)]
    await cluster.apply(walls)
    path = state / "bases" / f"{identity}-{_digest_of([*walls, *stack])}.json"
    return path, await _base(cluster, path, emit)


async def _claim(cluster: Cluster, path: Path, namespaces: Sequence[str]) -> Snapshot:
    """The base of a cluster that others use: our namespaces, which are not there. Raises PrerequisiteError."""
    if taken := [name for name in namespaces if await cluster.find(Ref(NAMESPACE, name)) is not None]:
        raise PrerequisiteError(
            f"this cluster has namespaces that an application of ours needs: {', '.join(taken)}",
            cure="they are not ours to remove: use another cluster, or remove them where nobody needs them",
        )
    base = await snapshot.take(cluster, namespaces=namespaces, scope=snapshot.Scope.NAMESPACES)
    await anyio.Path(path.parent).mkdir(parents=True, exist_ok=True)
    base.save(path)
    return base


async def _base(cluster: Cluster, path: Path, emit: Emit) -> Snapshot:
    """The cluster's base snapshot: read and compared with where it is there, taken where it is not."""
    if await anyio.Path(path).exists():
        base = Snapshot.load(path)
        await equalise(cluster, base, emit=emit)
        return base
    base = await snapshot.take(cluster, namespaces=snapshot.SYSTEM_NAMESPACES, scope=snapshot.Scope.CLUSTER)
    await anyio.Path(path.parent).mkdir(parents=True, exist_ok=True)
    base.save(path)
    return base


def _access_in(namespaces: Sequence[str], *, shared: bool) -> list[Obj]:
    """The agent's rights inside an application's namespaces; the others are there from the beginning."""
    if shared:
        return access_objects(namespaces, shared=True)
    return [obj for obj in access_objects(namespaces) if obj["metadata"].get("namespace") in namespaces]


def _digest_of(objects: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(list(objects), sort_keys=True).encode()).hexdigest()[:12]
