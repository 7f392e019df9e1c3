"""A real kubectl in the agent's container does everything that an engineer does with it; the list is printed."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sregym.agents.spec import AgentSpec
from tests.live.gateway_site import POD_IMAGE, GatewaySite, gateway_site
from tests.live.test_agent_world import play, world

pytestmark = [pytest.mark.live, pytest.mark.acceptance, pytest.mark.timeout(1500)]

SCRIPT = Path(__file__).with_name("kubectl_script.sh")


@pytest.fixture
async def site(request: pytest.FixtureRequest) -> AsyncIterator[GatewaySite]:
    async with gateway_site(request.config) as found:
        yield found


async def test_kubectl_in_the_agents_container(site: GatewaySite, tmp_path: Path) -> None:
    spec = AgentSpec(
        name="engineer",
        description="A script.",
        image="workstation",
        command=("bash", "-c", SCRIPT.read_text(encoding="utf-8")),
        environment={"IMAGE": POD_IMAGE},
    )
    async with world(site, tmp_path, spec) as played:
        await play(played)
        lines = played.output().splitlines()
    done = [line.split()[1] for line in lines if line.startswith("DONE ")]
    print("\n" + ", ".join(done))  # noqa: T201 - the list is what people want to see
    asked = len(re.findall(r"(?m)^(?:.* then )?try ", SCRIPT.read_text(encoding="utf-8")))
    assert [line for line in lines if line.startswith("FAILED")] == []
    assert len(done) == asked, lines
