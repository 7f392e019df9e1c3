"""Episodes of clients that have no socket: HTTP requests with a session id, and MCP sessions.

OpenEnv's plain HTTP routes forget the episode between two requests; here an id keeps it. Sessions that were not used
for long are dropped when room is needed or when anybody comes by (no timer); with a file database an unfinished episode
is taken up again by its id.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

from sregym.incidentops.errors import EpisodeError
from sregym.incidentops.server.environment import IncidentEnvironment
from sregym.incidentops.store import Store

DEFAULT = "default"  # the session of clients that name none
MAX_ID = 255


class CapacityError(EpisodeError):
    """All sessions are in use."""


class Sessions:
    """Environments by session id. Used on the event loop only."""

    def __init__(self, *, store: Store, limit: int, idle_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._limit, self._idle_s, self._clock = store, limit, idle_s, clock
        self._environments: dict[str, IncidentEnvironment] = {}
        self._used: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._environments)

    def open(self, session_id: str | None) -> tuple[str, IncidentEnvironment]:
        """The environment of a session, made when there is none yet.

        Raises:
            CapacityError: the limit is reached and nobody is idle.
            EpisodeError: the id is too long.
        """
        key = _checked(session_id) or str(uuid.uuid4())
        self._drop_idle()
        if key not in self._environments:
            if len(self._environments) >= self._limit:
                raise CapacityError(f"all {self._limit} sessions are in use")
            self._environments[key] = IncidentEnvironment(self._store)
        self._used[key] = self._clock()
        return key, self._environments[key]

    def find(self, session_id: str) -> IncidentEnvironment:
        """The environment of a session that has begun, if need be from the store.

        Raises:
            EpisodeError: no such session or episode.
        """
        key = _checked(session_id) or DEFAULT
        if key in self._environments:
            self._used[key] = self._clock()
            return self._environments[key]
        for used, environment in self._environments.items():
            if environment.episode_id == key:
                self._used[used] = self._clock()
                return environment
        resumed = IncidentEnvironment(self._store)
        try:
            resumed.resume(key)
        except EpisodeError as error:
            raise EpisodeError(f"no session or episode {key!r}; POST /reset first") from error
        self._drop_idle()
        if len(self._environments) >= self._limit:
            raise CapacityError(f"all {self._limit} sessions are in use")
        self._environments[key], self._used[key] = resumed, self._clock()
        return resumed

    def close(self) -> None:
        """End all sessions."""
        for environment in self._environments.values():
            environment.close()
        self._environments.clear()
        self._used.clear()

    def _drop_idle(self) -> None:
        old = self._clock() - self._idle_s
        for key in [key for key, used in self._used.items() if used < old]:
            self._environments.pop(key).close()
            del self._used[key]


def _checked(session_id: str | None) -> str | None:
    if session_id is not None and len(session_id) > MAX_ID:
        raise EpisodeError(f"a session id has at most {MAX_ID} characters")
    return session_id or None
