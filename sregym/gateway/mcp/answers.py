"""Answers of tools: JSON text of bounded size, with a cursor for the rest.

The rest waits on disk, so that a cursor is good after the gateway process was started anew.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LIMIT = 24_000
"""Characters of one answer; some 6,000 tokens."""
MOST_KEPT = 50
"""Answers whose rest is kept; the oldest go first."""
_CURSOR = re.compile(r"([0-9a-f]{16})\.(\d{1,9})")


class BadCursor(ValueError):
    """No answer has this cursor, or it is kept no longer."""


class Answers:
    """Writes answers, and what is left of them."""

    def __init__(self, folder: Path, *, limit: int = LIMIT) -> None:
        self._folder = folder
        self._limit = limit

    def text(self, text: str, **facts: Any) -> str:
        """`{"output": text, ...facts}`; a long text is cut at the end of a line."""
        return self._page({"form": "text", "rest": text}, 0, facts)

    def items(self, name: str, items: Sequence[Any], **facts: Any) -> str:
        """`{name: [...], ...facts}`; of a long list the first items."""
        return self._page({"form": "items", "name": name, "rest": list(items)}, 0, facts)

    def more(self, cursor: str) -> str:
        """The next part. Raises BadCursor."""
        match = _CURSOR.fullmatch(cursor.strip())
        path = self._folder / f"{match[1]}.json" if match else None
        if match is None or path is None or not path.exists():
            raise BadCursor("no answer has this cursor; cursors are kept for the newest answers only")
        kept = json.loads(path.read_text(encoding="utf-8"))
        start = int(match[2])
        if not 0 < start < len(kept["rest"]):
            raise BadCursor("there is nothing behind this cursor")
        return self._page(kept, start, {}, identity=match[1])

    def _page(self, answer: dict[str, Any], start: int, facts: dict[str, Any], *, identity: str = "") -> str:
        rest = answer["rest"]
        if answer["form"] == "text":
            name, end = "output", self._end_of_text(rest, start)
            part: Any = rest[start:end]
        else:
            name = answer["name"]
            part, end = self._items_from(rest, start)
        page = {name: part, **facts}
        if end < len(rest):
            cursor = f"{identity or self._keep(answer)}.{end}"
            left = f"{len(rest) - end} {'characters' if answer['form'] == 'text' else 'items'}"
            page |= {"left": left, "cursor": cursor, "hint": "read_more(cursor) shows what is left"}
        return json.dumps(page, ensure_ascii=False)

    def _end_of_text(self, text: str, start: int) -> int:
        end = start + self._limit
        if end >= len(text):
            return len(text)
        line = text.rfind("\n", start + self._limit // 2, end)
        return line + 1 if line >= 0 else end

    def _items_from(self, items: Sequence[Any], start: int) -> tuple[list[Any], int]:
        """Items that fit, at least one; one that does not fit even alone is cut."""
        part: list[Any] = []
        used = 0
        for at in range(start, len(items)):
            text = json.dumps(items[at], ensure_ascii=False)
            if part and used + len(text) > self._limit:
                return part, at
            if len(text) > self._limit:
                part.append({"cut_after": self._limit, "of_characters": len(text), "text": text[: self._limit]})
            else:
                part.append(items[at])
            used += len(text)
        return part, len(items)

    def _keep(self, answer: dict[str, Any]) -> str:
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(self._folder.glob("*.json"), key=lambda one: one.stat().st_mtime_ns)[: -MOST_KEPT + 1]:
            path.unlink()
        identity = secrets.token_hex(8)
        (self._folder / f"{identity}.json").write_text(json.dumps(answer), encoding="utf-8")
        return identity
