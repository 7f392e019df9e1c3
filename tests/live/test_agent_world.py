"""Agents in their containers: isolation, hand-over, submission, withdrawal, and agents that are unusable."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

from sregym import process
from sregym.agents.runtime import ReferencePayload, RunningAgent, agent_world
from sregym.agents.spec import AgentSpec, load_agent
from sregym.api.repair import KubectlCall
from sregym.errors import AgentError
from sregym.gateway.desk import AppInfo, Desk, Stage
from sregym.gateway.models import ModelAccess
from tests.live.gateway_site import GatewaySite, docker_names, gateway_site
from tests.support.scripted_model import COMPLETION_TOKENS, PROMPT_TOKENS, Say, Use, scripted_model

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]


@dataclass
class Notes:
    """A journal that only remembers."""

    noted: list[tuple[str, str]] = field(default_factory=list)
    undone: list[str] = field(default_factory=list)

    def note_host(self, kind: str, name: str, *, section: str = "", **details: Any) -> str:
        self.noted.append((kind, name))
        return f"{kind} {name}"

    def mark(self, entry: str, mark: Literal["done", "void", "undone"]) -> None:
        self.undone.append(entry)


@dataclass
class Played:
    """An agent's session as a test sees it."""

    agent: RunningAgent
    desk: Desk
    folder: Path

    def output(self) -> str:
        return (self.folder / "agent" / "output.log").read_text(encoding="utf-8")


@pytest.fixture
async def site(request: pytest.FixtureRequest) -> AsyncIterator[GatewaySite]:
    async with gateway_site(request.config) as found:
        yield found


@asynccontextmanager
async def world(
    site: GatewaySite,
    folder: Path,
    spec: AgentSpec,
    *,
    model: ModelAccess | None = None,
    payload: ReferencePayload | None = None,
    notes: Notes | None = None,
    **more: Any,
) -> AsyncIterator[Played]:
    app = AppInfo(app_name="web", namespace=site.namespace, namespaces=(site.namespace,), descriptions="A web.")
    desk = Desk(app)
    async with agent_world(
        spec=spec,
        images=site.images,
        access=site.access,
        desk=desk,
        attempt_dir=folder,
        state_dir=folder / "state",
        journal=notes or Notes(),
        model=model,
        reference_payload=payload,
        **more,
    ) as agent:
        yield Played(agent, desk, folder)


async def play(played: Played) -> None:
    """Hand over, wait for the agent's end, withdraw."""
    played.desk.open()
    await played.agent.start()
    await played.agent.wait_finished()
    await played.agent.withdraw()


def shell_agent(script: str, **more: Any) -> AgentSpec:
    return AgentSpec(name="probe", description="A script.", image="workstation", command=("bash", "-c", script), **more)


def reach(host: str, port: int) -> str:
    """Shell words that say whether a TCP port answers."""
    return f"(timeout 3 bash -c 'echo > /dev/tcp/{host}/{port}' 2>/dev/null && echo OPEN {host}:{port}); "


async def test_a_session_from_hand_over_to_withdrawal(site: GatewaySite, tmp_path: Path) -> None:
    notes = Notes()
    async with world(site, tmp_path, load_agent("nop"), notes=notes) as played:
        await play(played)
        taken = played.desk.taken(Stage.DIAGNOSIS)
        assert taken is not None
        assert taken.solution == "unknown"
        assert played.desk.status() is Stage.TEARING_DOWN
        assert "The diagnosis was taken" in played.output()
    assert {name for _, name in notes.noted} & await docker_names() == set()
    assert sorted(notes.undone) == sorted(f"{kind} {name}" for kind, name in notes.noted)
    assert list((tmp_path / "state" / "gw").iterdir()) == []


async def test_nothing_but_the_gateway_answers(site: GatewaySite, tmp_path: Path) -> None:
    """Host services, nodes, the API server, other containers, metadata, names outside, IPv6."""
    nodes = await process.run(
        ["docker", "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{.Gateway}} {{end}}",
         *site.handle.node_names]
    )  # fmt: skip
    async with await anyio.create_tcp_listener(local_host="0.0.0.0", local_port=0) as service:
        port = service.extra(anyio.abc.SocketAttribute.local_port)
        script = "".join(reach(address, 6443) + reach(address, 10250) for address in set(nodes.stdout.split()))
        own = "$(hostname -i | sed 's/[0-9]*$/1/')"  # the address that the host would have on the agent's network
        hosts = [*set(nodes.stdout.split()), "172.17.0.1", own]
        script += "".join(reach(host, port) + reach(host, 22) for host in hosts)
        script += reach("169.254.169.254", 80) + reach("1.1.1.1", 53) + reach("10.96.0.1", 443)
        script += "getent hosts pypi.org && echo RESOLVED; getent hosts host.docker.internal && echo RESOLVED; "
        script += "test -s /proc/net/if_inet6 && echo HAS-IPV6; "
        script += reach("gateway", 8000) + reach("gateway", 22) + reach("gateway", 8080) + "kubectl get pods -o name"
        async with world(site, tmp_path, shell_agent(script)) as played:
            await play(played)
            said = played.output()
    assert [line for line in said.splitlines() if line.startswith(("OPEN", "RESOLVED", "HAS"))] == ["OPEN gateway:8000"]
    assert "pod/web-" in said


