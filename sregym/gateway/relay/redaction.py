"""Keys are taken out of everything that is written down, and out of what goes back to the agent.

A secret is recognised as it is, percent-encoded, in base64, and with letters written as JSON escapes. In records also
what has the shape of a key is taken out, and a secret that a stream delivers in pieces.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

from sregym.gateway.relay.events import EventSplitter, value_of

GONE = "[redacted]"
SHORTEST = 8
"""Characters; what is shorter is no secret, and would take harmless text out."""
_STEM = 6
"""So many first characters of a key tell its kind (`sk-ant`)."""
_ESCAPE = re.compile(rb"\\u00([2-7][0-9A-Fa-f])")
_PLAIN = re.compile(rb"[A-Za-z0-9_.+/=~:@-]")
_SHAPES = (
    rb"sk-[A-Za-z0-9_-]{16,}",
    rb"AIza[0-9A-Za-z_-]{30,}",
    rb"(?:gsk|xai|ghp|gho|hf|r8)_[A-Za-z0-9]{16,}",
    rb"AKIA[0-9A-Z]{16}",
    rb"(?i:bearer|basic) +[A-Za-z0-9._~+/=-]{8,}",
    rb"(?<=[?&]key=)[^&\s\"']{8,}",
    rb"(?<=/t/)[A-Za-z0-9_-]{16,}",
)


class Redactor:
    """Knows the secrets of a process: the providers' keys and the attempt's token."""

    def __init__(self, secrets: Iterable[str]) -> None:
        known = sorted({one for one in secrets if len(one) >= SHORTEST}, key=len, reverse=True)
        exact = sorted({form for one in known for form in _forms(one)}, key=len, reverse=True)
        stems = {re.escape(one[:_STEM].encode()) + rb"[A-Za-z0-9_.-]{10,}" for one in known}
        self._exact = re.compile(b"|".join(map(re.escape, exact))) if exact else None
        self._shapes = re.compile(b"|".join((*_SHAPES, *sorted(stems))))
        self.longest = max(map(len, exact), default=0)
        """Bytes of the longest form: a cut through a text may leave fewer of a secret."""

    def clean(self, data: bytes) -> bytes:
        """Without our secrets. What holds none comes back as it was, byte for byte."""
        if self._exact is None:
            return data
        cleaned = self._exact.sub(GONE.encode(), data)
        if b"\\u00" in cleaned:
            plain = _ESCAPE.sub(_unescape, cleaned)
            if self._exact.search(plain):
                return self._exact.sub(GONE.encode(), plain)
        return cleaned

    def clean_text(self, text: str) -> str:
        return self.clean(text.encode("utf-8", "replace")).decode("utf-8", "replace")

    def record(self, data: bytes) -> str:
        """For a file: also without what looks like a key, and without secrets that come in pieces of a stream."""
        cleaned = self._without_pieces(self.clean(data))
        return self._shapes.sub(GONE.encode(), cleaned).decode("utf-8", "replace")

    def _without_pieces(self, data: bytes) -> bytes:
        if self._exact is None or b"data:" not in data:
            return data
        splitter = EventSplitter()
        values = [value_of(event) for event in (*splitter.feed(data), splitter.rest())]
        streams: dict[str, list[str]] = {}
        for value in values:
            for path, text in _texts(value):
                streams.setdefault(path, []).append(text)
        for pieces in streams.values():
            if len(pieces) > 1 and self._exact.search("".join(pieces).encode("utf-8", "replace")):
                for piece in sorted(set(pieces), key=len, reverse=True):
                    if piece:
                        quoted = json.dumps(piece).encode()
                        data = data.replace(quoted, f'"{GONE}"'.encode())
                        data = data.replace(json.dumps(piece, ensure_ascii=False).encode(), f'"{GONE}"'.encode())
        return data


def _forms(secret: str) -> Iterator[bytes]:
    raw = secret.encode()
    yield raw
    yield quote(secret, safe="").encode()
    yield json.dumps(secret)[1:-1].encode()
    yield secret.replace("/", "\\/").encode()
    yield base64.b64encode(raw).rstrip(b"=")
    yield base64.urlsafe_b64encode(raw).rstrip(b"=")


def _unescape(match: re.Match[bytes]) -> bytes:
    letter = bytes([int(match[1], 16)])
    return letter if _PLAIN.match(letter) else match[0]


def _texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """All strings of a value, by the names that lead to them; positions in lists do not count."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from _texts(one, f"{path}.{name}")
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one, path)
