"""Many sessions on one event loop: resets take their turns, and steps go on between their pieces."""

from __future__ import annotations

import anyio
from anyio.lowlevel import checkpoint

from sregym.incidentops.models import ToolCallAction
from sregym.incidentops.server.environment import IncidentEnvironment

RESETS = 6


async def test_a_session_steps_on_while_others_reset_one_after_the_other() -> None:
    turn, ended = anyio.Lock(), []
    steps_between: list[int] = [0]
    playing = IncidentEnvironment(turn=turn)
    await playing.reset_async(seed=0)

    async def reset(number: int) -> None:
        await IncidentEnvironment(turn=turn).reset_async(seed=number)
        ended.append(number)
        steps_between.append(0)

    async with anyio.create_task_group() as group:
        for number in range(RESETS):
            group.start_soon(reset, number)
        while len(ended) < RESETS:
            if playing.state.status != "finished":
                await playing.step_async(ToolCallAction(tool_name="get_alerts"))
            steps_between[-1] += 1
            await checkpoint()
    assert sorted(ended) == list(range(RESETS))
    assert all(count >= 3 for count in steps_between[:RESETS])


async def test_a_reset_in_pieces_gives_what_one_in_one_piece_gives() -> None:
    pieces, whole = IncidentEnvironment(), IncidentEnvironment()
    assert await pieces.reset_async(seed=7) == whole.reset(seed=7)
    action = ToolCallAction(tool_name="search_logs", arguments={"service": "db", "query": ""})
    assert pieces.step(action) == whole.step(action)
