"""Commands in containers over the WebSocket of `pods/exec` (protocol v5.channel.k8s.io, KEP 4006).

Each message starts with one byte that names its channel; the error channel brings a Status with the exit code; the
close message of v5 ends stdin, so that a command that reads to the end of its input ends too.

A limit of the server: where a command ends without having read an input of more than a pipe's size (64 KiB), the
container runtime may never report its end, and the deadline decides.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import aiohttp
import anyio

from sregym.cluster.contract import ExecResult
from sregym.cluster.objects import Ref, path_of
from sregym.cluster.tasks import first_error
from sregym.cluster.transport import Transport
from sregym.errors import ClusterError, Invalid, Unavailable

_STDIN, _STDOUT, _STDERR, _ERROR, _CLOSE = 0, 1, 2, 3, 255
_CHUNK = 32 * 1024
_V5, _V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
_NO_SUCH_PROGRAM = ("executable file not found", "no such file or directory")


async def run_in_container(
    transport: Transport, pod: Ref, argv: Sequence[str], *, container: str | None, stdin: str, within: float
) -> ExecResult:
    """See `Shell.exec`."""
    query = [("stdout", "true"), ("stderr", "true"), *(("command", word) for word in argv)]
    query += [("stdin", "true")] if stdin else []
    query += [("container", container)] if container else []
    path = path_of(pod.kind, pod.namespace, pod.name) + "/exec"
    try:
        with anyio.fail_after(within):
            async with transport.websocket(path, query=query, protocols=(_V5, _V4)) as socket:
                if stdin and socket.protocol != _V5:
                    raise Invalid(f"exec in {pod}: standard input needs Kubernetes 1.30 or newer")
                return await _talk(socket, stdin.encode(), pod)
    except TimeoutError:
        raise Unavailable(f"exec in {pod}: `{' '.join(argv)[:120]}` did not end in {within:g} s") from None


async def _talk(socket: aiohttp.ClientWebSocketResponse, stdin: bytes, pod: Ref) -> ExecResult:
    output: dict[int, bytearray] = {_STDOUT: bytearray(), _STDERR: bytearray(), _ERROR: bytearray()}
    failure: BaseException | None = None
    with first_error():
        async with anyio.create_task_group() as group:
            if stdin:
                group.start_soon(_feed, socket, stdin)
            async for message in socket:
                if message.type is aiohttp.WSMsgType.BINARY and message.data:
                    output.get(message.data[0], bytearray()).extend(message.data[1:])
                elif message.type is aiohttp.WSMsgType.ERROR:
                    failure = socket.exception()
            group.cancel_scope.cancel()
    stdout, stderr = (output[channel].decode(errors="replace") for channel in (_STDOUT, _STDERR))
    if not output[_ERROR]:
        raise Unavailable(f"exec in {pod}: the connection broke before the command ended: {failure or 'closed'}")
    return _result(bytes(output[_ERROR]), stdout, stderr, pod)


async def _feed(socket: aiohttp.ClientWebSocketResponse, data: bytes) -> None:
    try:
        for start in range(0, len(data), _CHUNK):
            await socket.send_bytes(bytes([_STDIN]) + data[start : start + _CHUNK])
        await socket.send_bytes(bytes([_CLOSE, _STDIN]))
    except (ConnectionError, aiohttp.ClientError):
        return  # the command ended without reading all of its input; its exit code says the rest


def _result(error: bytes, stdout: str, stderr: str, pod: Ref) -> ExecResult:
    status = json.loads(error)
    if status.get("status") == "Success":
        return ExecResult(code=0, stdout=stdout, stderr=stderr)
    for cause in status.get("details", {}).get("causes", ()):
        if cause.get("reason") == "ExitCode":
            return ExecResult(code=int(cause["message"]), stdout=stdout, stderr=stderr)
    message = str(status.get("message", error.decode(errors="replace")))
    if any(text in message for text in _NO_SUCH_PROGRAM):
        return ExecResult(code=127, stdout=stdout, stderr=stderr + message)
    raise _refused(status.get("code"), f"exec in {pod}: {message}")


def _refused(code: int | None, message: str) -> ClusterError:
    return Unavailable(message, status=code) if code is None or code >= 500 else Invalid(message, status=code)
