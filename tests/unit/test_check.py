"""One look at the present: four states, and how they compose. Unknown is never healthy and never unhealthy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest

from sregym.cluster.check import AllOf, AnyOf, Check, Look, Not, Observation, State
from sregym.errors import DefinitionError, Unavailable

NOWHERE = cast(Look, None)
H, N, C, U = State.HOLDS, State.NOT_YET, State.CANNOT, State.UNKNOWN


@dataclass(frozen=True)
class Says(Check):
    state: State

    async def look(self, at: Look) -> Observation:
        return Observation(check=self.title, state=self.state, reason=f"says {self.state}")


@dataclass(frozen=True)
class Fails(Check):
    error: Exception

    async def look(self, at: Look) -> Observation:
        raise self.error


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((), H),
        ((H, H), H),
        ((H, N), N),
        ((H, U), U),
        ((N, U), N),
        ((N, C), C),
        ((U, C), C),
    ],
)
async def test_all_of(parts: tuple[State, ...], expected: State) -> None:
    assert (await AllOf(*map(Says, parts)).observe(NOWHERE)).state is expected


@pytest.mark.parametrize(
    ("parts", "expected"),
    [((N, H), H), ((U, H), H), ((C, H), H), ((N, U), U), ((N, C), N), ((C, C), C)],
)
async def test_any_of(parts: tuple[State, ...], expected: State) -> None:
    assert (await AnyOf(*map(Says, parts)).observe(NOWHERE)).state is expected


@pytest.mark.parametrize(("part", "expected"), [(H, N), (N, H), (C, H), (U, U)])
async def test_not(part: State, expected: State) -> None:
    assert (await Not(Says(part)).observe(NOWHERE)).state is expected


@pytest.mark.parametrize("error", [Unavailable("down"), TimeoutError("slow"), ConnectionResetError("reset")])
async def test_a_look_that_failed_is_unknown_and_says_why(error: Exception) -> None:
    seen = await Fails(error).observe(NOWHERE)
    assert seen.state is U
    assert str(error) in seen.reason


async def test_a_failed_look_inside_not_stays_unknown() -> None:
    assert (await Not(Fails(Unavailable("down"))).observe(NOWHERE)).state is U


async def test_a_mistake_in_a_check_is_raised() -> None:
    with pytest.raises(DefinitionError):
        await Fails(DefinitionError("wrong")).observe(NOWHERE)


async def test_the_leaves_keep_every_reason() -> None:
    seen = await AllOf(Says(H), AnyOf(Says(N), Says(C))).observe(NOWHERE)
    assert [leaf.state for leaf in seen.leaves()] == [H, N, C]
    assert "says not-yet" in seen.reason
