"""Who an agent is: a user of the cluster, and the secret that proves which attempt a request belongs to."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass

TOKEN_BYTES = 24
PREFIX = "/t/"
"""Where no Authorization header can be sent (kubectl sends none over plain HTTP) the path begins `/t/TOKEN`."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """The user that the kube proxy impersonates. The names are seen by agents (`kubectl auth whoami`)."""

    user: str = "oncall"
    groups: tuple[str, ...] = ("oncall",)


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """A request that proved its token; `target` is its request target without the token prefix."""

    target: str


class TokenGate:
    """Lets requests of one attempt through until it is shut, which is for good."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._open = True

    def shut(self) -> None:
        self._open = False

    def admit(self, target: str, authorization: str | None) -> Admitted | None:
        """The request without its token, or None where the token is missing or wrong or the gate is shut."""
        offered, rest = _from_path(target)
        if offered is None:
            scheme, _, value = (authorization or "").partition(" ")
            offered = value.strip() if scheme.lower() == "bearer" else ""
        right = hmac.compare_digest(offered.encode("utf-8", "surrogateescape"), self._token)
        return Admitted(target=rest) if right and self._open else None


def new_token() -> str:
    """A fresh secret, safe in URLs."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def _from_path(target: str) -> tuple[str | None, str]:
    if not target.startswith(PREFIX):
        return None, target
    token, slash, rest = target[len(PREFIX) :].partition("/")
    bare, mark, query = token.partition("?")
    if mark and not slash:
        return bare, f"/?{query}"
    return token, f"/{rest}"
