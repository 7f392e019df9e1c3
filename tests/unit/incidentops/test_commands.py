"""`main.py incidentops run | eval | replay`."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from sregym.cli.incidentops import incidentops_app
from sregym.errors import PrerequisiteError


def call(*tokens: str) -> object:
    async def run() -> object:
        return await incidentops_app.run_async(tokens, exit_on_error=False, result_action="return_value")

    return anyio.run(run)


def test_a_run_can_be_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "t.jsonl"
    call("run", "--policy", "oracle", "--level", "hard", "--seed", "3", "--out", str(out))
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("[START]") for line in lines) == 6
    assert sum(line.startswith("[END] success=true") for line in lines) == 6
    assert call("replay", str(out)) == 0
    out.write_text(out.read_text().replace('"seed":3', '"seed":4'))
    assert call("replay", str(out)) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("{", "line 1 is no JSON"),
        ("\n[1]", "line 2 is no JSON object"),
        ('{"a": 1}', "its format is None, not 'incidentops-trajectory/1'"),
        ('{"format": "incidentops-trajectory/1"}', "it lacks 'scenario'"),
        ('[\n {"schema_version": "ATIF-v1.7"}]', "as ATIF is"),
        (None, "No such file"),
    ],
)
def test_what_cannot_be_replayed_is_said_once_with_its_cure(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "t.jsonl"
    if text is not None:
        file.write_text(text)
    with pytest.raises(PrerequisiteError) as refused:
        call("replay", str(file))
    assert said in refused.value.message
    assert refused.value.message.count(str(file)) == 1
    assert "run --policy" in refused.value.cure


def test_eval_prints_rows(capsys: pytest.CaptureFixture[str]) -> None:
    call("eval", "--policies", "oracle", "--seeds", "1", "--scenario", "false-alarm", "--details", "--json")
    rows = json.loads(capsys.readouterr().out)
    assert [row["group"] for row in rows] == ["false-alarm/easy", "false-alarm/medium", "false-alarm/hard", "all"]
    assert all(row["lowest"] >= 0.95 for row in rows)


def test_atif_is_one_array(tmp_path: Path) -> None:
    out = tmp_path / "t.json"
    call("run", "--policy", "rules", "--scenario", "false-alarm", "--out", str(out), "--format", "atif")
    assert json.loads(out.read_text())[0]["schema_version"] == "ATIF-v1.7"


def test_an_unknown_scenario_is_the_user_s_to_mend() -> None:
    with pytest.raises(PrerequisiteError, match="known: single-service-down"):
        call("run", "--policy", "oracle", "--scenario", "nope")
