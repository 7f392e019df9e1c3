"""A real HTTP request to a Service or pod, from inside the cluster's network, leaving nothing behind in the cluster.

On clusters whose nodes we can enter, `curl` runs on a node: a fresh connection through the node's own kube-proxy
rules, as a pod's would go. Elsewhere the API server's proxy makes it. Names are resolved through the API.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import anyio

from sregym.cluster.contract import ExecResult, HttpReply, NodeShell, Reader, Selection
from sregym.cluster.objects import ENDPOINTSLICE, POD, SERVICE, Ref, dig, ref_of
from sregym.cluster.transport import Transport
from sregym.errors import ClusterError, DefinitionError, Unavailable

_SEPARATOR = "\x1e"
_NO_SUCH_NAME = "no such name in the cluster"
_WRITE_NAMES = "{!r}: write service.namespace or an address; short names depend on who asks"
_CURL_ITSELF = frozenset({1, 2, 3, 4, 27, 43, 48})
"""Exit codes of curl that speak of our call (curl(1), EXIT CODES), not of the server."""
_SHELL_ITSELF = frozenset({125, 126, 127})
_SLACK_S = 10.0
"""What starting a command on a node may take on a busy machine, beyond the request's own deadline."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One HTTP request, with its URL taken apart."""

    url: str
    method: str
    headers: Mapping[str, str]
    body: str | None
    within: float

    @property
    def host(self) -> str:
        host = urlsplit(self.url).hostname
        if not host:
            raise DefinitionError(f"{self.url!r} names no host")
        return host

    @property
    def port(self) -> int:
        parts = urlsplit(self.url)
        return parts.port or (443 if parts.scheme == "https" else 80)


async def from_node(reader: Reader, shell: NodeShell, request: Request) -> HttpReply:
    """Sends a request with curl from a node; another node is tried where one cannot be entered."""
    address = await _address(reader, request.host)
    if address is None:
        return HttpReply(status=0, error=f"{request.host}: {_NO_SUCH_NAME}")
    argv = _curl(request, address)
    failures: list[str] = []
    for node in sorted(shell.nodes, key=lambda name: ("control-plane" in name, name)):
        try:
            done = await shell.run(node, argv, stdin=request.body or "", within=request.within + _SLACK_S)
            return _reply_of_curl(done)
        except Unavailable as error:
            failures.append(f"{node}: {error}")
    raise Unavailable(f"no node could send a request to {request.url}: {'; '.join(failures) or 'there are no nodes'}")


def _curl(request: Request, address: str) -> Sequence[str]:
    bracketed = f"[{address}]" if ":" in address else address
    argv = ["curl", "--silent", "--globoff", "--noproxy", "*", "--max-time", f"{request.within:g}"]
    argv += ["--resolve", f"{request.host}:{request.port}:{bracketed}", "--request", request.method]
    argv += [] if request.method != "HEAD" else ["--head"]
    for name, value in request.headers.items():
        argv += ["--header", f"{name}: {value}"]
    argv += ["--data-binary", "@-"] if request.body is not None else []
    if request.body is not None and not any(name.lower() == "content-type" for name in request.headers):
        argv += ["--header", "Content-Type: application/json"]
    return [*argv, "--write-out", f"%{{stderr}}{_SEPARATOR}%{{header_json}}{_SEPARATOR}%{{json}}", request.url]


def _reply_of_curl(done: ExecResult) -> HttpReply:
    parts = done.stderr.split(_SEPARATOR)
    if done.code in _CURL_ITSELF | _SHELL_ITSELF or len(parts) < 3:
        raise Unavailable(f"curl on the node ended with {done.code}: {done.stderr[:300]}")
    facts = json.loads(parts[2])
    seconds = float(facts.get("time_total", 0.0))
    status = int(facts.get("http_code", facts.get("response_code", 0)))
    if done.code != 0 or status == 0:
        error = facts.get("errormsg") or f"curl ended with {done.code}"
        return HttpReply(status=0, body=done.stdout, seconds=seconds, error=str(error))
    headers = {name.lower(): ", ".join(values) for name, values in json.loads(parts[1] or "{}").items()}
    return HttpReply(status=status, body=done.stdout, headers=headers, seconds=seconds)


