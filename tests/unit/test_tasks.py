"""A context that is entered and left in a task of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from sregym.cluster.tasks import beside


class TroubleError(Exception):
    """What goes wrong."""


@asynccontextmanager
async def noted(told: list[str], *, enters: bool = True, leaves: bool = True) -> AsyncIterator[str]:
    async with anyio.create_task_group() as group:
        await anyio.lowlevel.checkpoint()
        if not enters:
            raise TroubleError
        told.append("entered")
        try:
            yield "value"
        finally:
            await anyio.lowlevel.checkpoint()
            told.append("left")
        group.cancel_scope.cancel()
        if not leaves:
            raise TroubleError


async def test_the_body_goes_on_and_leaves_it_before_what_it_entered_later() -> None:
    told: list[str] = []
    async with beside(noted(told)) as held:
        assert told == []
        assert await held.entered() == "value"
        async with anyio.create_task_group():
            await held.leave()
            assert told == ["entered", "left"]
        await held.leave()
    assert told == ["entered", "left"]


async def test_it_is_left_with_the_body() -> None:
    told: list[str] = []
    async with beside(noted(told)) as held:
        await held.entered()
    assert told == ["entered", "left"]


async def test_it_is_left_with_a_body_that_fails() -> None:
    told: list[str] = []

    async def body() -> None:
        async with beside(noted(told)) as held:
            await held.entered()
            raise TroubleError

    with pytest.raises(TroubleError):
        await body()
    assert told == ["entered", "left"]


async def test_a_body_that_never_waits_for_it_ends_too() -> None:
    told: list[str] = []
    async with beside(noted(told)):
        pass
    assert told == ["entered", "left"]


async def test_what_goes_wrong_at_its_beginning_ends_the_body() -> None:
    told: list[str] = []
    with pytest.raises(TroubleError):
        async with beside(noted(told, enters=False)):
            await anyio.sleep_forever()


async def test_what_goes_wrong_with_its_end_ends_the_body() -> None:
    told: list[str] = []

    async def body() -> None:
        async with beside(noted(told, leaves=False)) as held:
            await held.entered()
            await held.leave()
            told.append("went on")

    with pytest.raises(TroubleError):
        await body()
    assert told == ["entered", "left"]
