"""Clusters by kind, on this machine's Docker. The node image is pulled, or built from source."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import yaml

from sregym import process
from sregym.cluster.lease import lease
from sregym.cluster.objects import Obj
from sregym.cluster.providers import host as host_facts
from sregym.cluster.providers import pins as pin_file
from sregym.cluster.providers import readiness
from sregym.cluster.providers.base import ClusterHandle, ClusterSpec, ClusterStatus, Origin
from sregym.cluster.providers.daemon import DockerDaemon, install_programs
from sregym.cluster.providers.exclusive import exclusive
from sregym.cluster.providers.fencing import fence
from sregym.cluster.providers.host import GIB, Host
from sregym.cluster.providers.images import BuiltImage, ImageRecipe, build_images, image_step, load_images
from sregym.cluster.providers.kind_rules import (
    check_memory,
    check_port,
    check_shape,
    check_spec,
    cluster_config,
    explained,
)
from sregym.cluster.providers.node_image import NODE, NodeImage, debian_step, node_steps
from sregym.cluster.providers.node_source import (
    ImageSource,
    NodeSource,
    decide,
    image_present,
    registry_answers,
)
from sregym.cluster.providers.pins import KIND_DATA, Pins
from sregym.cluster.providers.steps import Builder, Step
from sregym.cluster.providers.tools import tool_steps
from sregym.cluster.waits import poll
from sregym.errors import CommandError, PrerequisiteError, WaitTimeout
from sregym.progress import Progress, step

NETWORK = "kind"
LABEL = "io.x-k8s.kind.cluster"
READY_WITHIN_S = 180.0
BUILD_PROGRAMS = {"debootstrap": "debootstrap", "tar": "tar", "xz": "xz-utils"}
CLUSTER_SPACE = 3 * GIB
"""Images and nodes of one cluster in Docker's data."""
RECOVERS_WITHIN_S = 30.0
NODE_READS = KIND_DATA / "manifests" / "node-reads.yaml"
NOT_RUNNING = "not running"


