"""Descriptions of agents: the built-in ones, anyone's own, and bad ones."""

from pathlib import Path

import pytest

from sregym.agents.environment import agent_environment
from sregym.agents.runtime import ReferencePayload, check_fits
from sregym.agents.spec import AgentSpec, agent_names, load_agent
from sregym.api.repair import KubectlCall
from sregym.errors import AgentError, DefinitionError, PrerequisiteError
from sregym.gateway.kubeconfig import kubeconfig_text
from sregym.gateway.models import ModelAccess


def write(folder: Path, text: str) -> Path:
    path = folder / "agent.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_built_in_agents() -> None:
    specs = {name: load_agent(name) for name in agent_names()}
    assert {"nop", "restart", "rollback", "playbook", "reference", "react", "external"} <= set(specs)
    assert [name for name, spec in specs.items() if spec.reads_payload] == ["reference"]
    assert [name for name, spec in specs.items() if spec.needs_model] == ["react"]
    assert not specs["reference"].leaderboard
    assert all(name == spec.name for name, spec in specs.items())


def test_ones_own_agent_by_file_or_folder(tmp_path: Path) -> None:
    path = write(tmp_path, "{name: mine, description: x, dockerfile: Dockerfile, command: [run, --fast]}")
    (tmp_path / "Dockerfile").write_text("FROM scratch\n", encoding="utf-8")
    for given in (path, tmp_path):
        spec = load_agent(str(given))
        assert (spec.name, spec.command) == ("mine", ("run", "--fast"))
        assert spec.dockerfile == tmp_path.resolve() / "Dockerfile"


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(PrerequisiteError, match="nop"):
        load_agent("no-such-agent")


@pytest.mark.parametrize(
    "text",
    [
        "", "[1", "just text", "{name: a}", "{name: a, description: x}",
        "{name: a, description: x, image: i, dockerfile: d}", "{name: A B, description: x, image: i}",
        "{name: a, description: x, image: i, user: 'root'}", "{name: a, description: x, image: i, user: '0:0'}",
        "{name: a, description: x, image: i, colour: blue}", "{name: a, description: x, image: i, command: run}",
        "{name: a, description: x, image: i, reads_payload: true}",
        "{name: a, description: x, outside: true, image: i}",
        "{name: a, description: x, image: i, limits: {memory: lots}}", "{name: a, description: x, dockerfile: nowhere}",
        "{name: a, description: x, outside: true, command: [x]}",
    ],
)  # fmt: skip
def test_bad_descriptions_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(DefinitionError, match=r"agent\.yaml"):
        load_agent(str(write(tmp_path, text)))


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ("comand: [a]", "comand: there is no such key; did you mean command?"),
        ("colour: blue", "colour: there is no such key; known are name, description, "),
        ("command: python3 run.py", "command: a list of words is needed, such as [python3, run.py], not"),
        ("environment: {LEVEL: 2}", 'environment.LEVEL: a text is needed: quote it, as in LEVEL: "2"'),
        ("environment: {DEBUG: true}", 'environment.DEBUG: a text is needed: quote it, as in DEBUG: "true"'),
        ("version: 1.5", 'version: a text is needed: quote it, as in version: "1.5"'),
        ("user: root", 'user: a numeric user and group are needed, never root, such as "1000:1000", not'),
        (
            "limits: {memory: 2G}",
            "limits.memory: a size with its unit in lower case is needed, such as 2g or 512m, not",
        ),
        ("limits: {cpu: 1}", "limits.cpu: there is no such key; did you mean cpus?"),
        ("limits: {cpus: 0}", "limits.cpus: Input should be greater than 0, not 0"),
        ("dockerfile: d", "give exactly one of `image`, `dockerfile` and `outside: true`"),
    ],
)
def test_each_mistake_is_told_in_a_line_of_its_own(tmp_path: Path, wrong: str, line: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        load_agent(str(write(tmp_path, f"name: a\ndescription: x\nimage: i\n{wrong}\n")))
    head, told = str(raised.value).split("\n")
    assert head.endswith("agent.yaml describes no agent:")
    assert told.startswith(f"  {line}")


def test_what_an_agent_must_have_is_checked_first() -> None:
    payload = ReferencePayload(diagnosis="x", calls=[KubectlCall(argv=("get", "pods"))])
    with pytest.raises(PrerequisiteError, match="--model"):
        check_fits(load_agent("react"), None, None)
    with pytest.raises(AgentError, match="needs the reference payload"):
        check_fits(load_agent("reference"), None, None)
    with pytest.raises(AgentError, match="must not get it"):
        check_fits(load_agent("nop"), None, payload)
    check_fits(load_agent("react"), ModelAccess(model="gpt-5"), None)
    check_fits(load_agent("reference"), None, payload)


def environment(spec: AgentSpec, model: ModelAccess | None = None) -> dict[str, str]:
    return agent_environment(
        spec,
        api_host="gateway",
        api_port=8000,
        urls={"MCP_SERVER_URL": "http://gateway:9954"},
        kubeconfig="/k",
        logs="/l",
        artifact="opaque",
        model=model,
        model_url="http://gateway:8080/v1" if model else None,
        reasoning_effort="low",
    )


def test_an_agent_is_told_where_things_are_and_cannot_be_told_otherwise() -> None:
    spec = AgentSpec(name="a", description="x", image="i", environment={"API_HOSTNAME": "elsewhere", "COLOUR": "blue"})
    told = environment(spec)
    assert (told["API_HOSTNAME"], told["API_PORT"], told["COLOUR"]) == ("gateway", "8000", "blue")
    assert "OPENAI_API_KEY" not in told
    with_model = environment(spec, ModelAccess(model="openai/gpt-5"))
    keys = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "AGENT_API_KEY")
    assert {with_model[name] for name in keys} == {"not-needed"}
    assert with_model["OPENAI_BASE_URL"] == "http://gateway:8080/v1"
    assert with_model["ANTHROPIC_BASE_URL"] == with_model["GOOGLE_GEMINI_BASE_URL"] == "http://gateway:8080"
    assert with_model["ANTHROPIC_MODEL"] == "gpt-5"


def test_the_kubeconfig_holds_no_credentials() -> None:
    text = kubeconfig_text("http://gateway:16443", "shop")
    assert "namespace: shop" in text
    assert not any(word in text for word in ("token", "certificate", "password"))
