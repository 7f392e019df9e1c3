"""What the documents say is held to the code: settings, links, the example agent, the parts for authors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import AliasChoices
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

import sregym.incidentops.settings
import sregym.settings

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
SETTINGS = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
ROWS = {
    name: row for row in re.findall(r"^\| .*", SETTINGS, re.M) for name in re.findall(r"`(\w+)`", row.split(" | ")[0])
}
"""The rows of the tables by the variables in their first cells."""


def variables() -> Iterator[tuple[str, FieldInfo]]:
    for module in (sregym.settings, sregym.incidentops.settings):
        groups = [one for one in vars(module).values() if isinstance(one, type) and issubclass(one, BaseSettings)]
        for group in groups:
            for name, field in group.model_fields.items():
                if isinstance(field.annotation, type) and issubclass(field.annotation, BaseSettings):
                    continue  # a branch of the tree
                match field.validation_alias:
                    case AliasChoices(choices=choices):
                        yield from ((str(one), field) for one in choices)
                    case alias:
                        yield str(alias or f"{group.model_config.get('env_prefix', '')}{name}".upper()), field


VARIABLES = dict(variables())


@pytest.mark.parametrize("variable", VARIABLES)
def test_every_variable_stands_in_the_settings_with_its_default(variable: str) -> None:
    assert f"`{variable}`" in SETTINGS
    default = VARIABLES[variable].default
    if isinstance(default, (int, float)) or (isinstance(default, (str, Path)) and str(default)):
        shown = f"{default:g}" if isinstance(default, float) else str(default)
        assert ROWS[variable].split(" | ")[1] == f"`{shown}`"


def test_no_variable_of_the_settings_is_made_up() -> None:
    assert set(ROWS) <= set(VARIABLES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [one for one in targets if not (page.parent / one).exists()] == []
