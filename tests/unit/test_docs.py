"""What the documents say is held to the code: settings, links, the example agent, the parts for authors."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from pydantic import AliasChoices
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

import injectors.patches
import oracles
import problems.common
import sregym.incidentops.settings
import sregym.settings
from oracles.combine import Kept
from sregym.api import Check, Exercise, Fault

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


OFFERED = (Fault, Check, Exercise, Kept)
UNDERNEATH = ("Change", "Kept", "PodsReplaced", "SameDocuments")
"""What the offered parts are made of."""


def defined_in(module: ModuleType) -> dict[str, object]:
    return {name: one for name, one in vars(module).items() if getattr(one, "__module__", "") == module.__name__}


def parts() -> list[str]:
    """What injectors and oracles offer to problems, and the helpers that problems share."""
    found = {**defined_in(problems.common), **defined_in(injectors.patches)}
    for package in (injectors, oracles):
        for one in pkgutil.iter_modules(package.__path__, prefix=f"{package.__name__}."):
            defined = defined_in(importlib.import_module(one.name)).items()
            found |= {name: x for name, x in defined if inspect.isclass(x) and issubclass(x, OFFERED)}
    return sorted(name for name in found if not name.startswith("_") and name not in UNDERNEATH)


@pytest.mark.parametrize("part", parts())
def test_authors_are_told_of_every_part(part: str) -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert re.search(rf"`{part}\b", page)
