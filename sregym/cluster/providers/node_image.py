"""Steps that make the kind node image from source, where no registry answers.

debian (debootstrap) -> system images and the node's root file system (Dockerfiles under `kind/images`) -> the node
image: that file system with links to a store in which the system images, and those of the apps, lie unpacked.

kind's own files come from its Go module when the image is built (Apache-2.0; not in this repository).
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

import anyio
from pydantic import BaseModel, ConfigDict

from sregym import process
from sregym.cluster.providers.images import (
    DEBIAN,
    BuiltImage,
    ImageContext,
    ImageRecipe,
    forget_old,
    image_is_there,
    image_step,
    record_image,
    save,
)
from sregym.cluster.providers.pins import KIND_DATA, Pins
from sregym.cluster.providers.steps import KEY_LENGTH, Step, StepContext, fingerprint_of
from sregym.cluster.providers.tools import tool_steps
from sregym.cluster.waits import poll
from sregym.errors import ClusterError

NODE = "node-image"
NODE_RESULT = "node.json"
STORE_IN_NODE = "/kind/store"
STORE_PREFIX = "node-store-"
STORE_LABEL = "store"
SHARE_STORE = KIND_DATA / "node" / "share-store.sh"
ROOT = "kind-node-root"
IMAGES = KIND_DATA / "images"
DEFAULT_CNI = KIND_DATA / "manifests" / "default-cni.yaml"
SEARCH_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
KIND_MODULE = "kind-module"
KUBE_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")


def node_steps(pins: Pins, *, architecture: str, extra: Sequence[ImageRecipe] = ()) -> list[Step]:
    """Every step from nothing to the node image, in which also the images of `extra` are."""
    system = system_images(pins)
    return [
        debian_step(pins, architecture=architecture),
        *tool_steps(pins),
        kind_module_step(pins),
        *(image_step(recipe) for recipe in system),
        image_step(_root_recipe(pins)),
        *(image_step(recipe) for recipe in extra),
        node_step(contents=[recipe.step_name for recipe in (*system, *extra)]),
    ]


def debian_step(pins: Pins, *, architecture: str) -> Step:
    """The layer that all our images share: Debian's minimal base, imported into Docker."""

    async def run(context: StepContext) -> None:
        root = context.out / "root"
        debian = pins.debian
        bootstrap = ["debootstrap", "--variant=minbase", f"--arch={architecture}", "--include=ca-certificates"]
        await context.run([*bootstrap, debian.release, root, debian.mirror])
        _write_sources(root, pins)
        archive = context.out / "root.tar"
        left_out = ["--exclude=./var/cache/apt/*", "--exclude=./var/lib/apt/lists/*", "--exclude=./var/log/*"]
        await context.run(["tar", "--numeric-owner", *left_out, "-C", root, "-cf", archive, "."])
        ref = f"debian-base:{context.key[:KEY_LENGTH]}"
        await context.run(["docker", "import", "--change", f"ENV {SEARCH_PATH}", archive, ref])
        await record_image(context, ref)
        shutil.rmtree(root)
        archive.unlink()

    values = [pins.debian.model_dump_json(), architecture, "ca-certificates"]
    return Step(
        name=DEBIAN,
        title="Debian base layer",
        fingerprint=fingerprint_of(values=values),
        run=run,
        still_valid=image_is_there,
    )


def kind_module_step(pins: Pins) -> Step:
    """kind's files for a node, and its storage manifest with the image names filled in, from its Go module."""

    async def run(context: StepContext) -> None:
        module = f"sigs.k8s.io/kind@{pins.go.kind}"
        done = await context.run(["go", "mod", "download", "-json", module], cwd=KIND_DATA / "tools")
        source = Path(json.loads(done.stdout)["Dir"])
        files = context.out / "files"
        shutil.copytree(source / "images" / "base" / "files", files, copy_function=shutil.copyfile)
        for folder in (files, *filter(Path.is_dir, files.rglob("*"))):
            folder.chmod(0o755)  # folders of the module cache are read-only
        manifest = storage_manifest(source / "pkg" / "build" / "nodeimage" / "const_storage.go", pins)
        (context.out / "default-storage.yaml").write_text(manifest, encoding="utf-8")

    return Step(
        name=KIND_MODULE,
        title="files of kind's node image",
        fingerprint=fingerprint_of(values=[pins.go.kind, pins.tags.model_dump_json()]),
        run=run,
    )


