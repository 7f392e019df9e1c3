"""Server-sent events cut out of a stream of bytes, each kept exactly as it came."""

from __future__ import annotations

import json
import re
from typing import Any

LONGEST_EVENT = 32 * 1024 * 1024
"""Bytes; what is longer is handed on in pieces and not understood."""
_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")


class EventSplitter:
    """Bytes in, whole events out; joined they are what came in."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._looked = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The events that are complete now, with the empty line that ends them."""
        self._held += data
        events: list[bytes] = []
        start = 0
        for end in _END.finditer(self._held, self._looked):
            events.append(bytes(self._held[start : end.end()]))
            start = end.end()
        del self._held[:start]
        self._looked = max(0, len(self._held) - 3)
        if len(self._held) > LONGEST_EVENT:
            events.append(self.rest())
        return events

    def rest(self) -> bytes:
        """What is left at the end of the stream."""
        left = bytes(self._held)
        self._held.clear()
        self._looked = 0
        return left


def value_of(event: bytes) -> Any:
    """The JSON value of an event; None where it holds none."""
    lines = [line[5:].strip() for line in event.splitlines() if line.startswith(b"data:")]
    try:
        return json.loads(b"\n".join(lines)) if lines else None
    except (ValueError, RecursionError):
        return None