async def test_the_container_has_no_rights_and_shows_nothing_of_ours(site: GatewaySite, tmp_path: Path) -> None:
    script = (
        "id; grep -i cap /proc/self/status; touch /x 2>&1; env; cat /proc/self/mountinfo /proc/1/cmdline; ls -R /opt; "
        "ls -la /var/run/docker.sock 2>&1; cat /oncall/kube/config; ln -s /etc/passwd $AGENT_LOGS_DIR/link; "
        "mkfifo $AGENT_LOGS_DIR/pipe; echo kept > $AGENT_LOGS_DIR/kept; grep NoNewPrivs /proc/self/status"
    )
    async with world(site, tmp_path, shell_agent(script)) as played:
        await play(played)
        said = played.output()
        logs = tmp_path / "agent" / "logs"
        assert sorted(path.name for path in logs.iterdir()) == ["kept"]
    assert "uid=1000" in said
    assert "CapEff:\t0000000000000000" in said
    assert "CapBnd:\t0000000000000000" in said
    assert "NoNewPrivs:\t1" in said
    assert "/x': Read-only file system" in said
    assert "docker.sock': No such file" in said
    ours = [line for line in said.splitlines() if "sregym" in line.lower()]
    assert [line for line in ours if not line.startswith("SREGYM_ARTIFACT_ID=")] == []
    assert str(tmp_path) not in said
    assert "token" not in said.lower()


async def test_a_withdrawn_agent_is_stopped_and_refused(site: GatewaySite, tmp_path: Path) -> None:
    endless = "while true; do kubectl create configmap c$RANDOM -o name; sleep 0.2; done"
    async with world(site, tmp_path, shell_agent(endless)) as played:
        played.desk.open()
        await played.agent.start()
        await anyio.sleep(3)
        await played.agent.withdraw()
        await played.agent.withdraw()
        made = await process.run(
            [
                *site.kubectl,
                "--kubeconfig",
                site.handle.kubeconfig,
                "-n",
                site.namespace,
                "get",
                "configmaps",
                "-o",
                "name",
            ]
        )
        await anyio.sleep(2)
        later = await process.run(
            [
                *site.kubectl,
                "--kubeconfig",
                site.handle.kubeconfig,
                "-n",
                site.namespace,
                "get",
                "configmaps",
                "-o",
                "name",
            ]
        )
    assert made.stdout == later.stdout
    assert "configmap/c" in played.output()


async def test_an_agent_that_leaves_without_handing_in(site: GatewaySite, tmp_path: Path) -> None:
    async with world(site, tmp_path, shell_agent("echo bored; exit 5")) as played:
        played.desk.open()
        await played.agent.start()
        ended = await played.agent.wait_finished()
        await played.agent.withdraw()
        assert (ended.code, ended.reason) == (5, "ended with status 5")
        assert played.desk.taken(Stage.DIAGNOSIS) is None


async def test_an_agent_that_eats_its_memory(site: GatewaySite, tmp_path: Path) -> None:
    greedy = "python3 -c 'x = bytearray(400 * 1024 * 1024); print(len(x))'"
    spec = shell_agent(f"exec {greedy}", limits={"memory": "64m"})
    async with world(site, tmp_path, spec) as played:
        played.desk.open()
        await played.agent.start()
        ended = await played.agent.wait_finished()
        assert ended.oom_killed or ended.code == 137
        await played.agent.withdraw()


async def test_what_an_agent_writes_is_bounded_and_kept(site: GatewaySite, tmp_path: Path) -> None:
    script = (
        "echo first > $AGENT_LOGS_DIR/small; dd if=/dev/zero of=$AGENT_LOGS_DIR/big bs=1M count=100 2>&1 | tail -1;"
        " dd if=/dev/zero of=/tmp/big bs=1M count=100 2>&1 | tail -1; echo done"
    )
    spec = shell_agent(script, limits={"memory": "128m", "scratch": "16m", "logs": "16m"})
    async with world(site, tmp_path, spec) as played:
        await play(played)
        assert "done" in played.output()
    logs = tmp_path / "agent" / "logs"
    assert (logs / "small").read_text() == "first\n"
    assert (logs / "big").stat().st_size <= 16 * 1024 * 1024


