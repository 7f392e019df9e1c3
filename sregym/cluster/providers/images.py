"""Container images of our own: recipes, content-addressed tags, and the way to the nodes.

An `ImageRecipe` stages a folder with a Dockerfile; Docker's classic builder makes the image, which needs no registry
and no BuildKit. Every Dockerfile may begin with

    ARG BASE
    FROM ${BASE}

where BASE is the Debian layer that all our images share. The tag is a hash of all that the image is made from, so an
image that is there is up to date.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from pydantic import BaseModel, ConfigDict

from sregym import process
from sregym.cluster.providers.steps import KEY_LENGTH, Builder, Lane, Step, StepContext, fingerprint_of
from sregym.progress import Progress, step

DEBIAN = "debian"
"""Name of the step whose image is BASE."""
RESULT = "image.json"
KEPT_VERSIONS = 3
"""How many versions of an image stay: going back to a recipe of before is then free."""
KEY = re.compile(f"[0-9a-f]{{{KEY_LENGTH}}}")
CLASSIC = {"DOCKER_BUILDKIT": "0"}


@dataclass(frozen=True, kw_only=True)
class ImageContext:
    """What a recipe has at hand while it stages."""

    context: Path
    """Empty folder: the build context. Put `Dockerfile` and all that it copies here."""
    base: str
    """The image that BASE will be."""
    work: Path
    """Stays between builds of this recipe: for downloads."""
    step: StepContext

    async def run(
        self, argv: Sequence[str | Path], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> process.Completed:
        """Run a command; its output goes to the step's log and to the progress display."""
        return await self.step.run(argv, cwd=cwd, env=env)

    def result(self, need: str) -> Path:
        """Result folder of a step that the recipe needs."""
        return self.step.results[need]

    def copy(self, source: Path, to: str = "") -> Path:
        """Copy a file or a whole folder's content into the context, under `to` (relative)."""
        target = self.context / to if to or source.is_dir() else self.context / source.name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copy2(source, target)
        return target

    async def go_build(
        self, module: Path, packages: Sequence[str], *, to: str = "bin/", ldflags: str = "-s -w"
    ) -> None:
        """Compile Go packages of a module, statically, into the context."""
        await go_build(self.step, module, packages, out=self.context / to, ldflags=ldflags)


@dataclass(frozen=True, kw_only=True)
class ImageRecipe:
    """How one image is made.

    Attributes:
        name: Repository, as it is seen in pod specs: neutral, without a tag.
        build: Stages the context. Must depend on nothing but `inputs`, `pins` and the results of `needs`.
        inputs: Files and folders that decide the tag.
        pins: Versions and other texts that decide the tag.
        needs: Names of other steps whose results are used (`ctx.result`).
        target: Stage of a multi-stage Dockerfile.
        build_args: Further build arguments.
        also: Full references that the image gets beside its content-addressed one.
        lane: CPU where staging compiles.
    """

    name: str
    build: Callable[[ImageContext], Awaitable[None]]
    inputs: Sequence[Path] = ()
    pins: Sequence[str] = ()
    needs: Sequence[str] = ()
    target: str | None = None
    build_args: Mapping[str, str] = field(default_factory=dict)
    also: Sequence[str] = ()
    lane: Lane = Lane.IO

    @property
    def step_name(self) -> str:
        return "image." + self.name.replace("/", ".")


class BuiltImage(BaseModel):
    """An image in Docker's store."""

    model_config = ConfigDict(frozen=True)
    ref: str
    """Content-addressed: `name:hash`."""
    id: str
    also: tuple[str, ...] = ()

    @property
    def node_refs(self) -> tuple[str, ...]:
        """What pods call it: its fixed references where it has some, otherwise the content-addressed one."""
        return self.also or (self.ref,)

    @staticmethod
    def read(result: Path) -> BuiltImage:
        """The image that an image step has left in its result folder."""
        return BuiltImage.model_validate_json((result / RESULT).read_text(encoding="utf-8"))


def image_step(recipe: ImageRecipe) -> Step:
    """The build step of a recipe."""

    async def run(context: StepContext) -> None:
        await _build(recipe, context)

    return Step(
        name=recipe.step_name,
        title=f"image {recipe.name}",
        fingerprint=fingerprint_of(
            values=[
                *recipe.pins,
                f"target={recipe.target}",
                *recipe.also,
                *(f"{key}={value}" for key, value in sorted(recipe.build_args.items())),
            ],
            paths=recipe.inputs,
        ),
        needs=(DEBIAN, *recipe.needs),
        run=run,
        lane=recipe.lane,
        still_valid=image_is_there,
    )


async def image_is_there(result: Path) -> bool:
    """Does Docker still have the image that this result folder names?"""
    image = BuiltImage.read(result)
    for ref in (image.ref, *image.also):
        done = await process.run(["docker", "image", "inspect", "--format", "{{.Id}}", ref], check=False)
        if done.stdout.strip() != image.id:
            return False
    return True


async def record_image(context: StepContext, ref: str, *, also: Sequence[str] = ()) -> BuiltImage:
    """Tag an image with further references and write the step's result."""
    for other in also:
        await context.run(["docker", "tag", ref, other])
    done = await context.run(["docker", "image", "inspect", "--format", "{{.Id}}", ref])
    image = BuiltImage(ref=ref, id=done.stdout.strip(), also=tuple(also))
    (context.out / RESULT).write_text(image.model_dump_json(), encoding="utf-8")
    return image


