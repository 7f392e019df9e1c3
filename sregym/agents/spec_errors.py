"""What is wrong in somebody's agent.yaml, in a line for each field."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

SIZE = "a size with its unit in lower case is needed, such as 2g or 512m"
_NEEDED = {
    "command": "a list of words is needed, such as [python3, run.py]",
    "user": 'a numeric user and group are needed, never root, such as "1000:1000"',
    "limits.memory": SIZE,
    "limits.scratch": SIZE,
    "limits.logs": SIZE,
}


def lines_of(error: ValidationError, known: Iterable[str]) -> list[str]:
    """`field: what is wrong` for each error. `known` are the fields that there are, nested ones with dots."""
    fields = tuple(known)
    return [_line(dict(one), fields) for one in error.errors(include_url=False)]


def _line(error: dict[str, Any], known: tuple[str, ...]) -> str:
    place = [str(part) for part in error["loc"]]
    field = ".".join(place)
    match error["type"]:
        case "extra_forbidden":
            return f"{field}: there is no such key; {_known(place, known)}"
        case "missing":
            return f"{field}: is missing"
        case "model_type" if not place:
            return "keys and values are needed, such as `name: mine`"
    if field in _NEEDED:
        return f"{field}: {_NEEDED[field]}, not {error['input']!r}"
    if error["type"] == "string_type":
        return f'{field}: a text is needed: quote it, as in {place[-1]}: "{_as_yaml(error["input"])}"'
    said = str(error["msg"]).removeprefix("Value error, ")
    return f"{field}: {said}, not {error['input']!r}" if field else said


def _known(place: list[str], known: tuple[str, ...]) -> str:
    siblings = [one.rpartition(".")[2] for one in known if one.split(".")[:-1] == place[:-1]]
    near = get_close_matches(place[-1], siblings, n=1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(siblings)}"


def _as_yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
