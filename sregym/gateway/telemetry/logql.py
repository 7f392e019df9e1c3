"""The part of LogQL that every log store here understands: selectors, line filters, label filters.

    {namespace="shop", pod=~"front.*"} |= "error" !~ "time ?out" | json | level="ERROR"

Metric queries (rate, count_over_time) and the other stages are refused with what to write instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

EXAMPLE = '{namespace="shop", pod=~"front.*"} |= "error" != "health"'
LONGEST = 4096

MatchOp = Literal["=", "!=", "=~", "!~"]
LineOp = Literal["|=", "!=", "|~", "!~"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_SPACE = re.compile(r"\s*")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\\": "\\", '"': '"'}
_PARSERS = ("json", "logfmt", "unpack")
_HEX = {"x": 2, "u": 4, "U": 8}


class BadQuery(ValueError):
    """A query that is not served; the text says what is wrong with it."""


@dataclass(frozen=True, kw_only=True)
class Matcher:
    """A label's value, compared; regular expressions match the whole value."""

    label: str
    op: MatchOp
    value: str


@dataclass(frozen=True, kw_only=True)
class LineFilter:
    """A line holds one of the texts (or matches one of the expressions), or, with `!`, none of them."""

    op: LineOp
    values: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class LogQuery:
    """A query, understood."""

    selector: tuple[Matcher, ...]
    lines: tuple[LineFilter, ...] = ()
    fields: tuple[Matcher, ...] = ()
    """Of structured lines."""


def parse_log_query(text: str) -> LogQuery:
    """Raises BadQuery."""
    if len(text) > LONGEST:
        raise BadQuery(f"the query is longer than {LONGEST} characters")
    reader = _Reader(text)
    if reader.peek() not in ("{", ""):
        raise BadQuery(
            "a query begins with a selector in braces; functions such as rate() or count_over_time() are not served: "
            "ask for the lines and count them"
        )
    selector = _selector(reader)
    lines: list[LineFilter] = []
    fields: list[Matcher] = []
    while reader.peek():
        _stage(reader, lines, fields)
    return LogQuery(selector=selector, lines=tuple(lines), fields=tuple(fields))


def parse_selector(text: str) -> tuple[Matcher, ...]:
    """A selector and nothing more. Raises BadQuery."""
    query = parse_log_query(text)
    if query.lines or query.fields:
        raise BadQuery("only a selector is understood here, with no filters behind it")
    return query.selector


class _Reader:
    """The text and how far it has been read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def peek(self) -> str:
        """The next character that is no space; empty at the end."""
        match = _SPACE.match(self._text, self._at)
        assert match
        self._at = match.end()
        return self._text[self._at : self._at + 1]

    def take(self, *tokens: str) -> str | None:
        """The first of the tokens that comes next, taken; None where none does."""
        self.peek()
        for token in tokens:
            if self._text.startswith(token, self._at):
                self._at += len(token)
                return token
        return None

    def word(self) -> str | None:
        self.peek()
        match = _NAME.match(self._text, self._at)
        if match:
            self._at = match.end()
        return match[0] if match else None

    def string(self) -> str:
        """A string in double quotes or backticks."""
        quote = self.take('"', "`")
        if quote is None:
            raise self.error('a text in "double quotes" or `backticks` is expected')
        if quote == "`":
            end = self._text.find("`", self._at)
            if end < 0:
                raise self.error("a backtick is not closed")
            value, self._at = self._text[self._at : end], end + 1
            return value
        return self._quoted()

    def error(self, message: str) -> BadQuery:
        seen = self._text[self._at : self._at + 20] or "the end"
        return BadQuery(f"{message}, at character {self._at + 1}: {seen!r}")

    def _quoted(self) -> str:
        out: list[str] = []
        while self._at < len(self._text):
            char = self._text[self._at]
            self._at += 1
            if char == '"':
                return "".join(out)
            out.append(self._escape() if char == "\\" else char)
        raise BadQuery("a double quote is not closed")

    def _escape(self) -> str:
        char = self._text[self._at : self._at + 1]
        self._at += 1
        if char in _ESCAPES:
            return _ESCAPES[char]
        digits = self._text[self._at : self._at + _HEX.get(char, 0)]
        if char in _HEX and re.fullmatch(r"[0-9A-Fa-f]+", digits) and len(digits) == _HEX[char]:
            code = int(digits, 16)
            if code < 0x110000 and not 0xD800 <= code < 0xE000:
                self._at += len(digits)
                return chr(code)
        raise BadQuery(f"\\{char} means nothing in double quotes; write \\\\{char}, or use `backticks`")


def _selector(reader: _Reader) -> tuple[Matcher, ...]:
    if not reader.take("{"):
        raise reader.error("a selector in braces is expected")
    found: list[Matcher] = []
    while not reader.take("}"):
        if found and not reader.take(","):
            raise reader.error('"," or "}" is expected')
        if found and reader.take("}"):
            break
        found.append(_matcher(reader))
    if not any(_demands_something(one) for one in found):
        raise BadQuery("the selector must ask for at least one label that is not empty")
    return tuple(found)


def _demands_something(one: Matcher) -> bool:
    if one.op == "=":
        return one.value != ""
    return one.op == "=~" and one.value not in ("", ".*")


def _matcher(reader: _Reader) -> Matcher:
    label = reader.word()
    if label is None:
        raise reader.error("a label's name is expected")
    return Matcher(label=label, op=_match_op(reader), value=reader.string())


def _match_op(reader: _Reader) -> MatchOp:
    op = reader.take("=~", "!~", "!=", "==", "=")
    match op:
        case "=~" | "!~" | "!=":
            return op
        case "=" | "==":
            return "="
    raise reader.error('one of = != =~ !~ is expected, and then a text in "quotes"')


def _stage(reader: _Reader, lines: list[LineFilter], fields: list[Matcher]) -> None:
    op = reader.take("|=", "|~", "!=", "!~")
    if op is not None:
        values = [reader.string()]
        while reader.take("or"):
            values.append(reader.string())
        lines.append(LineFilter(op=op, values=tuple(values)))  # type: ignore[arg-type]
        return
    if not reader.take("|"):
        raise reader.error('a filter is expected: |= != |~ !~ with a text, or | label="value"')
    name = reader.word()
    if name in _PARSERS and reader.peek() in ("|", "", "!"):
        return  # structured lines have their fields already
    if name is None or reader.peek() not in ("=", "!"):
        raise BadQuery(f'the stage `| {name or reader.peek()}` is not served; only line filters and | label="value"')
    fields.append(Matcher(label=name, op=_match_op(reader), value=reader.string()))
    while reader.take(",", "and"):
        fields.append(_matcher(reader))
