"""`main.py cluster`: make, show and remove the cluster, and the Docker daemon under it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

from cyclopts import App, Parameter
from rich.markup import escape
from rich.table import Table

from sregym.cli.console import ConsoleProgress, console, output
from sregym.cluster.providers import host as host_facts
from sregym.cluster.providers.base import DEFAULT_NAME, DEFAULT_WORKERS, ClusterHandle, ClusterSpec, ClusterStatus
from sregym.cluster.providers.kind import KindProvider
from sregym.cluster.providers.node_source import ImageSource
from sregym.coordinator.lab import TOOLS, Content, provider_of
from sregym.settings import Settings

Name = Annotated[str, Parameter(help="The cluster's name; node names begin with it.")]
Json = Annotated[bool, Parameter(name="--json", help="Print one JSON object on standard output.")]


def cluster_app(content: Callable[[], Content]) -> App:
    """The command group. `content` says which images belong on the nodes."""
    app = App(name="cluster", help="Make, show and remove the kind cluster that attempts run on.")

    @app.command
    async def up(
        *,
        name: Name = DEFAULT_NAME,
        workers: Annotated[int, Parameter(help="Worker nodes beside the one control plane.")] = DEFAULT_WORKERS,
        api_port: Annotated[int, Parameter(help="Port of the API server on this machine; 0 = any free one.")] = 0,
        source: Annotated[ImageSource, Parameter(help="Where the node image comes from.")] = ImageSource.AUTO,
        json: Json = False,
    ) -> None:
        """Make the cluster, with all that it needs: Docker, programs, images. Does nothing where it is up."""
        provider = _provider(content(), source)
        handle = await provider.up(ClusterSpec(name=name, workers=workers, api_port=api_port))
        if json:
            output.print_json(handle.model_dump_json())
            return
        _show(handle)

    @app.command
    async def build(
        *, source: Annotated[ImageSource, Parameter(help="Where the node image comes from.")] = ImageSource.AUTO
    ) -> None:
        """Build or pull everything that runs need, and make no cluster. Cached: what is there is not built again."""
        provider = _provider(content(), source)
        host = host_facts.look()
        await provider.daemon.ensure(host)
        image = await provider.node_image(host)
        await provider.images([*provider.recipes, *provider.beside])
        for tool in ("kind", *TOOLS):
            await provider.tool(tool)
        console.print(f"everything is there; nodes are made from {image.ref}")

    @app.command
    async def status(
        *,
        name: Annotated[str | None, Parameter(help="One cluster; all where it is not given.")] = None,
        json: Json = False,
    ) -> int:
        """Show what there is. Exit status 1 where a cluster is absent or not ready."""
        provider = _bare_provider()
        docker = await provider.daemon.find()
        names = [name] if name is not None else (await provider.names() if docker else [])
        found = [await provider.status(one) for one in names]
        if json:
            rows = [_row(one) for one in found]
            output.print_json(data={"docker": docker and _plain(asdict(docker)), "clusters": rows})
        else:
            ours = ", started by us" if docker and docker.ours else ""
            console.print(f"Docker {docker.server_version}{ours}" if docker else "no Docker daemon answers")
            _table(found)
        return 0 if found and all(one.ready for one in found) else 1

    @app.command
    async def down(
        *,
        name: Name = DEFAULT_NAME,
        docker: Annotated[bool, Parameter(help="Stop the Docker daemon, too, if we started it.")] = False,
    ) -> None:
        """Remove the cluster. Images and builds stay, so that it is soon up again."""
        provider = _bare_provider()
        removed = await provider.down(name)
        console.print(f"cluster {name} removed" if removed else f"there is no cluster {name}")
        if docker:
            stopped = await provider.daemon.stop()
            console.print("Docker stopped" if stopped else "no Docker daemon of ours runs")

    return app


def _provider(content: Content, source: ImageSource) -> KindProvider:
    """For clusters that have the images of every application."""
    apps = [content.catalogue.app(one.__name__, "lite") for one in content.catalogue.apps]
    return provider_of(Settings(), content, apps, ConsoleProgress(), source)


def _bare_provider() -> KindProvider:
    """For looking and removing."""
    paths = Settings().paths
    return KindProvider(cache=paths.cache, state=paths.state, progress=ConsoleProgress())


def _show(handle: ClusterHandle) -> None:
    console.print(
        f"cluster [bold]{handle.name}[/] is up: Kubernetes {handle.server_version}, {len(handle.nodes)} nodes"
    )
    console.print(f"  export KUBECONFIG={handle.kubeconfig}", soft_wrap=True)


def _row(status: ClusterStatus) -> dict[str, object]:
    handle = status.handle
    return {
        "name": status.name,
        "exists": status.exists,
        "ready": status.ready,
        "reason": status.reason,
        "handle": handle.model_dump(mode="json") if handle else None,
    }


def _table(found: list[ClusterStatus]) -> None:
    if not found:
        console.print("no clusters")
        return
    table = Table("cluster", "ready", "nodes", "kubernetes", "why not", box=None)
    for one in found:
        nodes, version = (str(len(one.handle.nodes)), one.handle.server_version) if one.handle else ("", "")
        table.add_row(one.name, "[green]yes[/]" if one.ready else "[red]no[/]", nodes, version, escape(one.reason))
    output.print(table)
    for one in found:
        if one.ready and one.handle is not None:
            output.print(f"export KUBECONFIG={one.handle.kubeconfig}  # {one.name}", soft_wrap=True)


def _plain(values: dict[str, object]) -> dict[str, object]:
    return {key: value if isinstance(value, (bool, int)) else str(value) for key, value in values.items()}
