"""Images: their names on nodes, what decides their tags, which of them nodes lack. `docker` is played by a script."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sregym.cluster.providers.go_source import patched_module
from sregym.cluster.providers.images import (
    BuiltImage,
    ImageContext,
    ImageRecipe,
    forget_old,
    image_step,
    load_images,
    qualified,
)
from sregym.cluster.providers.steps import Step, StepContext
from sregym.progress import Recorded, Silent
from tests.unit.providers.conftest import Program

NEW = BuiltImage(ref="shop/cart:0123456789abcdef", id="sha256:new")


@pytest.mark.parametrize(
    ("ref", "full"),
    [
        ("busybox:1", "docker.io/library/busybox:1"),
        ("shop/cart:1", "docker.io/shop/cart:1"),
        ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
        ("localhost/cart:1", "localhost/cart:1"),
        ("registry:5000/cart:1", "registry:5000/cart:1"),
    ],
)
def test_containerd_knows_images_by_full_names(ref: str, full: str) -> None:
    assert qualified(ref) == full


def test_pods_use_the_fixed_reference_where_there_is_one() -> None:
    assert NEW.node_refs == (NEW.ref,)
    assert NEW.model_copy(update={"also": ("shop/cart:1.0",)}).node_refs == ("shop/cart:1.0",)


async def nothing(context: ImageContext) -> None: ...


def test_a_tag_depends_on_inputs_pins_and_target(tmp_path: Path) -> None:
    source = tmp_path / "Dockerfile"
    source.write_text("FROM scratch")
    recipe = ImageRecipe(name="shop/cart", build=nothing, inputs=[source])
    before = image_step(recipe).fingerprint
    assert image_step(recipe).fingerprint == before
    assert image_step(ImageRecipe(name="shop/cart", build=nothing, inputs=[source], pins=["1"])).fingerprint != before
    assert image_step(ImageRecipe(name="shop/cart", build=nothing, inputs=[source], target="x")).fingerprint != before
    source.write_text("FROM scratch\n")
    assert image_step(recipe).fingerprint != before


PATCH = """--- a/sub/main.go
+++ b/sub/main.go
@@ -1 +1 @@
-package theirs
+package ours
"""


async def test_a_module_is_copied_out_of_the_read_only_cache_and_patched(program: Program, tmp_path: Path) -> None:
    cache, work = tmp_path / "cache", tmp_path / "work"
    (cache / "sub").mkdir(parents=True)
    (cache / "sub" / "main.go").write_text("package theirs\n")
    (cache / "sub" / "main.go").chmod(0o444)
    (cache / "sub").chmod(0o555)
    (tmp_path / "x.patch").write_text(PATCH)
    program("go", f"""echo '{{"Dir": "{cache}", "Version": "v1.2.3"}}'""")
    step = Step(name="s", title="s", fingerprint="", run=nothing)  # type: ignore[arg-type]  # never run
    context = StepContext(
        step=step, key="k", out=tmp_path, work=work, results={}, log=tmp_path / "log", note=lambda _: None
    )
    for _ in range(2):
        version = await patched_module(
            context, "example.org/m", pinned_in=tmp_path, patch=tmp_path / "x.patch", to=work / "source"
        )
        assert version == "v1.2.3"
        assert (work / "source" / "sub" / "main.go").read_text() == "package ours\n"


def node_with(images: dict[str, str]) -> str:
    """A `docker` whose nodes have these images (full reference to id)."""
    listed = json.dumps({"images": [{"id": identity, "repoTags": [ref]} for ref, identity in images.items()]})
    return f"""case "$*" in
    *crictl*) echo '{listed}' ;;
    save*) touch "$3" ;;
    *import*) cat >/dev/null ;;
    esac"""


async def test_images_that_are_there_are_not_brought_again(program: Program, tmp_path: Path) -> None:
    calls = program("docker", node_with({f"docker.io/{NEW.ref}": NEW.id}))
    assert await load_images(["node"], [NEW], cache=tmp_path, progress=Silent()) == []
    assert "save" not in calls.read_text()


@pytest.mark.parametrize("there", [{}, {f"docker.io/{NEW.ref}": "sha256:old"}], ids=["absent", "another by that name"])
async def test_images_that_nodes_lack_are_brought(program: Program, tmp_path: Path, there: dict[str, str]) -> None:
    calls = program("docker", node_with(there))
    progress = Recorded()
    assert await load_images(["one", "two"], [NEW], cache=tmp_path, progress=progress) == [NEW]
    assert calls.read_text().count("import") == 2
    assert calls.read_text().count("save") == 1
    assert not list((tmp_path / "archives").iterdir())
    assert [step.step for step in progress.ended] == ["load 1 image(s) into 2 node(s)"]


async def test_no_images_ask_nothing(program: Program, tmp_path: Path) -> None:
    calls = program("docker", "exit 1")
    assert await load_images(["node"], [], cache=tmp_path, progress=Silent()) == []
    assert not calls.exists()


async def test_old_versions_go_but_not_those_in_use_or_named_by_people(program: Program) -> None:
    tags = ["3" * 16, "2" * 16, "latest", "1" * 16, "0" * 16]
    calls = program(
        "docker",
        f"""case "$1 $2" in
        "image ls") printf '%s\\n' {" ".join(tags)} ;;
        "ps --all") echo shop/cart:{"1" * 16} ;;
        esac""",
    )
    assert await forget_old("shop/cart", keep=2) == ["0" * 16]
    assert calls.read_text().splitlines()[-1] == f"image rm shop/cart:{'0' * 16}"