@dataclass(kw_only=True)
class KindProvider:
    """Makes, finds and removes kind clusters. `cache` and `state` are our folders."""

    cache: Path
    state: Path
    progress: Progress
    source: ImageSource = ImageSource.AUTO
    recipes: Sequence[ImageRecipe] = ()
    """Images that clusters are to have beside the system's: those of the apps."""
    beside: Sequence[ImageRecipe] = ()
    """Images of containers beside the cluster: built along with the node image, while that waits for compilers."""
    extra_steps: Sequence[Step] = ()
    """Steps that recipes need beside ours."""
    pins: Pins = field(default_factory=pin_file.read)

    def __post_init__(self) -> None:
        self.daemon = DockerDaemon(state=self.state, progress=self.progress)
        self.builder = Builder(cache=self.cache, progress=self.progress)

    async def up(self, spec: ClusterSpec) -> ClusterHandle:
        """See `Provider.up`. One that stays broken is replaced, unless a run is using it."""
        check_spec(spec)
        async with self._alone(spec.name):
            return await self._up(spec)

    async def load(self, handle: ClusterHandle) -> list[BuiltImage]:
        """Bring to the nodes what they lack of the recipes' images. Returns what was brought."""
        await fence(handle.node_names)  # a node that was restarted has lost it
        images = await self.images(self.recipes)
        return await load_images(handle.node_names, list(images.values()), cache=self.cache, progress=self.progress)

    async def images(self, recipes: Sequence[ImageRecipe]) -> dict[str, BuiltImage]:
        """Images, built if need be, by the recipe's name."""
        if not recipes:
            return {}
        await install_programs(BUILD_PROGRAMS, self.progress)
        return await build_images(self.builder, recipes, steps=self._base_steps(host_facts.look()))

    async def replace(self, spec: ClusterSpec) -> ClusterHandle:
        """See `Provider.replace`. From the same node image, so it takes as long as kind does."""
        check_spec(spec)
        async with self._alone(spec.name):
            if await _containers(spec.name):
                self._check_ours(spec.name, "it differs from before, and is not ours to replace")
            host = host_facts.look()
            await self.daemon.ensure(host)
            handle = await self._create(spec, await self.node_image(host), host)
            await self.load(handle)
            return handle

    async def status(self, name: str) -> ClusterStatus:
        """See `Provider.status`."""
        if await self.daemon.find() is None:
            return ClusterStatus(name=name, exists=False, ready=False, reason="no Docker daemon answers")
        containers = await _containers(name)
        if not containers:
            return ClusterStatus(name=name, exists=False, ready=False, reason="there is no such cluster")
        if stopped := [node for node, state in containers.items() if state != "running"]:
            return ClusterStatus(name=name, exists=True, ready=False, reason=f"{NOT_RUNNING}: {', '.join(stopped)}")
        handle = self._read_handle(name)
        if handle is None:
            return ClusterStatus(name=name, exists=True, ready=False, reason="it was not made here, or not to the end")
        seen = await readiness.look(handle.kubeconfig, handle.context)
        return ClusterStatus(name=name, exists=True, ready=seen.ready, reason=seen.reason, handle=handle)

    async def down(self, name: str) -> bool:
        """See `Provider.down`. Docker and the images stay."""
        check_spec(ClusterSpec(name=name))
        if await self.daemon.find() is None:
            return False
        async with self._alone(name):
            await self._check_unused(self._read_handle(name))
            if await _containers(name):
                self._check_ours(name, "it is not ours to remove")
            return await self._discard(name)

    async def names(self) -> list[str]:
        """Names of all kind clusters on this Docker."""
        done = await process.run(["docker", "ps", "--all", "--filter", f"label={LABEL}", "--format", _label_format()])
        return sorted(set(done.stdout.split()))

    async def node_image(self, host: Host) -> NodeImage:
        """The node image, pulled or built if need be."""
        published = self.pins.pulled.node
        decision = await decide(
            self.source, present=image_present(published), registry_answers=registry_answers(self.pins)
        )
        if decision.source is NodeSource.PULL and not await self._pull(published):
            decision = await decide(ImageSource.BUILD, present=image_present(published), registry_answers=_never)
        if decision.source is not NodeSource.BUILD:
            return NodeImage(ref=published, id=await _image_id(published))
        self.progress.note("node image", f"built from source: {decision.why}")
        await install_programs(BUILD_PROGRAMS, self.progress)
        along = ["go.kind", "go.helm", *(recipe.step_name for recipe in self.beside)]
        results = await self.builder.build(self.steps(host), wanted=[NODE, *along])
        return NodeImage.read(results[NODE])

    async def tool(self, name: str) -> Path:
        """A program of ours: kind, helm, crictl, kube (which is kubectl, too)."""
        results = await self.builder.build(tool_steps(self.pins), wanted=[f"go.{name}"])
        return results[f"go.{name}"] / name

    def steps(self, host: Host) -> list[Step]:
        """Every build step that there is for this host."""
        steps = node_steps(self.pins, architecture=host.architecture, extra=self.recipes)
        return [*steps, *(image_step(recipe) for recipe in self.beside), *self.extra_steps]

    def _base_steps(self, host: Host) -> list[Step]:
        return [debian_step(self.pins, architecture=host.architecture), *tool_steps(self.pins), *self.extra_steps]

    async def _up(self, spec: ClusterSpec) -> ClusterHandle:
        host = host_facts.look()
        docker = await self.daemon.ensure(host)
        status = await self._settled(spec.name)
        if status.ready and status.handle is not None:
            check_shape(status.handle, spec)
            handle = status.handle
        else:
            await self._check_unused(self._read_handle(spec.name))
            if status.exists:
                self._check_ours(spec.name, "it is not ready, and not ours to replace")
            else:
                check_port(spec)  # before anything is built for it
            if docker.data_root.is_dir():  # a daemon elsewhere has its disk elsewhere
                host_facts.require_space(docker.data_root, needed=CLUSTER_SPACE, purpose="Docker")
            handle = await self._create(spec, await self.node_image(host), host)
        await self.load(handle)
        return handle

    def _alone(self, name: str) -> AbstractAsyncContextManager[None]:
        """Nobody else makes or removes the cluster meanwhile: whoever comes second finds what the first one left."""
        lock = self._folder / f"{name}.lock"
        return exclusive(lock, self.progress, waiting_for=f"another command that makes or removes cluster {name}")

    async def _adopt(self, name: str) -> ClusterHandle | None:
        """A cluster that somebody else made with kind on this Docker, if it is up."""
        kind = await self.tool("kind")
        self._folder.mkdir(parents=True, exist_ok=True)
        kubeconfig = self._kubeconfig(name)
        done = await process.run(
            [kind, "export", "kubeconfig", f"--name={name}", f"--kubeconfig={kubeconfig}"], check=False
        )
        seen = await readiness.look(kubeconfig, f"kind-{name}") if done.ok else None
        if seen is None or not seen.ready:
            return None
        image = (
            await process.run(
                ["docker", "inspect", "--format", "{{.Config.Image}} {{.Image}}", f"{name}-control-plane"]
            )
        ).stdout
        ref, _, identity = image.strip().partition(" ")
        return self._keep(name, seen, NodeImage(ref=ref, id=identity), Origin.EXISTING)

    async def _settled(self, name: str) -> ClusterStatus:
        """The status; a cluster that is there but not ready gets some time to become so."""
        status = await self.status(name)
        if status.exists and status.handle is None:
            return ClusterStatus(name=name, exists=True, ready=True, handle=await self._adopt(name))
        if not status.exists or status.ready or status.reason.startswith(NOT_RUNNING):
            return status

        async def ready() -> ClusterStatus | None:
            seen = await self.status(name)
            return seen if seen.ready else None

        try:
            with step(self.progress, f"wait for cluster {name}: {status.reason}"):
                return await poll(ready, what=f"cluster {name} ready", every=1.0, within=RECOVERS_WITHIN_S)
        except WaitTimeout:
            return await self.status(name)

    def _check_ours(self, name: str, why: str) -> None:
        """Raise `PrerequisiteError` where a cluster was not begun by us, with this state folder."""
        handle = self._read_handle(name)
        if not self._config(name).exists() or (handle is not None and handle.origin is Origin.EXISTING):
            raise PrerequisiteError(
                f"the kind cluster {name} was made by somebody else: {why}",
                cure=f"use another name, or remove it yourself: kind delete cluster --name {name}",
            )

    def _config(self, name: str) -> Path:
        """The configuration that we make a cluster from; it is there from before the cluster until it is removed."""
        return self._folder / f"{name}.yaml"

    async def _check_unused(self, handle: ClusterHandle | None) -> None:
        """Raise `PrerequisiteError` where a run holds the cluster."""
        if handle is not None and handle.identity:
            async with lease(self.state, handle.identity, cluster=handle.name):
                pass

    async def _discard(self, name: str) -> bool:
        """Remove a cluster, whoever uses it."""
        there = await _containers(name)
        if there:
            with step(self.progress, f"remove cluster {name}"):
                await _remove(name)
        for path in (self._handle_file(name), self._kubeconfig(name), self._config(name)):
            path.unlink(missing_ok=True)
        return bool(there)

    async def _pull(self, ref: str) -> bool:
        """Pull; False where that fails although it was not asked for in so many words."""
        name = "pull the node image"
        try:
            with step(self.progress, name):
                await process.run(["docker", "pull", ref], on_line=lambda line: self.progress.note(name, line))
        except CommandError as error:
            if self.source is ImageSource.PULL:
                raise PrerequisiteError(f"{ref} cannot be pulled: {error}", cure="see what Docker says") from error
            return False
        return True

    async def _create(self, spec: ClusterSpec, image: NodeImage, host: Host) -> ClusterHandle:
        """Make the cluster, in the place of one of that name."""
        kind = await self.tool("kind")
        check_memory(spec, host)
        await self._discard(spec.name)
        check_port(spec)
        config = self._config(spec.name)
        log = self._folder / f"{spec.name}.log"
        self._folder.mkdir(parents=True, exist_ok=True)
        values = cluster_config(spec, host, store=await _mountpoint(image))
        config.write_text(yaml.safe_dump(values), encoding="utf-8")
        name = f"create cluster {spec.name} ({1 + spec.workers} nodes)"
        options = [f"--name={spec.name}", f"--image={image.ref}", f"--config={config}"]
        try:
            with step(self.progress, name):
                await process.run(
                    [kind, "create", "cluster", *options, f"--kubeconfig={self._kubeconfig(spec.name)}"],
                    log=log,
                    on_line=lambda line: self.progress.note(name, line),
                )
                handle = await self._ready(spec, image)
        except CommandError as error:
            raise explained(error, spec, log) from error
        except BaseException:
            with anyio.CancelScope(shield=True):
                await _remove(spec.name)
            raise
        return handle

    async def _ready(self, spec: ClusterSpec, image: NodeImage) -> ClusterHandle:
        context = f"kind-{spec.name}"
        last = readiness.Readiness(reason="not asked yet")

        async def probe() -> readiness.Readiness | None:
            nonlocal last
            last = await readiness.look(self._kubeconfig(spec.name), context)
            complete = len(last.nodes) == 1 + spec.workers
            return last if last.ready and complete else None

        try:
            seen = await poll(probe, what=f"cluster {spec.name} ready", every=0.5, within=READY_WITHIN_S)
        except WaitTimeout as error:
            raise WaitTimeout(error.what, within=error.within, reason=last.reason or "nodes are missing") from error
        return self._keep(spec.name, seen, image, Origin.BUILT if image.store else Origin.PULLED)

    def _keep(self, name: str, seen: readiness.Readiness, image: NodeImage, origin: Origin) -> ClusterHandle:
        """Write down what others need to know of a cluster that is up."""
        handle = ClusterHandle(
            name=name,
            provider="kind",
            kubeconfig=self._kubeconfig(name),
            context=f"kind-{name}",
            server_version=seen.server_version,
            nodes=seen.nodes,
            identity=seen.identity,
            docker_network=NETWORK,
            internal_server=f"https://{name}-control-plane:6443",
            node_image=image.ref,
            node_image_id=image.id,
            origin=origin,
        )
        self._handle_file(name).write_text(handle.model_dump_json(indent=1), encoding="utf-8")
        return handle

    @property
    def _folder(self) -> Path:
        return self.state / "clusters"

    def _kubeconfig(self, name: str) -> Path:
        return self._folder / f"{name}.kubeconfig"

    def _handle_file(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def _read_handle(self, name: str) -> ClusterHandle | None:
        try:
            return ClusterHandle.model_validate_json(self._handle_file(name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None


def node_reads() -> list[Obj]:
    """What nodes may read without waiting for the node authorizer; see the file."""
    return list(yaml.safe_load_all(NODE_READS.read_text(encoding="utf-8")))


async def _containers(name: str) -> dict[str, str]:
    """The containers of a cluster and their states."""
    form = "{{.Names}} {{.State}}"
    done = await process.run(["docker", "ps", "--all", "--filter", f"label={LABEL}={name}", "--format", form])
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if line)


async def _remove(name: str) -> None:
    if containers := await _containers(name):
        await process.run(["docker", "rm", "--force", "--volumes", *containers])


async def _image_id(ref: str) -> str:
    return (await process.run(["docker", "image", "inspect", "--format", "{{.Id}}", ref])).stdout.strip()


async def _mountpoint(image: NodeImage) -> str | None:
    """Where Docker keeps the store of a node image."""
    if image.store is None:
        return None
    done = await process.run(["docker", "volume", "inspect", "--format", "{{.Mountpoint}}", image.store])
    return done.stdout.strip()


async def _never() -> bool:
    return False


def _label_format() -> str:
    return '{{.Label "' + LABEL + '"}}'
