"""The images that agents need: the gateway container's and the built-in agents' workstation, and anyone's own."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sregym import process
from sregym.agents.spec import WORKSTATION, AgentSpec
from sregym.cluster.providers.images import BuiltImage, ImageContext, ImageRecipe
from sregym.errors import AgentError, CommandError

RELAY = "relay"
HERE = Path(__file__).parent
RELAY_MODULE = HERE.parents[1] / "apps" / "twin"
KUBECTL = "go.kube"
"""The build step whose program acts as kubectl when it is called so."""
BUILD_WITHIN_S = 1800.0
PULL_WITHIN_S = 900.0


@dataclass(frozen=True, kw_only=True)
class AgentImages:
    """References of our two images in Docker's store."""

    relay: str
    workstation: str

    @classmethod
    def of(cls, built: Mapping[str, BuiltImage]) -> AgentImages:
        """From the answer of `build_images`."""
        return cls(relay=built[RELAY].ref, workstation=built[WORKSTATION].ref)


def recipes() -> list[ImageRecipe]:
    """What the image build makes for agents. Neither image is ever loaded into a cluster."""
    return [
        ImageRecipe(
            name=RELAY,
            build=_stage_relay,
            inputs=[
                HERE / "relay.Dockerfile",
                RELAY_MODULE / "go.mod",
                RELAY_MODULE / "go.sum",
                RELAY_MODULE / "cmd" / "relay",
                RELAY_MODULE / "internal" / "relay",
                RELAY_MODULE / "internal" / "telemetry",
            ],
        ),
        ImageRecipe(name=WORKSTATION, build=_stage_workstation, inputs=[HERE / "workstation"], needs=[KUBECTL]),
    ]


async def _stage_relay(ctx: ImageContext) -> None:
    ctx.copy(HERE / "relay.Dockerfile", "Dockerfile")
    await ctx.go_build(RELAY_MODULE, ["./cmd/relay"])


async def _stage_workstation(ctx: ImageContext) -> None:
    source = HERE / "workstation"
    ctx.copy(source / "Dockerfile")
    for program in sorted((source / "oncall").glob("*.py")):
        ctx.copy(program, f"oncall/{program.name}")
    ctx.copy(ctx.result(KUBECTL) / "kube", "bin/kubectl")


async def image_of(spec: AgentSpec, images: AgentImages, *, log: Path) -> str:
    """The agent's image, built or pulled where it is not there. What the build said is in `log`.

    Raises AgentError where that fails.
    """
    if spec.image == WORKSTATION:
        return images.workstation
    if spec.dockerfile is not None:
        return await _build(spec.dockerfile, images, log)
    assert spec.image is not None
    if await _is_there(spec.image):
        return spec.image
    try:
        await process.run(["docker", "pull", spec.image], log=log, within=PULL_WITHIN_S)
    except CommandError as error:
        raise AgentError(
            f"agent {spec.name}: the image {spec.image} is not here and cannot be pulled\n{error}"
        ) from error
    return spec.image


async def _build(dockerfile: Path, images: AgentImages, log: Path) -> str:
    tag = f"agent:{hashlib.sha256(str(dockerfile).encode()).hexdigest()[:16]}"
    command: list[str | Path] = [
        "docker",
        "build",
        "--force-rm",  # a step that fails leaves its container else
        "--file",
        dockerfile,
        "--build-arg",
        f"BASE={images.workstation}",
        "--tag",
        tag,
    ]
    try:
        await process.run([*command, dockerfile.parent], env={"DOCKER_BUILDKIT": "0"}, log=log, within=BUILD_WITHIN_S)
    except CommandError as error:
        raise AgentError(f"the agent's image does not build from {dockerfile}\n{error}\nlog: {log}") from error
    return tag


async def _is_there(ref: str) -> bool:
    done = await process.run(["docker", "image", "inspect", "--format", "{{.Id}}", ref], check=False)
    return done.ok
