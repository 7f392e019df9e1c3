"""Pull the node image, or build it? Decided by asking, once a process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

import httpx

from sregym import process
from sregym.cluster.providers.pins import Pins

REGISTRY_WITHIN_S = 3.0


class ImageSource(StrEnum):
    """What the user wants."""

    AUTO = "auto"
    PULL = "pull"
    BUILD = "build"


class NodeSource(StrEnum):
    """What is done."""

    PRESENT = "present"
    """The published image is in Docker's store."""
    PULL = "pull"
    BUILD = "build"


@dataclass(frozen=True, kw_only=True)
class Decision:
    """How the node image is had, and why."""

    source: NodeSource
    why: str


Probe = Callable[[], Awaitable[bool]]


async def decide(wanted: ImageSource, *, present: Probe, registry_answers: Probe) -> Decision:
    """Decide between the published image and one built here."""
    if wanted is ImageSource.BUILD:
        return Decision(source=NodeSource.BUILD, why="asked for")
    if await present():
        return Decision(source=NodeSource.PRESENT, why="the published image is here")
    if wanted is ImageSource.PULL:
        return Decision(source=NodeSource.PULL, why="asked for")
    if await registry_answers():
        return Decision(source=NodeSource.PULL, why="the image registry answers")
    return Decision(source=NodeSource.BUILD, why="no image registry answers")


def image_present(ref: str) -> Probe:
    """Does Docker have this image?"""

    async def probe() -> bool:
        return (await process.run(["docker", "image", "inspect", ref], check=False)).ok

    return probe


def registry_answers(pins: Pins, *, transport: httpx.AsyncBaseTransport | None = None) -> Probe:
    """Does the registry speak to us? 401 is its way to say yes before a token is asked for."""

    async def probe() -> bool:
        try:
            async with httpx.AsyncClient(timeout=REGISTRY_WITHIN_S, transport=transport) as client:
                reply = await client.get(pins.pulled.registry)
        except httpx.HTTPError:
            return False
        return reply.status_code in (200, 401) and "docker-distribution-api-version" in reply.headers

    return probe
