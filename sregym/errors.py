"""The whole exception tree.

    SregymError
    ├── PrerequisiteError      the user can fix it: message + cure, no traceback          exit 2
    ├── DefinitionError        a problem, app or agent is written wrongly                 exit 3
    ├── ClusterError           the cluster answered badly                                 exit 4
    │   ├── NotFound           404
    │   ├── Conflict           409
    │   ├── Forbidden          401, 403
    │   ├── Gone               410: a watch or list token has expired
    │   ├── Invalid            400, 422: the API server refuses the object
    │   └── Unavailable        429, 5xx, connection refused or reset: trying again may help
    ├── CommandError           a child process ended badly                                exit 4
    ├── WaitTimeout            a condition did not come true in time                      exit 4
    ├── InjectionError         the fault could not be shown to bite: the attempt is void  exit 5
    │   └── LeakError          the incident shows what only we would have left there
    ├── RecoveryError          something of ours could not be undone: the run stops       exit 6
    │   └── DirtyClusterError  the world is not as it was before
    ├── AgentError             the agent could not be started or run                      exit 7
    └── JudgeError             the judge gave no usable answer: UNSCORED                  exit 8

A run that came to its end exits with 5 where an attempt is void, else with 8 where one is unscored, else with 0;
whether agents passed has no part in it. Ctrl-C exits with 130.

Infrastructure errors are never booked as the agent's failure: the coordinator turns them into UNSCORED or VOID.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import ClassVar


class SregymError(Exception):
    """Base of everything this program raises on purpose. Handled in `main`, which exits with `exit_code`."""

    exit_code: ClassVar[int] = 1


class PrerequisiteError(SregymError):
    """Something on the user's side is missing or wrong. `cure` says what to do; printed without a traceback."""

    exit_code = 2

    def __init__(self, message: str, *, cure: str) -> None:
        super().__init__(message)
        self.message = message
        self.cure = cure

    def __str__(self) -> str:
        return f"{self.message}\n  -> {self.cure}"


class DefinitionError(SregymError):
    """Content is defined wrongly; raised when a class is created or a file is loaded, before any cluster is touched."""

    exit_code = 3


class ClusterError(SregymError):
    """The Kubernetes API answered with an error. The client library's exception is its cause."""

    exit_code = 4

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class NotFound(ClusterError):
    """404: the object, or its namespace, or its kind, does not exist."""


class Conflict(ClusterError):
    """409: the object exists already or was changed in between."""


class Forbidden(ClusterError):
    """401 or 403."""


class Gone(ClusterError):
    """410: the resourceVersion is too old; list again."""


class Invalid(ClusterError):
    """400 or 422: the API server refuses the object."""


class Unavailable(ClusterError):
    """429, 5xx, or no connection: the API server cannot answer now."""


class CommandError(SregymError):
    """A child process ended with a non-zero status. Holds what it said."""

    exit_code = 4

    def __init__(self, message: str, *, code: int | None = None, stderr: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.stderr = stderr


class WaitTimeout(SregymError):
    """A condition did not come true. Says what was waited for, how long (seconds), and the last reason seen."""

    exit_code = 4

    def __init__(self, what: str, *, within: float, reason: str, diagnostics: str = "") -> None:
        text = f"{what}: not within {within:g} s; last seen: {reason}"
        super().__init__(f"{text}\n{diagnostics}" if diagnostics else text)
        self.what = what
        self.within = within
        self.reason = reason


class InjectionError(SregymError):
    """The fault could not be injected or did not bite. The attempt is void and says why."""

    exit_code = 5


class LeakError(InjectionError):
    """An audit found what only we would have left in an incident. The attempt is void and names the finding."""


class RecoveryError(SregymError):
    """Something that we changed could not be undone. The run stops; `main.py recover` goes on from the journal."""

    exit_code = 6


class DirtyClusterError(RecoveryError):
    """The world differs from the baseline snapshot and could not be replaced."""


class AgentError(SregymError):
    """The agent's image, container or description is unusable. Not the agent's grade: the attempt is UNSCORED."""

    exit_code = 7


class JudgeError(SregymError):
    """The judge gave no usable answer after its retries. The diagnosis is UNSCORED."""

    exit_code = 8


def principal(error: BaseException) -> SregymError | None:
    """The error of ours that a failure amounts to, looked for inside groups; None where anything else is in it.

    What stops a run outweighs what voids an attempt, and that outweighs what leaves it unscored. A disk that is full
    is the user's to free, whoever ran into it.
    """
    leaves = [_disk_full(leaf) or leaf for leaf in _leaves(error)]
    ours = [leaf for leaf in leaves if isinstance(leaf, SregymError)]
    if not ours or len(ours) != len(leaves):
        return None
    order: tuple[type[SregymError], ...] = (
        RecoveryError,
        DefinitionError,
        PrerequisiteError,
        InjectionError,
        AgentError,
    )
    for kind in order:
        for leaf in ours:
            if isinstance(leaf, kind):
                return leaf
    return ours[0]


def says_disk_full(text: str) -> bool:
    """Whether a program's words mean that a disk is full; C and Go programs write them differently."""
    return "no space left on device" in text.lower()


def is_disk_full(error: BaseException) -> bool:
    """Whether a full disk is among the reasons of a failure."""
    return any(_disk_full(leaf) or says_disk_full(str(leaf)) for leaf in _leaves(error))


def _disk_full(error: BaseException) -> PrerequisiteError | None:
    if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return None
    where = f": {error.filename} could not be written" if error.filename else ""
    return PrerequisiteError(f"the disk is full{where}", cure="free some space, then try again")


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _leaves(part)
    else:
        yield error
