"""Going on with a run: in its own words, and only with what can stand beside the attempts that it has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sregym.cli.console import console
from sregym.errors import PrerequisiteError
from sregym.results import RunFolder, RunLock, load_run
from sregym.settings import Paths

OPTION = "--resume"
RESUME_COMMAND = f"python main.py {OPTION}"


def in_its_own_words(tokens: Sequence[str]) -> list[str]:
    """`--resume RUN` alone means: as that run was last started. Any other command line is left as it is.

    Raises PrerequisiteError where that is no run, or it does not say how it was started.
    """
    path = _alone(tokens)
    if path is None:
        return list(tokens)
    lock = load_run(RunFolder.find(path, Paths().results).path).lock
    if lock is None or len(lock.command) < 2:
        cure = "give the arguments of that run as well, beginning with --agent"
        raise PrerequisiteError(f"{path} does not say how its run was started", cure=cure)
    return [*_without(lock.command[1:]), OPTION, str(path)]


def lock_to_go_on_with(folder: RunFolder, now: RunLock) -> RunLock:
    """The lock of a run that is gone on with; `now` where it had none yet.

    Raises PrerequisiteError where an attempt that is made now could not be compared with those that are there.
    """
    before = load_run(folder.path).lock
    if before is None:
        return now
    if different := before.contradictions(now):
        raise PrerequisiteError(
            f"{folder.path} was run otherwise: {'; '.join(different)}",
            cure="go on with the same arguments and the same environment (keys, AGENT_MODEL_ID, JUDGE_MODEL_ID, ...),"
            " or start a new run",
        )
    if before.code != now.code:
        console.print(f"[yellow]note[/]: the run began with {before.code}, and goes on with {now.code}")
    merged = before.extended(now)
    return merged if _alone(now.command[1:]) else merged.model_copy(update={"command": now.command})


def _alone(tokens: Sequence[str]) -> Path | None:
    match tokens:
        case [str(name), str(path)] if name == OPTION:
            return Path(path)
        case [str(word)] if word.startswith(f"{OPTION}="):
            return Path(word.removeprefix(f"{OPTION}="))
        case _:
            return None


def _without(words: Sequence[str]) -> list[str]:
    """The words of a run that had itself been resumed with arguments."""
    kept: list[str] = []
    given = iter(words)
    for word in given:
        if word == OPTION:
            next(given, None)
        elif not word.startswith(f"{OPTION}="):
            kept.append(word)
    return kept
