"""Every option says what it is for, and the help shows no noise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cyclopts import App

from main import content
from sregym.cli.app import build
from sregym.cli.entry import run

MAIN = build(content)


def every_command(app: App, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], App]]:
    yield path, app
    for name in app:
        if not name.startswith("-"):
            yield from every_command(app[name], (*path, name))


COMMANDS = dict(every_command(MAIN))


def test_all_commands_are_looked_at() -> None:
    assert {(), ("verify",), ("problems", "list"), ("cluster", "up"), ("incidentops", "replay")} <= COMMANDS.keys()


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_option_says_what_it_is_for(path: tuple[str, ...]) -> None:
    app = COMMANDS[path]
    if app.default_command is None:
        return
    arguments = app.assemble_argument_collection(parse_docstring=True)
    assert [one.name for one in arguments if not one.parameter.help] == []


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_help_is_without_noise(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(MAIN, [*path, "--help"]) == 0
    said = capsys.readouterr().out
    assert "Usage: main.py" in said
    for noise in ("--no-", "--empty-", "[default: ]", "[default: ()]", "[default: False]"):
        assert noise not in said


def test_flags_have_no_opposite(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(MAIN, ["problems", "list", "--no-json"]) == 2
    assert "no-json" in capsys.readouterr().err
