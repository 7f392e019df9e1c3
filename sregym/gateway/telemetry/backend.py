"""One server of the observability stack, asked through the API server, so that any kubeconfig will do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

import anyio
import httpcore

from sregym.errors import PrerequisiteError
from sregym.gateway.upstream import Upstream

ANSWER_WITHIN_S = 30.0
MAX_ANSWER = 8 * 1024 * 1024
"""Bytes. Larger answers are refused with advice: nobody reads them, and the gateway holds them in memory."""
FORM = b"application/x-www-form-urlencoded"

Parameters = Sequence[tuple[str, str]]


class BackendDown(Exception):
    """The server cannot be reached now; the text says why."""


class TooLarge(Exception):
    """The answer is larger than `MAX_ANSWER`."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the server said."""

    status: int
    body: bytes
    content_type: str = "application/json"


@dataclass(frozen=True, kw_only=True)
class Backend:
    """A Service, `name:port`, in a namespace."""

    upstream: Upstream
    namespace: str
    service: str

    async def get(self, path: str, parameters: Parameters = ()) -> Answer:
        """Raises BackendDown, TooLarge."""
        return await self.ask("GET", path, urlencode(parameters))

    async def ask(self, method: str, path: str, query: str = "", form: bytes | None = None) -> Answer:
        """Send one request. `path` is decoded; `query` and `form` are encoded. Raises BackendDown, TooLarge."""
        target = f"/api/v1/namespaces/{self.namespace}/services/{self.service}/proxy{quote(path)}"
        headers = [(b"accept", b"application/json")]
        if form is not None:
            headers += [(b"content-type", FORM), (b"content-length", str(len(form)).encode())]
        try:
            with anyio.fail_after(ANSWER_WITHIN_S):
                return await self._exchange(method, f"{target}?{query}" if query else target, headers, form)
        except TimeoutError:
            raise BackendDown(f"no answer within {ANSWER_WITHIN_S:g} s") from None
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, PrerequisiteError) as error:
            raise BackendDown("the cluster's API server cannot be reached") from error

    async def _exchange(
        self, method: str, target: str, headers: Sequence[tuple[bytes, bytes]], form: bytes | None
    ) -> Answer:
        response = await self.upstream.send(method.encode(), target, headers, form)
        try:
            body = bytearray()
            async for piece in response.aiter_stream():
                body += piece
                if len(body) > MAX_ANSWER:
                    raise TooLarge
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()
        kinds = [value.decode("latin-1") for name, value in response.headers if name.lower() == b"content-type"]
        answer = Answer(status=response.status, body=bytes(body), content_type=kinds[0] if kinds else "text/plain")
        if said := _refusal_of_the_proxy(answer):
            raise BackendDown(said)
        return answer


def _refusal_of_the_proxy(answer: Answer) -> str | None:
    """What the API server says where it could not reach the Service: a Status, which no server of the stack sends."""
    if answer.status < 400 or not answer.content_type.startswith("application/json"):
        return None
    try:
        value: object = json.loads(answer.body)
    except ValueError:
        return None
    if not isinstance(value, Mapping) or value.get("kind") != "Status":
        return None
    return str(value.get("message") or value.get("reason") or f"status {answer.status}")