def storage_manifest(go_source: Path, pins: Pins) -> str:
    """kind's storage manifest out of the Go constant that holds it, a raw string joined with the image names."""
    text = go_source.read_text(encoding="utf-8")
    found = re.search(r"const defaultStorageManifest = (`.*`)\n", text, re.DOTALL)
    if found is None:
        raise ClusterError(f"kind {pins.go.kind} keeps its storage manifest elsewhere than {go_source}")
    images = {"storageProvisionerImage": pins.tags.storage_provisioner, "storageHelperImage": pins.tags.storage_helper}
    return re.sub(r"` \+ (\w+) \+ `", lambda match: images[match[1]], found[1]).strip("`\n") + "\n"


def system_images(pins: Pins) -> list[ImageRecipe]:
    """The images that a fresh node must have."""
    kubernetes = pins.go.kubernetes
    return [
        _one_binary("kube", also=[f"registry.k8s.io/{program}:{kubernetes}" for program in KUBE_PROGRAMS]),
        _one_binary("etcd", also=[pins.tags.etcd]),
        _one_binary("coredns", also=[pins.tags.coredns]),
        _one_binary("kube-router", also=[pins.tags.kube_router]),
        _one_binary(
            "local-path",
            program="local-path-provisioner",
            also=[pins.tags.storage_provisioner, pins.tags.storage_helper],
        ),
        ImageRecipe(name="kind-system/pause", build=_stage_pause, inputs=[IMAGES / "pause"], also=[pins.tags.pause]),
    ]


class NodeImage(BaseModel):
    """An image for nodes, with the store that is mounted into each of them."""

    model_config = ConfigDict(frozen=True)
    ref: str
    id: str
    store: str | None = None
    """Docker volume with the unpacked images; None where the image carries its own (published ones)."""

    @staticmethod
    def read(result: Path) -> NodeImage:
        """The image that a node step has left in its result folder."""
        return NodeImage.model_validate_json((result / NODE_RESULT).read_text(encoding="utf-8"))


def node_step(*, contents: Sequence[str], root: str = "image." + ROOT) -> Step:
    """The node image: the image of the step `root`, with those of the steps `contents` unpacked in a shared store."""

    async def run(context: StepContext) -> None:
        images = [BuiltImage.read(context.results[need]) for need in contents]
        archive = await save(images, context.out)
        key = context.key[:KEY_LENGTH]
        # A new store each time: nodes of a cluster may still run on one that was built from the same key.
        store, ref = f"{STORE_PREFIX}{key}-{secrets.token_hex(3)}", f"{NODE}:{key}"
        await context.run(["docker", "volume", "create", store])
        await _fill_store(context, BuiltImage.read(context.results[root]).ref, archive, store, ref)
        archive.unlink()
        image = await record_image(context, ref)
        result = NodeImage(ref=ref, id=image.id, store=store)
        (context.out / NODE_RESULT).write_text(result.model_dump_json(), encoding="utf-8")
        await forget_old(NODE)
        await _forget_stores(context)

    return Step(
        name=NODE,
        title="node image",
        fingerprint=fingerprint_of(values=["store named in a label"], paths=[SHARE_STORE]),
        needs=(root, *contents),
        run=run,
        still_valid=_node_is_there,
    )


async def _fill_store(context: StepContext, root: str, archive: Path, store: str, ref: str) -> None:
    """Run the node's containerd, without the rest of the node, on the store; import and unpack; keep the links."""
    start = ["docker", "run", "--detach", "--privileged", "--entrypoint=sleep", f"--volume={store}:{STORE_IN_NODE}"]
    container = (await context.run([*start, root, "infinity"])).stdout.strip()
    inside = ["docker", "exec", "--interactive", container]
    ctr = [*inside, "ctr", "--namespace=k8s.io"]
    try:
        await context.run(["docker", "exec", "--detach", container, "containerd", f"--root={STORE_IN_NODE}"])
        await poll(lambda: _succeeds([*ctr, "version"]), what="containerd in the node image", every=0.2, within=60)
        await context.run([*ctr, "images", "import", "--snapshotter=overlayfs", "-"], stdin=archive)
        await context.run([*inside, "pkill", "-TERM", "containerd"])
        gone = [*inside, "sh", "-c", "! pgrep -x containerd"]
        await poll(lambda: _succeeds(gone), what="containerd has ended", every=0.1, within=30)
        share = [*inside, "sh", "-s", "--", STORE_IN_NODE, "/var/lib/containerd"]
        await context.run(share, stdin=SHARE_STORE)
        await context.run(["docker", "stop", "--time=0", container])
        entry = 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]'
        changes = [f"--change={entry}", f"--change=LABEL {STORE_LABEL}={store}"]
        await context.run(["docker", "commit", *changes, container, ref])
    finally:
        with anyio.CancelScope(shield=True):
            await context.run(["docker", "rm", "--force", container], check=False)


