"""How the stack's images are made where none can be pulled: programs compiled from their Go modules, two of Debian's.

Their sources are pinned under `kind/observability` and in `kind/tools`. What is compiled is kept small: Jaeger has
memory as its only store; Prometheus would take a quarter of the whole build, so it is Debian's, which cannot ask
Kubernetes for its targets and is told them by `discovery`.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from sregym.cluster.providers.go_source import patched_module
from sregym.cluster.providers.images import ImageContext, ImageRecipe, go_build
from sregym.cluster.providers.pins import KIND_DATA
from sregym.cluster.providers.steps import Lane, Step, StepContext, fingerprint_of
from sregym.cluster.providers.tools import Program, program_step
from sregym.observability.stack import images_of

DATA = KIND_DATA / "observability"
JAEGER = DATA / "jaeger"
JAEGER_MODULE = "github.com/jaegertracing/jaeger"
JAEGER_STEP = "go.all-in-one"
LOGS = DATA / "logs"
NEUTRAL = ("-trimpath",)
"""Agents may look into images: those must not tell where they were built."""
PROGRAMS = (
    Program(
        name="victoria-logs",
        package="github.com/VictoriaMetrics/VictoriaLogs/app/victoria-logs",
        module=LOGS,
        flags=NEUTRAL,
    ),
    Program(name="vlagent", package="github.com/VictoriaMetrics/VictoriaLogs/app/vlagent", module=LOGS, flags=NEUTRAL),
    # These share Kubernetes' libraries with the programs of kind/tools, compiled with the same flags.
    Program(
        name="metrics-server",
        package="sigs.k8s.io/metrics-server/cmd/metrics-server",
        version="v0.8.0",
        version_variable="k8s.io/component-base/version.gitVersion",
    ),
    Program(name="objectstate", package="./objectstate"),
    Program(name="discovery", package="./discovery"),
)


def steps() -> list[Step]:
    """The steps that the recipes need beside those of the node image."""
    return [_jaeger_step(), *(program_step(program) for program in PROGRAMS)]


def recipes() -> list[ImageRecipe]:
    """The images of the lite profile, under the references that the manifests name."""
    return [
        _of_debian("prometheus"),
        _compiled("service-discovery", need="go.discovery"),
        _compiled("kube-state-metrics", need="go.objectstate"),
        _compiled("metrics-server", need="go.metrics-server"),
        _compiled("jaeger", need=JAEGER_STEP),
        _compiled("victoria-logs", need="go.victoria-logs"),
        _compiled("vlagent", need="go.vlagent"),
        _of_debian("node-exporter"),
    ]


def _compiled(key: str, *, need: str) -> ImageRecipe:
    """An image of one static program and nothing else."""
    program = need.removeprefix("go.")
    dockerfile = f'ARG BASE\nFROM scratch\nCOPY bin/{key} /bin/{key}\nENTRYPOINT ["/bin/{key}"]\n'

    async def build(context: ImageContext) -> None:
        (context.context / "Dockerfile").write_text(dockerfile, encoding="utf-8")
        context.copy(context.result(need) / program, f"bin/{key}")

    name, _ = _reference(key)
    return ImageRecipe(name=name, build=build, pins=[dockerfile], needs=[need], also=_tags(key))


def _of_debian(key: str) -> ImageRecipe:
    """An image of a program that Debian packages."""
    source = DATA / "images" / key

    async def build(context: ImageContext) -> None:
        context.copy(source)

    name, _ = _reference(key)
    return ImageRecipe(name=name, build=build, inputs=[source], also=_tags(key))


def _reference(key: str) -> tuple[str, str]:
    name, _, tag = images_of("lite")[key].rpartition(":")
    return name, tag


def _tags(key: str) -> Sequence[str]:
    return [images_of("lite")[key]]


def _jaeger_step() -> Step:
    async def run(context: StepContext) -> None:
        # Without the stores that it is not used with: they are two thirds of what it is made of.
        source = context.work / "source"
        patch = JAEGER / "memory-only.patch"
        version = await patched_module(context, JAEGER_MODULE, pinned_in=JAEGER, patch=patch, to=source)
        ldflags = f"-s -w -X {JAEGER_MODULE}/internal/version.latestVersion={version}"
        await go_build(context, source, ["./cmd/all-in-one"], out=context.out, ldflags=ldflags, flags=NEUTRAL)
        shutil.rmtree(source)

    return Step(
        name=JAEGER_STEP,
        title="compile jaeger",
        fingerprint=fingerprint_of(paths=[JAEGER]),
        run=run,
        lane=Lane.CPU,
    )
