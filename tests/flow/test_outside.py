"""An agent outside our container: what it is told, what it leaves, and that it is shut out at the end."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import httpx

from sregym.agents.outside import OutsideAgent, outside_world
from sregym.agents.spec import load_agent
from sregym.cluster.journal import Journal, open_journals
from sregym.gateway.desk import Desk, Stage
from sregym.gateway.server import TcpPorts
from sregym.gateway.upstream import ClusterAccess
from tests.flow.test_gateway import APP, api_server
from tests.support.servers import kubeconfig, raw_server

PROBLEM = "k8s_target_port-misconfig"


async def test_it_is_told_where_to_work_and_nothing_of_the_problem(tmp_path: Path) -> None:
    attempt, state = tmp_path / PROBLEM / "run_1", tmp_path / "s"
    attempt.mkdir(parents=True)
    desk, met = Desk(APP), list[OutsideAgent]()
    desk.open()
    journal = Journal.create(state, identity="c", attempt="one")
    async with raw_server(api_server) as server:
        world = outside_world(
            spec=load_agent("external"),
            access=ClusterAccess(kubeconfig=kubeconfig(tmp_path, server)),
            desk=desk,
            attempt_dir=attempt,
            state_dir=state,
            journal=journal,
            ports=TcpPorts(api=0, kube=0),
            greet=met.append,
        )
        async with world as agent, httpx.AsyncClient() as client:
            await agent.start()
            assert met == [agent]
            told = agent.invitation
            assert PROBLEM not in f"{told.environment}{told.kubeconfig}{told.kubeconfig.read_text()}{told.api_url}"
            logs = Path(told.environment["AGENT_LOGS_DIR"])
            (logs / "notes").write_text("seen")
            (logs / "link").symlink_to("/etc/passwd")
            os.mkfifo(logs / "pipe")
            said = await client.post(f"{told.api_url}/submit", json={"solution": "a guess"})
            assert said.status_code == 200
            assert desk.status() is Stage.MITIGATION
            await agent.withdraw()
            assert (await client.get(f"{told.api_url}/status")).status_code == 401
    journal.close()
    kept = [path async for path in anyio.Path(attempt / "agent" / "logs").iterdir()]
    assert [(path.name, await path.read_text()) for path in kept] == [("notes", "seen")]
    assert not await anyio.Path(logs).exists()
    assert not open_journals(state)
