"""The submission API: shapes, status codes, and bodies that are no submissions."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from sregym.gateway.desk import AppInfo, Desk, Stage
from sregym.gateway.identity import TokenGate
from sregym.gateway.submission import MAX_BODY, submission_app
from sregym.gateway.web import Guarded

APP = AppInfo(app_name="shop", namespace="shop", namespaces=("shop", "db"), descriptions="A shop.")


@asynccontextmanager
async def client(desk: Desk, token: str = "right") -> AsyncIterator[httpx.AsyncClient]:
    app = Guarded(submission_app(desk), TokenGate("right"))
    headers = {"authorization": f"Bearer {token}"}
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers) as found:
        yield found


async def test_a_whole_session() -> None:
    desk = Desk(APP)
    async with client(desk) as agent:
        assert (await agent.get("/status")).json() == {"stage": "setup"}
        assert (await agent.post("/submit", json={"solution": "x"})).status_code == 503
        desk.open()
        app = (await agent.get("/get_app")).json()
        assert app == {"app_name": "shop", "namespace": "shop", "namespaces": ["shop", "db"], "descriptions": "A shop."}
        first = await agent.post("/submit", json={"solution": "cause"})
        assert (first.status_code, first.json()["status"], first.json()["stage"]) == (200, "200", "mitigation")
        again = await agent.post("/submit", json={"solution": "cause", "stage": "diagnosis"})
        assert (again.status_code, again.json()["stage"]) == (400, "mitigation")
        assert (await agent.post("/submit", json={"solution": ""})).status_code == 200
        assert (await agent.get("/status")).json() == {"stage": "tearing_down"}
        late = await agent.post("/submit", json={"solution": ""})
        assert (late.status_code, late.json()["status"]) == (200, "done")


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff\xfe\x00binary", b"not json", b"[]", b"null", b'{"answer": "x"}', b'{"solution": 7}',
     b'{"solution": "x", "stage": "noise"}', b'{"solution": "x", "stage": "done"}', b"[" * 100_000],
    ids=["empty", "binary", "text", "list", "null", "no-solution", "number", "unknown-stage", "other-stage", "deep"],
)  # fmt: skip
async def test_what_is_no_submission_is_refused_and_explained(body: bytes) -> None:
    desk = Desk(APP)
    desk.open()
    async with client(desk) as agent:
        reply = await agent.post("/submit", content=body)
    assert reply.status_code == 400
    assert "solution" in reply.json()["message"]
    assert desk.status() is Stage.DIAGNOSIS


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_is_too_large_is_refused(chunked: bool) -> None:
    desk = Desk(APP)
    desk.open()

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(1024):
            yield b"x" * 1024

    async with client(desk) as agent:
        reply = await agent.post("/submit", content=pieces() if chunked else b"x" * 1024 * 1024)
    assert reply.status_code == 413
    assert str(MAX_BODY) in reply.json()["message"]
    assert desk.status() is Stage.DIAGNOSIS


@pytest.mark.parametrize("token", ["", "wrong", "right ", "righ"])
async def test_without_the_right_token_nothing_is_said(token: str) -> None:
    desk = Desk(APP)
    desk.open()
    async with client(desk, token) as agent:
        replies = [await agent.get("/status"), await agent.post("/submit", json={"solution": "x"})]
    expected = 200 if token.strip() == "right" else 401
    assert [reply.status_code for reply in replies] == [expected, expected]


async def test_the_token_may_stand_in_the_path() -> None:
    desk = Desk(APP)
    async with client(desk, "") as person:
        assert (await person.get("/t/right/status")).json() == {"stage": "setup"}
        assert (await person.get("/t/wrong/status")).status_code == 401
        assert (await person.get("/t/right/nothing")).status_code == 404


async def test_a_shut_gate_stays_shut() -> None:
    gate = TokenGate("right")
    app = Guarded(submission_app(Desk(APP)), gate)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as agent:
        assert (await agent.get("/t/right/status")).status_code == 200
        gate.shut()
        assert (await agent.get("/t/right/status")).status_code == 401
