"""Malformed and hostile requests: refused with the right status in the client's shape; no leak, no crash."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from sregym.gateway.model_relay import ModelRelay
from sregym.gateway.models import ModelAccess, Protocol, usage_in
from sregym.gateway.relay.asking import MAX_BODY
from tests.support.scripted_model import Say, scripted_model
from tests.support.servers import LOOPBACK, asgi_server
from tests.unit.gateway.relay_rig import KEY, PROVIDERS, ask, relay_and_model, url

CHAT, RESPONSES, MESSAGES, GEMINI = Protocol.CHAT, Protocol.RESPONSES, Protocol.MESSAGES, Protocol.GEMINI
SAY = [Say("hello")]


@dataclass(frozen=True)
class Case:
    name: str
    protocol: Protocol
    status: int
    change: dict[str, Any] = field(default_factory=dict)
    """To a good request."""
    content: bytes | None = None
    """Instead of it."""
    path: str = ""
    method: str = "POST"
    headers: dict[str, str] = field(default_factory=dict)


def image(url: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]


def block(**source: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "image", "source": source}]}]


def nested(block: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": [block]}]}]


def part(**part: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "parts": [part]}]


def item(**part: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [part]}]


MALFORMED = [
    Case(f"{kind} to {protocol}", protocol, 400, content=content)
    for protocol in Protocol
    for kind, content in {
        "nothing": b"",
        "no JSON": b"{",
        "no UTF-8": b'{"model": "\xff"}',
        "a list": b"[]",
        "a deep list": b"[" * 100_000,
        "no conversation": b'{"model": "tiny"}',
        "a number that is none": b'{"model": "tiny", "messages": [], "input": [], "contents": [], "max_tokens": NaN}',
        "a name twice": b'{"messages": [], "input": [], "contents": [], "model": "gpt-9", "model": "tiny"}',
    }.items()
]
HOSTILE = [
    Case("a model that is a list", CHAT, 404, {"model": ["tiny"]}),
    Case("a model that is an object", MESSAGES, 404, {"model": {"a": 1}}),
    Case("no model", RESPONSES, 404, {"model": None}),
    Case("a model with a path in it", GEMINI, 404, path="/v1beta/models/tiny%2F..%2F..%2Ffiles:generateContent"),
    Case("another model in a Gemini body", GEMINI, 404, {"model": "models/gemini-ultra"}),
    Case("another model to be counted with", GEMINI, 404, path="/v1beta/models/tiny:countTokens",
         content=json.dumps({"generateContentRequest": {"model": "models/other", "contents": []}}).encode()),
    Case("an unknown method of a model", GEMINI, 404, path="/v1beta/models/tiny:batchGenerateContent"),
    Case("a stream that is no event stream", GEMINI, 400, path="/v1beta/models/tiny:streamGenerateContent"),
    Case("a messages list that is text", CHAT, 400, {"messages": "hi"}),
    Case("contents that are a number", GEMINI, 400, {"contents": 1}),
    Case("stream that is text", CHAT, 400, {"stream": "yes"}),
    Case("stream options that are a list", CHAT, 400, {"stream": True, "stream_options": [1]}),
    Case("web search by option", CHAT, 400, {"web_search_options": {}}),
    Case("web search by tool", RESPONSES, 400, {"tools": [{"type": "web_search"}]}),
    Case("web search by an older tool", RESPONSES, 400, {"tools": [{"type": "web_search_preview"}]}),
    Case("a file search", RESPONSES, 400, {"tools": [{"type": "file_search", "vector_store_ids": ["v"]}]}),
    Case("a code interpreter", RESPONSES, 400, {"tools": [{"type": "code_interpreter"}]}),
    Case("an MCP server of the provider", RESPONSES, 400, {"tools": [{"type": "mcp", "server_url": "http://a"}]}),
    Case("a shell in the provider's container", RESPONSES, 400,
         {"tools": [{"type": "shell", "environment": {"type": "container_auto"}}]}),
    Case("a tool hidden in a namespace", RESPONSES, 400,
         {"tools": [{"type": "namespace", "tools": [{"type": "web_search"}]}]}),
    Case("a tool hidden in the input", RESPONSES, 400,
         {"input": [{"type": "additional_tools", "tools": [{"type": "web_search"}]}]}),
    Case("web search at Anthropic", MESSAGES, 400, {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
    Case("web fetch", MESSAGES, 400, {"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]}),
    Case("code execution", MESSAGES, 400, {"tools": [{"type": "code_execution_20250825", "name": "x"}]}),
    Case("MCP at Anthropic", MESSAGES, 400, {"mcp_servers": [{"type": "url", "url": "https://a"}]}),
    Case("a container", MESSAGES, 400, {"container": "c_1"}),
    Case("search at Google", GEMINI, 400, {"tools": [{"googleSearch": {}}]}),
    Case("search at Google, the other way to write it", GEMINI, 400, {"tools": [{"google_search": {}}]}),
    Case("a tool that is no list", GEMINI, 400, {"tools": {"urlContext": {}}}),
    Case("search beside functions", GEMINI, 400, {"tools": [{"functionDeclarations": [], "codeExecution": {}}]}),
    Case("cached content", GEMINI, 400, {"cachedContent": "cachedContents/1"}),
    Case("cached content, the other way to write it", GEMINI, 400, {"cached_content": "cachedContents/1"}),
    Case("a file by address", GEMINI, 400, {"contents": part(fileData={"fileUri": "https://a"})}),
    Case("a file by address, the other way to write it", GEMINI, 400, {"contents": part(file_data={"file_uri": "x"})}),
    Case("an image by address", CHAT, 400, {"messages": image("https://evil.example/?data=secret")}),
    Case("an image by address in capitals", CHAT, 400, {"messages": image(" HTTPS://evil.example/")}),
    Case("an image by address at Anthropic", MESSAGES, 400, {"messages": block(type="url", url="https://a")}),
    Case("a file of the account", MESSAGES, 400, {"messages": block(type="file", file_id="f")}),
    Case("an address inside a tool's result", MESSAGES, 400,
         {"messages": nested({"type": "image", "source": {"type": "url", "url": "https://a"}})}),
    Case("an image by address, responses", RESPONSES, 400, {"input": item(type="input_image", image_url="http://a")}),
    Case("a file of the account, responses", RESPONSES, 400, {"input": item(type="input_file", file_id="f")}),
    Case("a file by address, responses", RESPONSES, 400, {"input": item(type="input_file", file_url="http://a")}),
    Case("a reference to what is stored", RESPONSES, 400, {"input": [{"type": "item_reference", "id": "x"}]}),
    Case("an earlier response", RESPONSES, 400, {"previous_response_id": "resp_1"}),
    Case("a conversation", RESPONSES, 400, {"conversation": "c"}),
    Case("a stored prompt", RESPONSES, 400, {"prompt": {"id": "p"}}),
    Case("work in the background", RESPONSES, 400, {"background": True}),
    Case("a compressed body", CHAT, 415, headers={"content-encoding": "gzip"}),
    Case("a compressed body at Anthropic", MESSAGES, 415, headers={"content-encoding": "zstd"}),
    Case("too much", MESSAGES, 413, content=b'{"model": "tiny", "messages": ["' + b"x" * MAX_BODY + b'"]}'),
    Case("too much at Google", GEMINI, 413, content=b" " * (MAX_BODY + 1)),
    Case("files", CHAT, 404, path="/v1/files"),
    Case("embeddings", CHAT, 404, path="/v1/embeddings"),
    Case("a response by its id", RESPONSES, 404, path="/v1/responses/resp_1", method="GET"),
    Case("the deletion of a response", RESPONSES, 404, path="/v1/responses/resp_1", method="DELETE"),
    Case("batches at Anthropic", MESSAGES, 404, path="/v1/messages/batches"),
    Case("files at Google", GEMINI, 404, path="/v1beta/files"),
    Case("an upload at Google", GEMINI, 404, path="/upload/v1beta/files", headers={"x-goog-api-key": "d"}),
    Case("LiteLLM's own paths", CHAT, 404, path="/v1/key/generate"),
    Case("a path upwards", CHAT, 404, path="/v1/../../etc/passwd"),
    Case("a path with a null", CHAT, 404, path="/v1/%00"),
    Case("a path to a provider", CHAT, 404, path="/v1/chat/completions/https://evil.example"),
    Case("the wrong method", CHAT, 405, path="/v1/chat/completions", method="GET"),
    Case("the wrong method at Anthropic", MESSAGES, 405, path="/v1/messages", method="PUT"),
    Case("the wrong method at Google", GEMINI, 405, path="/v1beta/models", method="DELETE"),
]  # fmt: skip
CASES = [*MALFORMED, *HOSTILE]


def check_shape(protocol: Protocol, reply: httpx.Response) -> None:
    body = reply.json()
    error = body["error"]
    assert isinstance(error["message"], str)
    assert error["message"]
    if protocol is MESSAGES:
        assert body["type"] == "error"
        assert error["type"].endswith(("_error", "_large"))
    elif protocol is GEMINI:
        assert error["code"] == reply.status_code
        assert error["status"].isupper()
    else:
        assert {"message", "type", "param", "code"} == set(error)


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 60
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("translated", [False, True])
async def test_hostile_requests(tmp_path: Path, translated: bool) -> None:
    """All cases against one relay, which answers afterwards as before; once passed through and once translated."""
    failed: list[str] = []
    for protocol in Protocol:
        folder = tmp_path / protocol
        folder.mkdir()
        provider = (CHAT if protocol is not CHAT else MESSAGES) if translated else protocol
        more = {"model": PROVIDERS[provider.value], "speaks": (provider,)}
        async with relay_and_model(folder, SAY, **more) as (client, model):  # type: ignore[arg-type]
            for case in CASES:
                if case.protocol is protocol:
                    failed += [f"{case.name}: {why}" for why in await faults(client, case)]
            assert model.requests == []
            good = await client.get("/v1/models")
            assert good.status_code == 200
        assert usage_in(folder).calls == 0
    assert failed == []


async def faults(client: httpx.AsyncClient, case: Case) -> list[str]:
    """What is wrong with the answer to a case."""
    content = case.content
    if content is None and case.method == "POST":
        content = json.dumps({**ask(case.protocol), **case.change}).encode()
    path = case.path or url(case.protocol)
    reply = await client.request(case.method, path, content=content, headers=case.headers)
    found = [] if reply.status_code == case.status else [f"status {reply.status_code}: {reply.text[:200]}"]
    try:
        check_shape(case.protocol, reply)
    except (AssertionError, ValueError, KeyError, TypeError) as error:
        found.append(f"shape: {error!r} {reply.text[:200]}")
    secrets = (KEY, "token-of-this-attempt", "Traceback", "site-packages", str(Path.cwd()))
    return found + [f"says {secret!r}" for secret in secrets if secret in reply.text]


STRANGE: dict[Protocol, list[dict[str, Any]]] = {
    CHAT: [{"messages": [1]}, {"messages": [{"role": "user"}]}, {"tools": [{"type": "function"}]}, {"tools": "x"},
           {"messages": [{"role": "tool", "content": {"a": 1}}]}],
    RESPONSES: [{"input": [1]}, {"input": [{"type": "function_call_output"}]}, {"tools": [{"type": "function"}]},
                {"input": [{"role": "user", "content": 5}]}, {"reasoning": "much"}],
    MESSAGES: [{"messages": [1]}, {"messages": [{"role": "user", "content": 5}]}, {"tools": [{"name": 3}]},
               {"system": {"a": 1}}, {"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]},
               {"thinking": "hard"}],
    GEMINI: [{"contents": [1]}, {"contents": [{"parts": 5}]}, {"contents": part(functionResponse={"name": "x"})},
             {"contents": part(inlineData="x")}, {"tools": [{"functionDeclarations": [{}]}]},
             {"generationConfig": [1]}, {"generationConfig": {"candidateCount": 3}},
             {"contents": part(executableCode={})}],
}  # fmt: skip


@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore:Accessing the 'model_:DeprecationWarning", "ignore:Pydantic serializer:UserWarning")
async def test_strange_shapes_do_not_break_the_translation(tmp_path: Path) -> None:
    """They are refused, or answered by a provider that takes them; never a crash, always a known shape."""
    failed: list[str] = []
    for front, changes in STRANGE.items():
        provider = CHAT if front is not CHAT else MESSAGES
        folder = tmp_path / front
        folder.mkdir()
        more = {"model": PROVIDERS[provider.value], "speaks": (provider,)}
        async with relay_and_model(folder, SAY, **more) as (client, _):  # type: ignore[arg-type]
            for change in changes:
                reply = await client.post(url(front), content=json.dumps({**ask(front), **change}))
                if reply.status_code != 200:
                    try:
                        check_shape(front, reply)
                    except (AssertionError, ValueError, KeyError) as error:
                        failed.append(f"{front} {change}: {reply.status_code} {error!r} {reply.text[:200]}")
                if KEY in reply.text or "Traceback" in reply.text:
                    failed.append(f"{front} {change}: {reply.text[:300]}")
    assert failed == []


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"POST /v1/messages HTTP/9.9\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 5000 + b"\r\n",
        b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n",
        b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nshort",
    ],
)
async def test_what_is_hardly_http_ends_and_the_next_is_served(tmp_path: Path, sent: bytes) -> None:
    async with scripted_model(SAY) as model:
        access = ModelAccess(model="local/tiny", api_base=model.base)
        async with ModelRelay(access, key=KEY, folder=tmp_path, retries=0) as relay, asgi_server(relay.app()) as base:
            async with await anyio.connect_tcp(LOOPBACK, int(base.rpartition(":")[2])) as stream:
                await stream.send(sent)
                await stream.send_eof()
                said = b""
                with anyio.move_on_after(5):
                    try:
                        async for data in stream:
                            said += data
                    except anyio.BrokenResourceError:
                        pass
            assert b" 200 " not in said.partition(b"\r\n")[0]
            async with httpx.AsyncClient() as client:
                assert (await client.get(f"{base}/v1/models")).status_code == 200
        assert model.requests == []
