"""The node tool: what it does, what it refuses, what it journals, and that undo brings everything back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from sregym.cluster.contract import ExecResult
from sregym.cluster.editor import JournalledEditor
from sregym.cluster.fake import FakeCluster
from sregym.cluster.journal import Journal, open_journals
from sregym.cluster.node_undo import FileContent, SysctlValue, of_node
from sregym.cluster.objects import NODE, Ref
from sregym.cluster.recovery import recover
from sregym.errors import RecoveryError
from sregym.gateway.node.contract import MOST_CHARACTERS, Answer, Refused, bounded
from sregym.gateway.node.kernel import about_node
from sregym.gateway.node.processes import parsed, without_visitors
from sregym.gateway.node.tool import NodeTool, NoSuchNode, NotHere
from sregym.gateway.node.web import node_routes
from tests.support.fake_nodes import CONFIG, KUBELET, FakeNodes

pytestmark = pytest.mark.usefixtures("fake_time")

WORKER = "c-worker"


@pytest.fixture
def nodes() -> FakeNodes:
    return FakeNodes()


@pytest.fixture
async def cluster(nodes: FakeNodes) -> FakeCluster:
    made = FakeCluster(node_shell=nodes)
    for name in nodes.nodes:
        labels = {"node-role.kubernetes.io/control-plane": ""} if "control" in name else {}
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        meta = {"name": name, "labels": labels}
        await made.create({"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": ready})
    return made


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal.create(tmp_path, identity="c", attempt="a")


@pytest.fixture
def told() -> list[dict[str, Any]]:
    return []


@pytest.fixture
async def tool(cluster: FakeCluster, journal: Journal, told: list[dict[str, Any]]) -> NodeTool:
    def emit(name: str, /, **data: Any) -> None:
        told.append({"event": name, **data})

    return await NodeTool.of(cluster, JournalledEditor(cluster, journal).section("node"), namespace="shop", emit=emit)


async def call(tool: NodeTool, op: str, node: str = WORKER, **arguments: Any) -> Answer:
    return await tool.call(node, {"op": op, **arguments})


# --- who and what


async def test_workers_only(tool: NodeTool) -> None:
    assert list(tool.workers) == ["c-worker", "c-worker2"]
    with pytest.raises(NoSuchNode, match="c-worker, c-worker2"):
        await call(tool, "time", node="c-control-plane")


async def test_a_label_taken_away_later_does_not_open_the_control_plane(tool: NodeTool, cluster: FakeCluster) -> None:
    role = {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": None}}}
    await cluster.patch(Ref(NODE, "c-control-plane"), role)
    with pytest.raises(NoSuchNode):
        await call(tool, "time", node="c-control-plane")


async def test_a_cluster_without_node_shell_says_so(cluster: FakeCluster, journal: Journal) -> None:
    cluster.node_shell = None
    tool = await NodeTool.of(cluster, JournalledEditor(cluster, journal), namespace="shop")
    with pytest.raises(NotHere, match="not available here"):
        await call(tool, "time")


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"op": "shell", "command": "id"},
        {"op": "service", "action": "mask", "unit": "kubelet"},
        {"op": "service", "action": "status", "unit": "--help"},
        {"op": "service", "action": "status", "unit": "a;id"},
        {"op": "journal", "lines": 10**9},
        {"op": "journal", "unit": "-o cat"},
        {"op": "kill", "pid": 1},
        {"op": "kill", "pid": -1},
        {"op": "kill", "pid": 77, "signal": "STOP"},
        {"op": "network", "what": "; id"},
        {"op": "conntrack", "action": "flush"},
        {"op": "conntrack", "action": "delete", "source": "10.0.0.1 -o xml"},
        {"op": "sysctl-write", "key": "net.ipv4.ip_forward", "value": "1\n0"},
        {"op": "sysctl-write", "key": "../../etc/passwd", "value": "1"},
        {"op": "disk-usage", "place": "/tmp\n/etc"},
        {"op": "disk-free", "command": "id"},
    ],
)
async def test_what_is_no_valid_operation_never_reaches_a_node(
    tool: NodeTool, nodes: FakeNodes, request_: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        await tool.call(WORKER, request_)
    assert nodes.commands == []


@pytest.mark.parametrize(
    "request_",
    [
        {"op": "service", "action": "stop", "unit": "dbus"},
        {"op": "service", "action": "start", "unit": "sshd"},
        {"op": "kubelet-set", "key": "staticPodPath", "value": "/tmp"},
        {"op": "kubelet-set", "key": "authentication", "value": {"anonymous": {"enabled": True}}},
        {"op": "kubelet-set", "key": "containerRuntimeEndpoint", "value": "unix:///x"},
        {"op": "kubelet-set", "key": "resolvConf", "value": "/etc/kubernetes/kubelet.conf"},
        {"op": "kubelet-set", "key": "maxPods", "value": "many"},
        {"op": "kubelet-set", "key": "maxPods", "value": 0},
        {"op": "kubelet-set", "key": "evictionHard", "value": {"memory.available": "; id"}},
        {"op": "disk-usage", "place": "/etc/kubernetes"},
        {"op": "disk-usage", "place": "/var/log/../lib/etcd"},
        {"op": "find-files", "place": "/proc"},
        {"op": "remove-file", "path": "/var/lib/kubelet/config.yaml"},
        {"op": "remove-file", "path": "/tmp/../etc/passwd"},
        {"op": "remove-file", "path": "/tmp"},
        {"op": "remove-file", "path": "/tmpfoo/x"},
        {"op": "remove-file", "path": "/var/log/journal/x"},
        {"op": "remove-file", "path": "/var/log/pods/shop_x/0.log"},
        {"op": "empty-file", "path": "/var/log/containers/x.log"},
        {"op": "sysctl-write", "key": "kernel.core_pattern", "value": "1"},
        {"op": "sysctl-write", "key": "vm.swappiness", "value": "1"},
        {"op": "conntrack", "action": "delete", "protocol": "tcp"},
        {"op": "conntrack", "action": "list", "source_port": 80},
    ],
)
async def test_refusals_change_nothing(
    tool: NodeTool, nodes: FakeNodes, journal: Journal, request_: dict[str, Any]
) -> None:
    before = (dict(nodes.units), dict(nodes.files), dict(nodes.sysctls))
    with pytest.raises(Refused):
        await tool.call(WORKER, request_)
    assert (nodes.units, nodes.files, nodes.sysctls) == before
    assert journal.entries == []


async def test_a_path_is_given_to_find_as_a_literal(tool: NodeTool, nodes: FakeNodes) -> None:
    await call(tool, "remove-file", path="/tmp/a*[b]?")
    command = nodes.commands[-1]
    assert command[:4] == ["find", "-P", "/tmp", "-xdev"]
    assert r"/tmp/a\*\[b\]\?" in command
    assert command[-1] == "-delete"


async def test_every_command_ends_by_itself(tool: NodeTool, nodes: FakeNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Sequence[str]] = []

    async def run(node: str, argv: Sequence[str], *, stdin: str = "", within: float = 0) -> ExecResult:
        seen.append(argv)
        return ExecResult(code=0, stdout="0", stderr="")

    monkeypatch.setattr(nodes, "run", run)
    await call(tool, "time")
    assert seen[0][0] == "timeout"


# --- changes are taken back


async def test_a_service_is_put_back(tool: NodeTool, nodes: FakeNodes, cluster: FakeCluster, tmp_path: Path) -> None:
    answer = await call(tool, "service", action="stop", unit="kubelet")
    assert answer.ok
    assert not nodes.units["kubelet"]
    await recover(open_journals(tmp_path)[0], cluster)
    assert nodes.units["kubelet"]


async def test_undo_is_on_disk_before_the_deed(tool: NodeTool, nodes: FakeNodes, journal: Journal) -> None:
    seen: list[int] = []
    original = nodes._answer

    def answer(argv: list[str], stdin: str) -> ExecResult:
        if argv[:2] in (["systemctl", "stop"], ["sysctl", "-w"], ["mv", "-fT"]):
            seen.append(len(Journal.open(journal.path).open_entries()))
        return original(argv, stdin)

    nodes._answer = answer  # type: ignore[method-assign]
    await call(tool, "service", action="stop", unit="kubelet")
    await call(tool, "sysctl-write", key="net.ipv4.ip_forward", value="0")
    await call(tool, "kubelet-set", key="maxPods", value=20)
    assert seen == [1, 2, 3]


async def test_kubelet_settings_are_put_back_to_the_letter(
    tool: NodeTool, nodes: FakeNodes, cluster: FakeCluster, journal: Journal
) -> None:
    answer = await call(tool, "kubelet-set", key="maxPods", value=20)
    assert "110 -> 20" in answer.text
    await call(tool, "kubelet-set", key="maxPods", value=None)
    assert "maxPods" not in nodes.files[KUBELET]
    await recover(journal, cluster)
    assert nodes.files[KUBELET] == CONFIG
    assert ["systemctl", "restart", "--", "kubelet"] in nodes.commands


async def test_credentials_in_the_kubelet_configuration_are_not_shown(tool: NodeTool) -> None:
    answer = await call(tool, "kubelet-config")
    assert "maxPods: 110" in answer.text
    assert "pki" not in answer.text


async def test_undo_twice_changes_nothing(cluster: FakeCluster, nodes: FakeNodes) -> None:
    action = FileContent(node=WORKER, path=KUBELET, text="a: 1\n", unit="kubelet")
    await action.undo(cluster)
    count = len(nodes.commands)
    await action.undo(cluster)
    assert nodes.commands[count:] == [["cat", "--", KUBELET]]


@pytest.mark.parametrize("agent_first", [True, False])
async def test_an_agents_repair_never_outlives_or_revives_what_it_repaired(
    cluster: FakeCluster, nodes: FakeNodes, journal: Journal, agent_first: bool
) -> None:
    """An incident sets a file, the agent another text; whichever is undone first, the file is the first one again."""
    editor = JournalledEditor(cluster, journal)
    incident, agent = editor.section("incident"), editor.section("node")
    await incident.compensate(of_node(FileContent(node=WORKER, path=KUBELET, text=CONFIG)))
    nodes.files[KUBELET] = "maxPods: 1\n"
    await agent.compensate(of_node(FileContent(node=WORKER, path=KUBELET, text="maxPods: 1\n")))
    nodes.files[KUBELET] = "maxPods: 200\n"
    for section in (agent, incident) if agent_first else (incident, agent):
        await section.undo_all()
    assert nodes.files[KUBELET] == CONFIG
    assert journal.open_entries() == []


async def test_a_node_that_does_not_answer_leaves_its_undo_open(
    tool: NodeTool, nodes: FakeNodes, cluster: FakeCluster, journal: Journal
) -> None:
    await call(tool, "sysctl-write", key="net.ipv4.ip_forward", value="0")
    nodes.broken = True
    with pytest.raises(RecoveryError):
        await recover(journal, cluster)
    nodes.broken = False
    await recover(journal, cluster)
    assert nodes.sysctls["net.ipv4.ip_forward"] == "1"


async def test_without_a_way_to_the_node_undo_says_so(cluster: FakeCluster) -> None:
    cluster.node_shell = None
    with pytest.raises(RecoveryError, match="no way to its shell"):
        await SysctlValue(node=WORKER, key="net.ipv4.ip_forward", value="1").undo(cluster)


# --- records and limits


async def test_every_call_is_recorded_refused_ones_too(tool: NodeTool, told: list[dict[str, Any]]) -> None:
    await call(tool, "service", action="restart", unit="kubelet")
    with pytest.raises(Refused):
        await call(tool, "remove-file", path="/etc/passwd")
    calls = [one for one in told if one["event"] == "node.called"]
    assert [(one["request"]["op"], one["outcome"]) for one in calls] == [("service", "ok"), ("remove-file", "Refused")]
    assert calls[0]["node"] == WORKER


async def test_nothing_is_taken_after_the_session(tool: NodeTool) -> None:
    await tool.shut()
    with pytest.raises(NotHere, match="over"):
        await call(tool, "time")


@pytest.mark.parametrize(("keeps", "end"), [("head", "line 0\n"), ("tail", "line 9999")])
def test_long_answers_are_cut_between_lines_and_say_so(keeps: Any, end: str) -> None:
    text = "\n".join(f"line {number}" for number in range(10_000))
    kept, cut = bounded(text, keeps)
    assert len(kept) <= MOST_CHARACTERS
    assert end in kept
    assert f"of {len(text)}" in cut
    assert all(line.startswith("line ") for line in kept.splitlines())


# --- what belongs to the machine below stays there


def test_the_kernel_log_is_that_of_the_node() -> None:
    uid = "0f3a9d0e-1111-2222-3333-444455556666"
    lines = [
        f"[Sun] oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/docker/aa/kubepods-pod{uid.replace('-', '_')}.slice/x,"
        "task=rate,pid=812,uid=0",
        "[Sun] Memory cgroup out of memory: Killed process 812 (rate) total-vm:1kB",
        "[Sun] oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/user.slice/someone,task=secret,pid=900,uid=0",
        "[Sun] Memory cgroup out of memory: Killed process 900 (secret) total-vm:1kB",
        "[Sun] Buffer I/O error on dev dm-3, logical block 7",
        "[Sun] Buffer I/O error on dev sda1, logical block 7",
        "[Sun] usb 1-1: new device",
    ]
    assert about_node(lines, [uid], ["/dev/dm-3", "/dev/sda1"]) == [lines[0], lines[1], lines[4]]


def test_who_entered_the_node_from_outside_is_not_shown() -> None:
    rows = [
        "      1       0 root     Ss     100  0.0  0.1  1000 systemd         /sbin/init",
        "     70       1 root     Ssl     90  1.0  0.9 90000 kubelet         /usr/bin/kubelet --config=x",
        "    800       0 root     Ss       1  0.0  0.0  1000 timeout         timeout 45 ps",
        "    801     800 root     R        1  0.0  0.0  1000 ps              ps -e",
        "    900      70 root     Sl       1  0.0  0.0  1000 a b             a b c",
    ]
    found = [one for row in rows if (one := parsed(row))]
    assert [one.pid for one in without_visitors(found)] == [1, 70, 900]
    assert (found[4].comm, found[4].args) == ("a b", "a b c")


async def test_names_of_the_machine_are_left_out(tool: NodeTool, nodes: FakeNodes) -> None:
    group = "CGroup: /docker/" + "a" * 64 + "/system.slice/kubelet.service"
    nodes.script = lambda argv: ExecResult(code=0, stdout=group, stderr="")
    answer = await call(tool, "service", action="status", unit="kubelet")
    assert answer.text == "CGroup: /system.slice/kubelet.service"


async def test_protected_processes_are_not_ended(tool: NodeTool, nodes: FakeNodes) -> None:
    rows = (
        "     1       0 root     Ss     100  0.0  0.1  1000 systemd         /sbin/init\n"
        "    70       1 root     Ssl     90  1.0  0.9 90000 kubelet         /usr/bin/kubelet\n"
        "    71       1 root     Sl      90  1.0  0.9 90000 containerd-shim /usr/bin/containerd-shim-runc-v2\n"
        "   812      71 1000     Sl      90 90.0  0.9 90000 stress          stress\n"
        "   900       0 root     Ss      90 90.0  0.9 90000 curl            curl x\n"
    )
    nodes.script = lambda argv: ExecResult(code=0, stdout=rows if argv[0] == "ps" else "", stderr="")
    for pid in (70, 71):
        with pytest.raises(Refused):
            await call(tool, "kill", pid=pid)
    assert not (await call(tool, "kill", pid=900)).ok
    assert (await call(tool, "kill", pid=812)).ok
    assert nodes.commands[-1] == ["kill", "-s", "TERM", "812"]


# --- HTTP


@pytest.mark.parametrize(
    ("node", "body", "status"),
    [
        (WORKER, '{"op": "disk-free"}', 200),
        (WORKER, '{"op": "remove-file", "path": "/etc/passwd"}', 403),
        (WORKER, '{"op": "nonsense"}', 400),
        (WORKER, "[]", 400),
        (WORKER, "{" * 100_000, 400),
        (WORKER, "\udcff", 400),
        ("c-control-plane", '{"op": "time"}', 404),
        ("..", '{"op": "time"}', 404),
    ],
)
async def test_status_codes(tool: NodeTool, node: str, body: str, status: int) -> None:
    transport = httpx.ASGITransport(app=Starlette(routes=node_routes(tool)))
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        reply = await client.post(f"/nodes/{node}", content=body.encode("utf-8", "surrogateescape"))
    assert reply.status_code == status
    if reply.headers.get("content-type") == "application/json":
        assert ("error" in reply.json()) == (status != 200)


async def test_an_unreachable_node_is_502_and_no_tool_is_501(tool: NodeTool, nodes: FakeNodes) -> None:
    nodes.broken = True
    for made, status in ((tool, 502), (None, 501)):
        transport = httpx.ASGITransport(app=Starlette(routes=node_routes(made)))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            reply = await client.post(f"/nodes/{WORKER}", json={"op": "disk-free"})
        assert reply.status_code == status


async def test_the_list_teaches(tool: NodeTool) -> None:
    transport = httpx.ASGITransport(app=Starlette(routes=node_routes(tool)))
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        told = (await client.get("/nodes")).json()
    assert told["nodes"] == ["c-worker", "c-worker2"]
    assert all(one["description"] and "arguments" in one for one in told["operations"])