async def _forget_stores(context: StepContext) -> None:
    """Remove the stores that belong to no node image any more and that no node has mounted."""
    form = '{{index .Config.Labels "' + STORE_LABEL + '"}}'
    images = (await context.run(["docker", "image", "ls", "--quiet", NODE])).stdout.split()
    kept = await _inspect(context, ["docker", "image", "inspect", "--format", form], images)
    containers = (await context.run(["docker", "ps", "--all", "--quiet"])).stdout.split()
    # Nodes mount the store's folder, so Docker itself does not know that the volume is in use.
    used = await _inspect(context, ["docker", "inspect", "--format", "{{json .HostConfig.Binds}}"], containers)
    listed = await context.run(["docker", "volume", "ls", "--quiet", "--filter", f"name={STORE_PREFIX}"])
    for store in listed.stdout.split():
        if store not in kept and f"/{store}/" not in used:
            await context.run(["docker", "volume", "rm", store], check=False)


async def _inspect(context: StepContext, command: Sequence[str], things: Sequence[str]) -> str:
    """What Docker says of these; some may go away meanwhile, which makes the status worthless."""
    return (await context.run([*command, *things], check=False)).stdout if things else ""


async def _node_is_there(result: Path) -> bool:
    image = NodeImage.read(result)
    there = await _succeeds(["docker", "volume", "inspect", str(image.store)])
    return bool(there) and await image_is_there(result)


async def _succeeds(command: Sequence[str]) -> bool | None:
    return (await process.run(command, check=False)).ok or None


def _root_recipe(pins: Pins) -> ImageRecipe:
    async def build(context: ImageContext) -> None:
        module = context.result(KIND_MODULE)
        context.copy(IMAGES / "node")
        context.copy(module / "files", "kind-files")
        context.copy(context.result("go.kube") / "kube", "bin/kube")
        context.copy(context.result("go.crictl") / "crictl", "bin/crictl")
        manifests = context.context / "kind" / "manifests"
        manifests.mkdir(parents=True)
        shutil.copy(module / "default-storage.yaml", manifests)
        cni = DEFAULT_CNI.read_text(encoding="utf-8").replace("@IMAGE@", pins.tags.kube_router)
        (manifests / DEFAULT_CNI.name).write_text(cni, encoding="utf-8")
        (manifests.parent / "version").write_text(pins.go.kubernetes, encoding="utf-8")

    return ImageRecipe(
        name=ROOT,
        build=build,
        inputs=[IMAGES / "node", DEFAULT_CNI],
        pins=[pins.go.kubernetes, pins.tags.kube_router],
        needs=[KIND_MODULE, "go.kube", "go.crictl"],
        build_args={"PAUSE": pins.tags.pause},
    )


def _one_binary(name: str, *, also: Sequence[str], program: str | None = None) -> ImageRecipe:
    """An image of one compiled program; the Dockerfile is `kind/images/<name>`."""
    program = program or name

    async def build(context: ImageContext) -> None:
        context.copy(IMAGES / name)
        context.copy(context.result(f"go.{program}") / program, f"bin/{program}")

    return ImageRecipe(
        name=f"kind-system/{name}", build=build, inputs=[IMAGES / name], needs=[f"go.{program}"], also=also
    )


async def _stage_pause(context: ImageContext) -> None:
    context.copy(IMAGES / "pause")


def _write_sources(root: Path, pins: Pins) -> None:
    """The package sources of the base layer: the release with its updates and security fixes."""
    debian = pins.debian
    lines = [
        f"deb {debian.mirror} {debian.release} main",
        f"deb {debian.mirror} {debian.release}-updates main",
        f"deb {debian.mirror}-security {debian.release}-security main",
    ]
    (root / "etc" / "apt" / "sources.list").write_text("\n".join(lines) + "\n", encoding="utf-8")
