"""Discovery of problems: imports content and returns a value, so that there is no global registry to fill or to reset.

`Catalogue.discover("problems")` imports every module of the package in sorted order and takes the `Problem` classes
that are *defined* there. Two files that claim one id are an error that names both. A file that cannot be imported is
listed with its error and keeps no other problem from running.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import cast

from sregym.api.app import App, Profile
from sregym.api.problem import Problem, Variant
from sregym.errors import DefinitionError, PrerequisiteError

EVERYTHING = "all"
"""The suite that holds every curated problem."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A curated problem: an id, the primitive, the variant, and the file that defines them."""

    id: str
    primitive: type[Problem]
    variant: Variant
    file: Path

    def build(self, profile: Profile) -> Problem:
        """The problem on its app in that profile. Does no I/O on a cluster."""
        return self.primitive(app=_app(self.variant.app, profile), **self.variant.params)

    @property
    def description(self) -> str:
        """The first paragraph of the primitive's doc-string."""
        return (inspect.getdoc(self.primitive) or "").split("\n\n", maxsplit=1)[0]


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """All problems that were found, by id in sorted order, and the modules that could not be imported."""

    entries: Mapping[str, Entry]
    primitives: tuple[type[Problem], ...] = ()
    broken: Mapping[str, str] = field(default_factory=dict)
    """Module name -> what went wrong."""

    @classmethod
    def discover(cls, *packages: str) -> Catalogue:
        """Imports the packages' modules. Raises DefinitionError where two files define one id."""
        primitives: list[type[Problem]] = []
        broken: dict[str, str] = {}
        for name in sorted(_modules(packages)):
            try:
                module = importlib.import_module(name)
            except Exception as error:  # noqa: BLE001 - content is foreign code: whatever it raises is listed, not spread
                broken[name] = f"{type(error).__name__}: {error}"
                continue
            primitives.extend(_defined_in(module))
        return cls(entries=_by_id(primitives), primitives=tuple(primitives), broken=MappingProxyType(broken))

    def entry(self, problem_id: str) -> Entry:
        """The entry of an id. Raises PrerequisiteError with the nearest ids."""
        if problem_id in self.entries:
            return self.entries[problem_id]
        near = difflib.get_close_matches(problem_id, self.entries, n=3)
        cure = f"did you mean {', '.join(near)}?" if near else "list them with: python main.py problems list"
        if self.broken:
            cure += f" ({len(self.broken)} problem files could not be imported: problems list shows why)"
        raise PrerequisiteError(f"there is no problem {problem_id!r}", cure=cure)

    def build(self, problem_id: str, profile: Profile) -> Problem:
        """The problem, ready to run. Raises PrerequisiteError for an unknown id."""
        return self.entry(problem_id).build(profile)

    @property
    def suites(self) -> tuple[str, ...]:
        """Names of all suites, the one that holds everything first."""
        return (EVERYTHING, *sorted({name for entry in self.entries.values() for name in entry.variant.suites}))

    def suite(self, name: str) -> tuple[Entry, ...]:
        """The entries of a suite, sorted by id. Raises PrerequisiteError for an unknown suite."""
        if name not in self.suites:
            raise PrerequisiteError(f"there is no suite {name!r}", cure=f"suites are: {', '.join(self.suites)}")
        return tuple(one for one in self.entries.values() if name in {EVERYTHING, *one.variant.suites})

    @property
    def apps(self) -> tuple[type[App], ...]:
        """The app classes that curated problems run on, by class name."""
        return tuple(sorted({entry.variant.app for entry in self.entries.values()}, key=lambda app: app.__name__))

    def app(self, name: str, profile: Profile) -> App:
        """An app by the name of its topology (`hotel-reservation`) or class. Raises PrerequisiteError."""
        built = [_app(one, profile) for one in self.apps]
        for app in built:
            if name in (app.name, type(app).__name__):
                return app
        raise PrerequisiteError(f"there is no app {name!r}", cure=f"apps are: {', '.join(app.name for app in built)}")

    def targets(self, app: App) -> Iterator[Problem]:
        """Every (fault, target) pair on an app, primitive by primitive. Each pair comes once."""
        for primitive in self.primitives:
            seen: list[Problem] = []
            for found in primitive.targets(app):
                if found not in seen:
                    seen.append(found)
                    yield found


def _app(app: type[App], profile: Profile) -> App:
    # Concrete apps are dataclasses with the field `profile`; the abstract class has no constructor to check against.
    return cast(Callable[..., App], app)(profile=profile)


def _modules(packages: Iterable[str]) -> Iterator[str]:
    for name in packages:
        package = importlib.import_module(name)
        yield name
        for found in pkgutil.walk_packages(package.__path__, prefix=f"{name}.", onerror=lambda _: None):
            yield found.name


def _defined_in(module: ModuleType) -> list[type[Problem]]:
    classes = (one for _, one in inspect.getmembers(module, inspect.isclass))
    own = [one for one in classes if issubclass(one, Problem) and one.__module__ == module.__name__]
    return sorted((one for one in own if _is_complete(one)), key=lambda one: one.__name__)


def _is_complete(primitive: type[Problem]) -> bool:
    return primitive.fault is not Problem.fault


def _file_of(primitive: type[Problem]) -> Path:
    return Path(inspect.getfile(primitive))


def _by_id(primitives: Iterable[type[Problem]]) -> Mapping[str, Entry]:
    found: dict[str, Entry] = {}
    for primitive in primitives:
        # Only ids that the class itself declares: a subclass inherits the attribute, not the ids.
        for problem_id, variant in vars(primitive).get("variants", {}).items():
            entry = Entry(id=problem_id, primitive=primitive, variant=variant, file=_file_of(primitive))
            if problem_id in found:
                raise DefinitionError(f"problem {problem_id!r} is defined in {found[problem_id].file} and {entry.file}")
            found[problem_id] = entry
    return MappingProxyType(dict(sorted(found.items())))
