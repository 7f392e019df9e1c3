"""Discovery: a value per call, duplicate ids named with both files, broken files listed and not spread."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sregym.catalogue import Catalogue
from sregym.errors import DefinitionError, PrerequisiteError

TEMPLATE = '''
from problems.scaled_to_zero import ScaledToZero
from apps.hotel_reservation.app import HotelReservation
from sregym.api import on

class {name}(ScaledToZero):
    """Another one."""
    variants = {{"{id}": on(HotelReservation, service="search", suites=("{suite}",))}}
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "found_here"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [name for name in sys.modules if name.startswith("found_here")]:
        del sys.modules[name]


def write(package: Path, module: str, *, problem_id: str, suite: str = "x") -> None:
    text = TEMPLATE.format(name=module.title(), id=problem_id, suite=suite)
    (package / f"{module}.py").write_text(text)


def test_only_classes_defined_in_a_module_are_its_problems(package: Path) -> None:
    write(package, "one", problem_id="first")
    catalogue = Catalogue.discover("found_here")
    assert list(catalogue.entries) == ["first"]
    assert catalogue.entry("first").file == package / "one.py"
    assert catalogue.build("first", "lite").params == {"service": "search"}


def test_folders_are_searched_too(package: Path) -> None:
    (package / "deep").mkdir()
    (package / "deep" / "__init__.py").write_text("")
    write(package / "deep", "one", problem_id="nested")
    assert list(Catalogue.discover("found_here").entries) == ["nested"]


def test_duplicate_ids_name_both_files(package: Path) -> None:
    write(package, "one", problem_id="same")
    write(package, "two", problem_id="same")
    with pytest.raises(DefinitionError, match=r"one\.py and .*two\.py"):
        Catalogue.discover("found_here")


def test_a_file_that_cannot_be_imported_is_listed_and_keeps_nothing_else_from_running(package: Path) -> None:
    write(package, "one", problem_id="fine")
    (package / "bad.py").write_text("raise RuntimeError('half written')")
    catalogue = Catalogue.discover("found_here")
    assert list(catalogue.entries) == ["fine"]
    assert catalogue.broken == {"found_here.bad": "RuntimeError: half written"}
    with pytest.raises(PrerequisiteError, match="1 problem files could not be imported"):
        catalogue.entry("other")


def test_suites_and_unknown_names(package: Path) -> None:
    write(package, "one", problem_id="alpha", suite="quick")
    write(package, "two", problem_id="beta")
    catalogue = Catalogue.discover("found_here")
    assert [one.id for one in catalogue.suite("quick")] == ["alpha"]
    assert [one.id for one in catalogue.suite("all")] == ["alpha", "beta"]
    with pytest.raises(PrerequisiteError, match=r"did you mean alpha\?"):
        catalogue.build("alpah", "lite")
    with pytest.raises(PrerequisiteError, match="suites are: all, quick, x"):
        catalogue.suite("slow")


def test_an_app_is_found_by_its_name_and_its_targets_come_once(package: Path) -> None:
    write(package, "one", problem_id="alpha")
    catalogue = Catalogue.discover("found_here")
    app = catalogue.app("hotel-reservation", "lite")
    targets = list(catalogue.targets(app))
    assert {t.params["service"] for t in targets} >= {"search", "profile", "frontend"}
    assert len(targets) == len({str(t.params) for t in targets})
    with pytest.raises(PrerequisiteError, match="hotel-reservation"):
        catalogue.app("hotel", "lite")
