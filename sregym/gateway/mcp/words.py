"""A command line as people type it, taken apart into arguments without any shell.

Quotes and backslashes mean what they mean to a POSIX shell, and so does one document behind `<<EOF`. Whatever would
need a shell (pipes, redirections, several commands, variables) is refused with what to do instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST = 256 * 1024
"""Characters; a manifest of that size is larger than what etcd takes with ease."""
LONGEST_WORD = 120 * 1024
"""Bytes (Linux: MAX_ARG_STRLEN is 128 KiB)."""

_HEREDOC = re.compile(r"""\s*<<(-?)\s*(["']?)([A-Za-z_][A-Za-z0-9_]*)\2[ \t]*$""")
_OPERATORS = {
    "|": "a pipe; ask kubectl itself (-l, --field-selector, -o jsonpath=..., --tail) and read the rest from the answer",
    ">": "a redirection; nothing can be written to files here",
    "<": "a redirection; give a manifest as `kubectl apply -f - <<EOF`, its lines, and `EOF`",
    "&": "`&`; send one command at a time, and put values that hold it in 'single quotes'",
    ";": "`;`; send one command at a time",
    "\n": "a second line; send one command at a time",
    "`": "a command substitution; run that command first and write its value",
}
_VARIABLE = re.compile(r"\$[A-Za-z_({]")


class NotOneCommand(ValueError):
    """The text is not one plain command; says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class Words:
    """Arguments, and what goes to standard input."""

    argv: tuple[str, ...]
    stdin: str = ""


def split(text: str) -> Words:
    """Raises NotOneCommand."""
    if len(text) > LONGEST:
        raise NotOneCommand(f"the command is longer than {LONGEST} characters")
    if "\x00" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise NotOneCommand("the command holds characters that no text holds")
    text = text.strip().replace("\r\n", "\n")
    command, stdin = _without_document(text)
    argv = _split(command)
    if any(len(word.encode()) > LONGEST_WORD for word in argv):
        raise NotOneCommand(f"one argument is longer than {LONGEST_WORD} bytes; give it as a document: -f - <<EOF")
    return Words(argv=tuple(argv), stdin=stdin)


def _without_document(text: str) -> tuple[str, str]:
    """The command before `<<WORD`, and the lines up to `WORD`."""
    head, newline, rest = text.partition("\n")
    while head.endswith("\\") and newline:
        more, newline, rest = rest.partition("\n")
        head = f"{head[:-1]} {more}"
    match = re.search(_HEREDOC, head)
    if match is None or "<<" not in head or _inside_quotes(head[: match.start()]):
        return text, ""
    tabs, _, word = match.groups()
    lines = rest.split("\n")
    ended = next((i for i, line in enumerate(lines) if (line.lstrip("\t") if tabs else line).rstrip() == word), None)
    if ended is None:
        raise NotOneCommand(f"the document behind <<{word} does not end; put {word} on a line of its own behind it")
    if "".join(lines[ended + 1 :]).strip():
        raise NotOneCommand(f"there is more behind {word}; send one command at a time")
    body = [line.lstrip("\t") if tabs else line for line in lines[:ended]]
    return head[: match.start()], "\n".join(body) + "\n"


def _inside_quotes(text: str) -> bool:
    quote = ""
    escaped = False
    for char in text:
        if escaped:
            escaped = False
        elif char == "\\" and quote != "'":
            escaped = True
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
    return bool(quote)


def _split(text: str) -> list[str]:
    words: list[str] = []
    word: list[str] | None = None
    at = 0
    while at < len(text):
        char = text[at]
        if text.startswith("\\\n", at):
            at += 2
            continue
        if char in " \t":
            if word is not None:
                words.append("".join(word))
            word = None
            at += 1
            continue
        if word is None:
            if char == "#":
                raise NotOneCommand("comments are not understood; leave out what follows `#`")
            word = []
        piece, at = _piece(text, at)
        word.append(piece)
    if word is not None:
        words.append("".join(word))
    return words


def _piece(text: str, at: int) -> tuple[str, int]:
    """The next part of a word, and where reading goes on."""
    char = text[at]
    if char == "'":
        end = text.find("'", at + 1)
        if end < 0:
            raise NotOneCommand("a single quote is not closed")
        return text[at + 1 : end], end + 1
    if char == '"':
        return _double_quoted(text, at + 1)
    if char == "\\":
        if at + 1 >= len(text):
            raise NotOneCommand("the command ends with a backslash")
        return text[at + 1], at + 2
    if char in _OPERATORS:
        raise NotOneCommand(f"there is no shell here, and this has {_OPERATORS[char]}")
    _refuse_variable(text, at)
    return char, at + 1


def _double_quoted(text: str, at: int) -> tuple[str, int]:
    out: list[str] = []
    while at < len(text):
        char = text[at]
        if char == '"':
            return "".join(out), at + 1
        if char == "\\" and text[at + 1 : at + 2] in ("$", "`", '"', "\\", "\n"):
            out.append("" if text[at + 1] == "\n" else text[at + 1])
            at += 2
            continue
        if char == "`":
            raise NotOneCommand(f"there is no shell here, and this has {_OPERATORS['`']}")
        _refuse_variable(text, at)
        out.append(char)
        at += 1
    raise NotOneCommand("a double quote is not closed")


def _refuse_variable(text: str, at: int) -> None:
    if text[at] == "$" and _VARIABLE.match(text, at):
        raise NotOneCommand(
            "there is no shell here, so variables and $(...) mean nothing; "
            "write the value, or put it in 'single quotes'"
        )
