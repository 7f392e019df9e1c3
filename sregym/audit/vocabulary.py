"""The words that must not be seen: our names, the names of problems and of their classes, and the language of faults.

Names are derived: from the catalogue, and from this machine (paths, user, host). The word list is short and curated;
where one of its words occurs naturally, the occurrence is described in `NATURAL`, with the reason.
"""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from sregym.audit.evidence import WORD
from sregym.catalogue import Catalogue
from sregym.settings import Settings

OWN = ("sregym", "incidentops")
STEMS = (
    "fault",
    "inject",
    "chaos",
    "benchmark",
    "oracle",
    "twin",
    "sabotag",
    "cheat",
    "misconfig",
    "testbed",
    "ground_truth",
    "groundtruth",
    "root_cause",
    "rootcause",
    "decoy",
    "honeypot",
    "grader",
    "judge",
)
"""A word is forbidden where it begins with one of these."""
NATURAL = (
    # Kernel and runtime: what a program or a machine says of memory.
    re.compile(r"(page|major|minor|segmentation|protection|bus|double)[ _-]?faults?\b", re.IGNORECASE),
    re.compile(r"\bfaults?[ _](address|tolerance|tolerant|domain|handler)", re.IGNORECASE),
    re.compile(r"\b(pg|pgmaj)faults?\b", re.IGNORECASE),
    # Python's standard library, and CPython's own option.
    re.compile(r"faulthandler|PYTHONFAULTHANDLER", re.IGNORECASE),
    # A kubelet and admission webhooks say so of tokens and side-cars.
    re.compile(r"\b(sidecar|token|dependency|secret|code|ca)[ _-]?(injection|injector|injected)", re.IGNORECASE),
    re.compile(r"inject-ca|cainjector", re.IGNORECASE),
)
SHORTEST_NAME = 4
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_GAP = re.compile(r"[^a-z0-9]+")
COMMON_USERS = ("root", "user", "admin", "ubuntu", "debian", "runner", "oncall")
COMMON_HOSTS = frozenset(
    [
        "localhost",
        "workstation",
        "gateway",
        "debian",
        "ubuntu",
        "server",
        "node",
        "worker",
        "master",
        "host",
        "cluster",
        "kind",
        "minikube",
        "control-plane",
        "controller",
        "docker",
        "kubernetes",
        "proxy",
        "registry",
        "data",
        "cloud",
        "test",
        "dev",
        "build",
        "laptop",
        "desktop",
        "main",
        "manager",
        "scheduler",
        "service",
        "system",
        "default",
    ]
)
"""Names that a cluster or an application has for things of its own, too."""


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """`own` are looked for anywhere in a word, in lower case; `folders` as whole parts of a path in it; `people` (users
    and hosts) and `problems` as whole parts of one in `normal` form; `stems` begin a part."""

    own: tuple[str, ...] = OWN
    folders: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    stems: tuple[str, ...] = STEMS

    @classmethod
    def of(cls, catalogue: Catalogue, settings: Settings) -> Vocabulary:
        """Everything that gives this program, this machine or a problem of the catalogue away."""
        ids = [normal(one) for one in catalogue.entries]
        classes = [normal(one.__name__) for one in catalogue.primitives]
        names = {name for name in (*ids, *classes) if len(name) > SHORTEST_NAME and "_" in name}
        people = tuple(normal(one) for one in people_of_machine())
        return cls(folders=folders_of(settings), people=people, problems=tuple(sorted(names)))


def folders_of(settings: Settings) -> tuple[str, ...]:
    """Where we keep things on this machine, in lower case and as they stand inside a longer path."""
    return tuple(dict.fromkeys((*lasting_folders_of(settings), *_words_of(settings.paths.results))))


def lasting_folders_of(settings: Settings) -> tuple[str, ...]:
    """Those of them that are the same in every run."""
    paths = settings.paths
    return tuple(dict.fromkeys(_words_of(paths.cache, paths.state, Path(__file__).parents[2])))


def _words_of(*folders: Path) -> list[str]:
    """As they stand in a longer path. A folder right below the root says nothing: anybody has a `/data`."""
    words = [str(folder.absolute()).lower().strip("/") for folder in folders]
    return [word for word in words if "/" in word]


def people_of_machine() -> tuple[str, ...]:
    """The user and the host, unless anybody's are called so."""
    names = (getpass.getuser(), socket.gethostname())
    return tuple(
        one for one in names if len(one) >= SHORTEST_NAME and one.lower() not in (*COMMON_USERS, *COMMON_HOSTS)
    )


@lru_cache(maxsize=200_000)
def normal(word: str) -> str:
    """A word in one form, whatever its style: `WrongTargetPort`, `wrong-target-port` -> `wrong_target_port`."""
    return _GAP.sub("_", _HUMP.sub("_", word).lower()).strip("_")


def is_natural(line: str, stem: str) -> bool:
    """Whether every occurrence of the stem in a line is one that occurs by itself."""
    bare = line
    for pattern in NATURAL:
        bare = pattern.sub("", bare)
    return not has_stem(bare, stem)


def has_stem(text: str, stem: str) -> bool:
    """Whether some word of the text, or part of one, begins with the stem."""
    return any(begins(normal(word), (stem,)) for word in WORD.findall(text))


def begins(normal_word: str, stems: Iterable[str]) -> str | None:
    """The stem that some part of a word in normal form begins with."""
    bounded = f"_{normal_word}"
    return next((stem for stem in stems if f"_{stem}" in bounded), None)
