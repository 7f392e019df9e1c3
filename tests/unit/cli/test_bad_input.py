"""What a user gets for input that cannot work: a clear message with its cure, the right exit code, nothing touched."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from main import content
from sregym.cli.app import build
from sregym.cli.entry import run

PROBLEM = "scale_pod_zero_hotel_reservation"
WITH_MODEL = ("--problem", PROBLEM, "--agent", "react", "--model", "mistral/large", "--judge-model", "offline")
SETTINGS_OF_MODELS = (
    "AGENT_MODEL_ID",
    "AGENT_API_BASE",
    "AGENT_API_KEY",
    "JUDGE_MODEL_ID",
    "JUDGE_API_BASE",
    "JUDGE_API_KEY",
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
)


@pytest.fixture(autouse=True)
def nothing_is_touched(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Bad input must be refused before anything is prepared."""

    async def prepare(*_: object, **__: object) -> None:
        pytest.fail("something was prepared although the input cannot work")

    if "unreachable_cluster" not in request.fixturenames:
        monkeypatch.setattr("sregym.cli.run.prepare", prepare)
    for name in SETTINGS_OF_MODELS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(
        "sregym.llm._by_litellm", lambda *_: None
    )  # it takes seconds to load; see tests/unit/test_llm.py


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["--problem", "scale_pod_zero_hotel", "--agent", "nop"], "did you mean scale_pod_zero_hotel_reservation"),
        (["--problem", PROBLEM, "--agent", "nobody"], "there is no agent 'nobody'"),
        (["--problem", PROBLEM, "--suite", "smoke", "--agent", "nop"], "exclude each other"),
        (["--suite", "nothing", "--agent", "nop"], "there is no suite 'nothing'"),
        (["--problem", PROBLEM], "no agent is given"),
        (["--problem", PROBLEM, "--agent", "nop", "--profile", "medium"], "medium"),
        (["--problem", PROBLEM, "--agent", "nop", "--n-attempts", "0"], "at least 1"),
        (["--problem", PROBLEM, "--agent", "react"], "needs a model"),
        (["--problem", PROBLEM, "--agent", "nop", "--judge-model", "local/x"], "JUDGE_API_BASE"),
        (["--problem", PROBLEM, "--agent", "nop", "--judge-model", "foo"], "no provider is known for the judge 'foo'"),
        (["--problem", PROBLEM, "--agent", "nop", "--judge-model", "gpt-5"], "or use offline instead"),
        (["verify", PROBLEM, "--judge-model", "ofline"], "did you mean offline?"),
        (["--problem", PROBLEM, "--agent", "react", "--model", "foo"], "PROVIDER/MODEL, such as openai/gpt-5"),
        (["--problem", PROBLEM, "--agent", "react", "--model", "opnai/gpt-5"], "did you mean openai/gpt-5?"),
        (["--problem", PROBLEM, "--agent", "react", "--model", "gpt-5"], "set OPENAI_API_KEY or AGENT_API_KEY"),
        (["--problem", PROBLEM, "--agent", "react", "--model", "local/x"], "AGENT_API_BASE"),
        (["--problem", PROBLEM, "--agent", "nop", "--resume", "/nowhere"], "there is no run"),
        (["--problem", PROBLEM, "--agent", "nop", "--agent-timeout", "0"], "more than 0"),
        (["--problem", PROBLEM, "--agent", "nop", "--healthy-phase", "-1"], "less than 0"),
        (["--problem", PROBLEM, "--agent", "nop", "--context", "kind-x"], "--context needs --kubeconfig"),
        ([*WITH_MODEL, "--max-cost", "-1"], "numbers above 0"),
        ([*WITH_MODEL, "--max-cost", "nan"], "numbers above 0"),
        ([*WITH_MODEL, "--reasoning-effort", "hihg"], "hihg"),
        (["--problem", PROBLEM, "--agent", "nop", "--model", "openai/gpt-5"], "--model would have no effect"),
        (
            ["--problem", PROBLEM, "--agent", "nop", "--agent", "playbook", "--max-cost", "1", "--max-tokens", "9"],
            "--max-cost and --max-tokens would have no effect: no agent here has a model (nop, playbook)",
        ),
        (["--problem", PROBLEM, "--agent", "nop", "--reasoning-effort", "low"], "--reasoning-effort would have no"),
        (["--problem", PROBLEM, "--use-external-harness", "--model", "openai/gpt-5"], "set OPENAI_API_KEY"),
        (
            ["--problem", PROBLEM, "--agent", "nop", "--kubeconfig", "/no", "--cluster", "x", "--workers", "1"],
            "--kubeconfig and --cluster and --workers exclude each other",
        ),
        (["incidentops", "run", "--out", "/nowhere/x.jsonl"], "add --policy oracle"),
        (["incidentops", "run", "--format", "atif"], "add --policy oracle"),
        (["incidentops", "run", "--policy", "rules", "--format", "atif"], "name one with --out"),
        (["--problem", PROBLEM, "--agent", "nop", "--agent-timeout", "inf"], "must end"),
        (["--problem", PROBLEM, "--agent", "nop", "--healthy-phase", "nan"], "must end"),
        (["verify", PROBLEM, "--suite", "smoke"], "exclude each other"),
        (["problems", "new", "MyFault", "--folder", "/nowhere"], "there is no folder /nowhere"),
        (["--no-such-flag"], "no-such-flag"),
        (["verfy", "x"], "there is no command 'verfy' -> did you mean verify? (python main.py --help)"),
        (["run", "--agent", "nop"], "-> leave the word out: python main.py --agent nop"),
        (["qwertz"], "-> see what there is: python main.py --help"),
        (["problems", "show", "nothing"], "there is no problem 'nothing'"),
    ],
)
def test_it_is_refused_with_exit_code_2(tokens: Sequence[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(build(content), tokens) == 2
    text = capsys.readouterr()
    assert said in " ".join((text.out + text.err).split())
    assert "Traceback" not in text.err


@pytest.mark.parametrize("variable", ["API_PORT", "MCP_SERVER_PORT", "KUBE_PROXY_PORT"])
def test_a_taken_port_is_named_before_anything_is_prepared(
    variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for one in ("API_PORT", "MCP_SERVER_PORT", "KUBE_PROXY_PORT"):
            monkeypatch.setenv(one, "0")
        monkeypatch.setenv(variable, str(port))
        assert run(build(content), ["--problem", PROBLEM, "--use-external-harness", "--judge-model", "offline"]) == 2
    said = capsys.readouterr().err
    assert f"cannot listen on 127.0.0.1:{port}" in said
    assert variable in said


@pytest.mark.parametrize("value", ["ninety", "-1", "70000"])
def test_a_setting_that_cannot_be_is_named(
    value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("API_PORT", value)
    assert run(build(content), ["--problem", PROBLEM, "--agent", "nop"]) == 2
    said = capsys.readouterr().err
    assert "API_PORT" in said
    assert value in said


@pytest.fixture
def unreachable_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubeconfig whose server is a port that nobody listens on."""
    monkeypatch.setenv("SREGYM_RESULTS_DIR", str(tmp_path / "results"))
    monkeypatch.setenv("SREGYM_STATE_DIR", str(tmp_path / "state"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "far",
        "clusters": [{"name": "far", "cluster": {"server": f"https://127.0.0.1:{port}"}}],
        "users": [{"name": "far", "user": {"token": "x"}}],
        "contexts": [{"name": "far", "context": {"cluster": "far", "user": "far"}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "does not answer"),
        (["--context", "near"], "has no context near"),
        (["--kubeconfig", "/no"], "no kubeconfig"),
    ],
)
def test_a_cluster_that_cannot_be_used_is_said_so(
    unreachable_cluster: Path, more: Sequence[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens = ["--problem", PROBLEM, "--agent", "nop", "--judge-model", "offline"]
    where = [] if "--kubeconfig" in more else ["--kubeconfig", str(unreachable_cluster)]
    assert run(build(content), [*tokens, *where, *more]) == 2
    text = capsys.readouterr().err
    assert said in text
    assert "kubectl" in text


def test_an_agent_file_that_is_none_is_a_definition_error(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path_factory.mktemp("agent") / "agent.yaml"
    path.write_text("name: Mine\n", encoding="utf-8")
    assert run(build(content), ["--problem", PROBLEM, "--agent", str(path)]) == 3
    said = capsys.readouterr().err
    assert "describes no agent" in said
    assert "description: is missing" in said