@pytest.mark.parametrize("how", ["kill", "rm"])
async def test_a_gateway_container_that_is_gone_comes_back(site: GatewaySite, tmp_path: Path, how: str) -> None:
    answers = "until curl -sf http://$API_HOSTNAME:$API_PORT/status; do sleep 0.2; done; echo"
    script = (
        f"echo kept > $AGENT_LOGS_DIR/mark; {answers}; until test -e /tmp/go; do sleep 0.1; done; {answers}; echo end"
    )
    notes = Notes()
    async with world(site, tmp_path, shell_agent(script), notes=notes) as played:
        played.desk.open()
        await played.agent.start()
        gateway, agent = (
            next(name for _, name in notes.noted if name.endswith(f"-{whose}")) for whose in ("gateway", "agent")
        )
        await process.run(["docker", *(["kill"] if how == "kill" else ["rm", "--force"]), gateway])
        await process.run(["docker", "exec", agent, "touch", "/tmp/go"])
        with anyio.fail_after(90):
            ended = await played.agent.wait_finished()
        await played.agent.withdraw()
        assert ended.code == 0
        assert played.output().count('{"stage":"diagnosis"}') == 2
    assert (tmp_path / "agent" / "logs" / "mark").read_text() == "kept\n"
    assert not {gateway, agent} & await docker_names()


@pytest.mark.parametrize("payload", [False, True])
async def test_a_command_that_does_not_exist_is_said_so(site: GatewaySite, tmp_path: Path, payload: bool) -> None:
    more: dict[str, Any] = {"reads_payload": True, "leaderboard": False} if payload else {}
    spec = AgentSpec(name="typo", description="x", image="workstation", command=("/no/such/program",), **more)
    reference = ReferencePayload(diagnosis="x", calls=()) if payload else None
    async with world(site, tmp_path, spec, payload=reference) as played:
        with pytest.raises(AgentError, match=r"typo cannot be started.*/no/such/program.*No such file"):
            await play(played)


async def test_images_that_cannot_be_had(site: GatewaySite, tmp_path: Path) -> None:
    missing = AgentSpec(name="away", description="x", image="registry.invalid/away:1")
    with pytest.raises(AgentError, match="cannot be pulled"):
        async with world(site, tmp_path, missing):
            pass
    (tmp_path / "agent.yaml").write_text(
        "{name: broken, description: x, dockerfile: Dockerfile, command: [bash]}", encoding="utf-8"
    )
    (tmp_path / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\nRUN exit 9\n", encoding="utf-8")
    with pytest.raises(AgentError, match="does not build"):
        async with world(site, tmp_path, load_agent(str(tmp_path))):
            pass


async def test_ones_own_dockerfile(site: GatewaySite, tmp_path: Path) -> None:
    (tmp_path / "agent.yaml").write_text(
        "{name: own, description: x, dockerfile: Dockerfile, environment: {COLOUR: blue}}", encoding="utf-8"
    )
    (tmp_path / "Dockerfile").write_text(
        'ARG BASE\nFROM ${BASE}\nCMD ["bash", "-c", "echo $COLOUR; touch /oncall/logs/x && kubectl get pods"]\n',
        encoding="utf-8",
    )
    async with world(site, tmp_path, load_agent(str(tmp_path))) as played:
        await play(played)
        assert played.output().startswith("blue\n")
        assert "web-" in played.output()


async def test_the_reference_agent_does_what_it_is_told(site: GatewaySite, tmp_path: Path) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}, "data": {"a": "b" * 200_000}}
    calls = [
        KubectlCall(argv=("create", "-f", "-"), stdin=json.dumps(config)),
        KubectlCall(argv=("patch", "configmap", "made", "--type", "merge", "-p", '{"data":{"c":"d"}}')),
    ]
    payload = ReferencePayload(diagnosis="it is the web", calls=calls)
    async with world(site, tmp_path, load_agent("reference"), payload=payload) as played:
        await play(played)
        taken = played.desk.taken(Stage.DIAGNOSIS)
        assert taken is not None
        assert taken.solution == "it is the web"
        assert played.desk.taken(Stage.MITIGATION) is not None
    assert "configmap/made created" in played.output()
    assert "configmap/made patched" in played.output()


async def test_react_plays_a_scripted_model_through_the_relay(
    site: GatewaySite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_API_KEY", "sk-very-secret")
    turns: list[Say | Use] = [
        Use("bash", {"command": "kubectl get pods; env | grep -i key"}),
        Use("submit", {"solution": "the deployment web lacks a label"}),
        Use("bash", {"command": "kubectl label deployment web repaired=yes"}),
        Use("submit", {"solution": ""}),
        Say("done"),
    ]
    async with scripted_model(turns) as scripted:
        model = ModelAccess(model="local/scripted", api_base=scripted.base)
        async with world(site, tmp_path, load_agent("react"), model=model) as played:
            await play(played)
            taken = played.desk.taken(Stage.DIAGNOSIS)
            assert taken is not None
            assert taken.solution == "the deployment web lacks a label"
            assert played.desk.taken(Stage.MITIGATION) is not None
            usage = played.agent.usage()
    assert set(scripted.keys) == {"Bearer sk-very-secret"}
    assert (usage.calls, usage.prompt_tokens, usage.completion_tokens) == (4, 4 * PROMPT_TOKENS, 4 * COMPLETION_TOKENS)
    messages = (tmp_path / "agent" / "logs" / "messages.jsonl").read_text(encoding="utf-8")
    assert "web-" in messages
    assert "deployment.apps/web labeled" in messages
    assert "sk-very-secret" not in messages + played.output()