async def forget_old(repository: str, *, keep: int = KEPT_VERSIONS) -> list[str]:
    """Remove older content-addressed versions of one of our images that no container uses. Returns their tags."""
    tags = (await process.run(["docker", "image", "ls", "--format", "{{.Tag}}", repository])).stdout.split()
    used = (await process.run(["docker", "ps", "--all", "--format", "{{.Image}}"])).stdout.split()
    ours = [tag for tag in tags if KEY.fullmatch(tag)]  # newest first
    old = [tag for tag in ours[keep:] if f"{repository}:{tag}" not in used]
    # One that has come into use in between is kept by Docker; it goes the next time.
    return [tag for tag in old if (await process.run(["docker", "image", "rm", f"{repository}:{tag}"], check=False)).ok]


async def go_build(
    context: StepContext,
    module: Path,
    packages: Sequence[str],
    *,
    out: Path,
    ldflags: str = "-s -w",
    flags: Sequence[str] = (),
) -> None:
    """Compile Go packages, statically. `out` is a folder."""
    await context.run(
        ["go", "build", "-mod=readonly", "-buildvcs=false", *flags, "-ldflags", ldflags, "-o", f"{out}/", *packages],
        cwd=module,
        env={"CGO_ENABLED": "0", "PWD": str(module)},  # Go takes its path from PWD where that is a link
    )


async def build_images(
    builder: Builder, recipes: Iterable[ImageRecipe], *, steps: Iterable[Step]
) -> dict[str, BuiltImage]:
    """Build images; those that are there already are taken as they are.

    Args:
        steps: The steps that recipes need, among them `debian`.

    Returns: by the recipe's name.
    """
    made = {recipe.name: image_step(recipe) for recipe in recipes}
    results = await builder.build([*steps, *made.values()], wanted=[s.name for s in made.values()])
    return {name: BuiltImage.read(results[s.name]) for name, s in made.items()}


async def load_images(
    nodes: Sequence[str], images: Sequence[BuiltImage], *, cache: Path, progress: Progress
) -> list[BuiltImage]:
    """Bring images to nodes (containers of a kind cluster) that lack them, or have others of the same name.

    Returns those that were brought.
    """
    missing: dict[str, list[BuiltImage]] = {}
    for node in nodes if images else ():
        have = await _ids_on(node)
        if lacking := [i for i in images if any(have.get(qualified(ref)) != i.id for ref in i.node_refs)]:
            missing[node] = lacking
    wanted = sorted({image for lacking in missing.values() for image in lacking}, key=lambda image: image.ref)
    if not wanted:
        return []
    with step(progress, f"load {len(wanted)} image(s) into {len(missing)} node(s)"):
        archive = await save(wanted, cache / "archives")
        try:
            async with anyio.create_task_group() as tasks:
                for node in missing:
                    tasks.start_soon(_import, node, archive)
        finally:
            archive.unlink(missing_ok=True)
    return wanted


async def save(images: Sequence[BuiltImage], folder: Path) -> Path:
    """Write images to one archive; layers that they share are in it once. The caller removes it."""
    refs = [ref for image in images for ref in image.node_refs]
    archive = folder / f"{hashlib.sha256(json.dumps(refs).encode()).hexdigest()[:KEY_LENGTH]}.tar"
    await anyio.Path(folder).mkdir(parents=True, exist_ok=True)
    await process.run(["docker", "save", "--output", archive, *refs])
    return archive


def qualified(ref: str) -> str:
    """The full reference that containerd knows an image by."""
    host, slash, _ = ref.partition("/")
    if slash and ("." in host or ":" in host or host == "localhost"):
        return ref
    return f"docker.io/{ref}" if slash else f"docker.io/library/{ref}"


async def _build(recipe: ImageRecipe, context: StepContext) -> None:
    folder = context.out / "context"
    folder.mkdir()
    base = BuiltImage.read(context.results[DEBIAN]).ref
    await recipe.build(ImageContext(context=folder, base=base, work=context.work, step=context))
    arguments = {"BASE": base, **recipe.build_args}
    ref = f"{recipe.name}:{context.key[:KEY_LENGTH]}"
    target = ["--target", recipe.target] if recipe.target else []
    build_args = [f"--build-arg={key}={value}" for key, value in arguments.items()]
    await context.run(["docker", "build", "--force-rm", *build_args, *target, "--tag", ref, folder], env=CLASSIC)
    await record_image(context, ref, also=recipe.also)
    await forget_old(recipe.name)
    shutil.rmtree(folder)


async def _ids_on(node: str) -> dict[str, str]:
    """Image ids on a node by full reference. The id is the same as Docker's: the digest of the configuration."""
    done = await process.run(["docker", "exec", node, "crictl", "images", "--output=json"])
    return {tag: image["id"] for image in json.loads(done.stdout)["images"] for tag in image["repoTags"]}


async def _import(node: str, archive: Path) -> None:
    command = ["docker", "exec", "--interactive", node, "ctr", "--namespace=k8s.io", "images", "import"]
    await process.run([*command, "--snapshotter=overlayfs", "-"], stdin=archive)
