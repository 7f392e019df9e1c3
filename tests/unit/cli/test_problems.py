"""`main.py problems`: lists, shows, and starts a new problem that is complete from the first minute."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from sregym.api import Problem
from sregym.catalogue import Catalogue
from sregym.cli.problems import problems_app


def run(*tokens: str, capsys: pytest.CaptureFixture[str]) -> tuple[object, str]:
    app = problems_app(lambda: Catalogue.discover("problems"))
    code = app(list(tokens), exit_on_error=False, result_action="return_value")
    return code, capsys.readouterr().out


def test_the_list_as_json_names_every_problem(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run("list", "--suite", "smoke", "--json", capsys=capsys)
    assert code == 0
    listed = {one["id"] for one in json.loads(said)}
    assert "search_rate_retry_collapse_hotel_reservation" in listed
    assert len(listed) >= 9


def test_the_truth_is_shown_only_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    _, plain = run("show", "scale_pod_zero_hotel_reservation", capsys=capsys)
    _, spoilt = run("show", "scale_pod_zero_hotel_reservation", "--spoil", capsys=capsys)
    assert "scaled to 0 replicas" not in plain
    assert "scaled to 0 replicas" in spoilt
    assert "two replicas" in spoilt


def test_targets_are_listed_with_their_number(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run("targets", "hotel-reservation", capsys=capsys)
    assert code == 0
    assert "ScaledToZero" in said
    assert int(said.split()[-2]) > 20


def test_a_new_problem_is_complete_and_nothing_is_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _ = run("new", "StaleHostAlias", "--folder", str(tmp_path), capsys=capsys)
    assert code == 0
    path = tmp_path / "stale_host_alias.py"
    spec = importlib.util.spec_from_file_location("stale_host_alias", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "stale_host_alias", module)
    spec.loader.exec_module(module)
    made = module.StaleHostAlias
    assert issubclass(made, Problem)
    assert list(made.variants) == ["stale_host_alias_hotel_reservation"]
    with pytest.raises(Exception, match="exists already"):
        run("new", "StaleHostAlias", "--folder", str(tmp_path), capsys=capsys)
    with pytest.raises(Exception, match="no class name"):
        run("new", "not-a-name", "--folder", str(tmp_path), capsys=capsys)


def test_a_new_problem_is_told_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    problems_app(lambda: Catalogue.discover("problems"))(
        ["new", "FarAway", "--folder", str(tmp_path)], exit_on_error=False, result_action="return_value"
    )
    assert "it is not found there: problems are those in" in capsys.readouterr().err
    (tmp_path / "here").mkdir()
    monkeypatch.setattr("sregym.cli.problems.DISCOVERED", tmp_path / "here")
    run_in = ["new", "StaleHostAlias", "--folder", str(tmp_path / "here")]
    problems_app(lambda: Catalogue.discover("problems"))(run_in, exit_on_error=False, result_action="return_value")
    assert "python main.py verify stale_host_alias_hotel_reservation\n" in capsys.readouterr().err