async def _address(reader: Reader, host: str) -> str | None:
    """Where cluster DNS would send a client; None where it knows no such name."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    labels = _labels(host)
    if len(labels) == 2:
        return await _address_of_service(reader, Ref(SERVICE, labels[0], labels[1]))
    if len(labels) == 3:  # a pod of a headless Service: pod.service.namespace
        pod = await reader.find(Ref(POD, labels[0], labels[2]))
        address = dig(pod, "status", "podIP")
        return str(address) if address else None
    raise DefinitionError(_WRITE_NAMES.format(host))


async def _address_of_service(reader: Reader, ref: Ref) -> str | None:
    found = await reader.find(ref)
    if found is None:
        return None
    if external := dig(found, "spec", "externalName"):
        return await _address(reader, str(external))
    cluster_ip = dig(found, "spec", "clusterIP", default="None")
    if cluster_ip != "None":
        return str(cluster_ip)
    selection = Selection(kind=ENDPOINTSLICE, namespace=ref.namespace, labels=f"kubernetes.io/service-name={ref.name}")
    for piece in await reader.list(selection):
        for endpoint in piece.get("endpoints") or ():
            if dig(endpoint, "conditions", "ready", default=True) and endpoint.get("addresses"):
                return str(endpoint["addresses"][0])
    return None


async def through_api_server(reader: Reader, transport: Transport, request: Request) -> HttpReply:
    """Sends a request through the API server's proxy (its answer's headers stay unknown).

    Differs from a pod's view in one thing: the API server picks an endpoint itself, past kube-proxy.
    """
    target = await _proxied(reader, request.host)
    if target is None:
        return HttpReply(status=0, error=f"{request.host}: {_NO_SUCH_NAME}")
    parts = urlsplit(request.url)
    scheme = "https:" if parts.scheme == "https" else ""
    where = f"/api/v1/namespaces/{target.namespace}/{target.kind.plural}/{scheme}{target.name}:{request.port}"
    path = f"{where}/proxy{parts.path or '/'}" + (f"?{parts.query}" if parts.query else "")
    begun = anyio.current_time()
    status, body = await transport.proxied(
        request.method, path, body=request.body, headers=request.headers, within=request.within
    )
    seconds = anyio.current_time() - begun
    if (error := _error_of_proxy(status, body)) is not None:
        return HttpReply(status=0, seconds=seconds, error=error)
    return HttpReply(status=status, body=body, seconds=seconds)


async def _proxied(reader: Reader, host: str) -> Ref | None:
    """The Service or pod that a host is, which is how the API server's proxy calls it; None where there is none."""
    try:
        address = str(ipaddress.ip_address(host))
    except ValueError:
        labels = _labels(host)
        if len(labels) == 2:
            return Ref(SERVICE, labels[0], labels[1])
        if len(labels) == 3:
            return Ref(POD, labels[0], labels[2])
        raise DefinitionError(_WRITE_NAMES.format(host)) from None
    for kind, *path in ((POD, "status", "podIP"), (SERVICE, "spec", "clusterIP")):
        for found in await reader.list(Selection(kind=kind)):
            ended = dig(found, "status", "phase") in ("Succeeded", "Failed")  # its address may be another's by now
            if dig(found, *path) == address and not ended:
                return ref_of(found, kind)
    return None


def _labels(host: str) -> list[str]:
    return host.removesuffix(".").removesuffix(".cluster.local").removesuffix(".svc").split(".")


def _error_of_proxy(status: int, body: str) -> str | None:
    """What the API server itself says about a Service that it could not reach."""
    if status < 400:
        return None
    try:
        answer = json.loads(body)
    except ValueError:
        return None
    if not isinstance(answer, dict) or answer.get("kind") != "Status":
        return None
    if status in (401, 403):
        raise ClusterError(f"the service proxy may not be used: {answer.get('message')}", status=status)
    return str(answer.get("message", f"status {status}"))
