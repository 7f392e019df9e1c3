"""Malformed and hostile requests to the kube proxy, as bytes on the wire, with the status that each must get.

The same table is played against a recording server and against a real cluster. In both there are a namespace `shop`,
which the agent may see, and a namespace `vault`, which is hidden; whatever is in `vault` bears the name MARKER.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

TOKEN = "right"
VISIBLE, HIDDEN = "shop", "vault"
MARKER = "kept-from-view"
PODS = f"/api/v1/namespaces/{VISIBLE}/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


@dataclass(frozen=True, kw_only=True)
class Hostile:
    """One request, or several in a row.

    `code` is our own answer's, 0 for none (the connection is closed). None: the request goes on to the cluster, whose
    answer has one of the statuses `live`.
    """

    id: str
    raw: bytes
    code: int | None
    live: frozenset[int] = frozenset()


def request(
    target: str,
    *headers: str,
    method: str = "GET",
    body: bytes = b"",
    version: str = "HTTP/1.1",
    token: bool = True,
    host: str = "Host: x",
) -> bytes:
    """A request as it is written, nothing corrected. Characters are bytes (latin-1)."""
    lines = [f"{method} {target} {version}", *([host] if host else []), *headers]
    if token:
        lines.append(f"Authorization: Bearer {TOKEN}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def corpus() -> list[Hostile]:
    """All of them; ids are unique."""
    families: Sequence[tuple[str, Callable[[], Iterator[tuple[str, bytes, int | None, set[int]]]]]] = [
        ("path", _paths),
        ("hidden", _hidden),
        ("passing", _passing),
        ("list", _lists),
        ("table", _tables),
        ("accept", _accept),
        ("identity", _identity),
        ("token", _tokens),
        ("framing", _framing),
        ("head", _heads),
        ("method", _methods),
        ("upgrade", _upgrades),
        ("pipeline", _pipelines),
    ]
    return [
        Hostile(id=f"{family} {name}", raw=raw, code=code, live=frozenset(live))
        for family, make in families
        for name, raw, code, live in make()
    ]


Rows = Iterator[tuple[str, bytes, int | None, set[int]]]


def _paths() -> Rows:
    """Paths that two readers could understand differently."""
    for path in (
        "", "api", "api/v1/pods", "*", "//", "//api", "//api/v1/pods", "/api//v1/pods", "/api/v1//pods", "///",
        f"/api/v1/namespaces//{HIDDEN}/pods", f"/api/v1/namespaces/{VISIBLE}//pods", "/apis//apps/v1/deployments",
        "/./api/v1/pods", "/api/./v1/pods", "/api/v1/.", "/api/v1/..", "/../api/v1/pods", "/api/v1/%2e/pods",
        "/api/v1/%2e%2e/v1/pods", "/api/v1/%2E%2E/v1/pods", "/api/v1/.%2e/v1/pods", "/api/v1/%2e./v1/pods",
        f"{PODS}/../../{HIDDEN}/pods", f"{PODS}/%2e%2e/%2e%2e/{HIDDEN}/pods", f"{PODS}/..%2f..%2f{HIDDEN}%2fpods",
        f"/api/v1/namespaces/{VISIBLE}%2f..%2f{HIDDEN}/pods", f"/api/v1/namespaces/{HIDDEN}%2fpods",
        f"/api/v1/namespaces%2f{HIDDEN}%2fpods", f"/api%2fv1%2fnamespaces%2f{HIDDEN}%2fpods",
        f"/api/v1/namespaces/{HIDDEN}%252fpods", "/api/v1/namespaces/%2576ault/pods", "/api/v1/%25",
        f"/api/v1/namespaces/{HIDDEN}%00/pods", f"/api/v1/namespaces/%00{HIDDEN}/pods", "/api/v1/pods/%00",
        f"/api/v1/namespaces/{HIDDEN}%0a/pods", f"/api/v1/namespaces/{HIDDEN}%0d%0a/pods", "/api/v1/pods/%09",
        "/api/v1/pods/%1b%5b2J", "/api/v1/pods/%7f", "/api/v1/pods/a%0d%0aImpersonate-User:%20admin",
        f"/api/v1/namespaces\\{HIDDEN}\\pods", f"/api/v1/namespaces/{VISIBLE}\\..\\{HIDDEN}/pods",
        f"/api/v1/namespaces%5c{HIDDEN}/pods", f"/api/v1/namespaces/{VISIBLE}%5c..%5c{HIDDEN}/pods",
        "/api/v1/pods/%", "/api/v1/pods/%4", "/api/v1/pods/%zz", "/api/v1/pods/%u0041", "/api/v1/pods/%%41",
        "/api/v1/pods/%-1", "/api/v1/pods/%c0%af", "/api/v1/pods/%c0%ae%c0%ae", "/api/v1/pods/%e0%80%af",
        "/api/v1/pods/%f0%80%80%af", "/api/v1/pods/%ff", "/api/v1/pods/%fe%fe", "/api/v1/pods/%ed%a0%80",
        "/api/v1/pods/%f4%90%80%80", "/api/v1/pods/%c3", "/api/v1/pods/%80",
        "/api/v1/pods?labelSelector=%zz", "/api/v1/pods?labelSelector=%c0%af", "/api/v1/pods?%ff=1", "/api/v1/pods?%",
        f"/api/v1/namespaces/{VISIBLE}/services/web/proxy/../../../../{HIDDEN}/pods",
        f"/api/v1/namespaces/{VISIBLE}/services/web/proxy/%2e%2e/%2e%2e",
        f"/api/v1/namespaces/{VISIBLE}/pods/web/proxy/a/..", "/api/v1/nodes/n1/proxy/..",
        f"http://elsewhere/api/v1/namespaces/{HIDDEN}/pods", "https://kubernetes.default/api", "x://y/api",
        f"/{'a' * 9000}", f"/api/v1/pods?x={'b' * 9000}", f"/api/v1/pods/{'%41' * 3000}", f"/{'a/' * 4500}",
    ):  # fmt: skip
        yield _short(path), request(path), 400, set()
    for name, path in (("blank", "/api/v1/pods/a b"), ("tab", "/api\t/v1"), ("latin", "/api/v1/pods/\xe9")):
        yield name, request(path), 400, set()
    yield "raw utf-8", request("/api/v1/pods/\xc3\xa9"), 400, set()
    yield "raw zero", request("/api/v1/pods/\0"), 400, set()


def _hidden() -> Rows:
    """A hidden namespace by any name that means it; then names that only look like it."""
    for path in (
        f"/api/v1/namespaces/{HIDDEN}", f"/api/v1/namespaces/{HIDDEN}/", "/api/v1/namespaces/%76%61%75%6c%74",
        "/api/v1/namespaces/vaul%74/pods", "/api/v1/namespaces/va%75lt/pods?watch=1", "/%61pi/v1/namespaces/vault/pods",
        "/api/v1/%6eamespaces/vault/secrets", f"/api/v1/namespaces/{HIDDEN}/pods/{MARKER}",
        f"/api/v1/namespaces/{HIDDEN}/pods/{MARKER}/log", f"/api/v1/namespaces/{HIDDEN}/pods/{MARKER}/exec?command=id",
        f"/api/v1/namespaces/{HIDDEN}/pods/{MARKER}/proxy/", f"/api/v1/namespaces/{HIDDEN}/services/x/proxy/a//b",
        f"/api/v1/namespaces/{HIDDEN}/services/http:x:80/proxy/..%2f", f"/api/v1/namespaces/{HIDDEN}/status",
        f"/api/v1/namespaces/{HIDDEN}/finalize", f"/api/v1/watch/namespaces/{HIDDEN}",
        f"/api/v1/watch/namespaces/{HIDDEN}/pods", f"/api/v1/watch/namespaces/{HIDDEN}/pods/{MARKER}",
        f"/apis/apps/v1/namespaces/{HIDDEN}/deployments", f"/apis/apps/v1/namespaces/{HIDDEN}/deployments/x/scale",
        f"/apis/metrics.k8s.io/v1beta1/namespaces/{HIDDEN}/pods", f"/apis/events.k8s.io/v1/namespaces/{HIDDEN}/events",
        f"/apis/no.such.group/v9/namespaces/{HIDDEN}/things/x", f"/api/v1/namespaces/{HIDDEN}/serviceaccounts/a/token",
        f"/api/v1/namespaces/{HIDDEN}/pods?fieldSelector=metadata.namespace%3D{VISIBLE}",
    ):  # fmt: skip
        yield _short(path), request(path), 404, set()
    for method in ("POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"):
        raw = request(f"/api/v1/namespaces/{HIDDEN}/configmaps", "Content-Length: 2", method=method, body=b"{}")
        yield method, raw, 404, set()
    for path in ("nodes/n1/proxy", "nodes/n1/proxy/pods", "nodes/n1:10250/proxy/metrics", "nodes/https:n1:10250/proxy/",
                 "proxy/nodes/n1", "nodes/n1/proxy/run/vault/x/y?cmd=id", "nodes/n1/pr%6fxy/logs/"):  # fmt: skip
        yield f"node {path}", request(f"/api/v1/{path}"), 403, set()
    for name in ("VAULT", "Vault", "vault%20", "%20vault", "vault.", "vault%ef%bc%8f", "%ef%bd%96ault", "va%cc%81ult",
                 "vault;x", "vault:x", "vault,shop", "vault@shop"):  # fmt: skip
        yield f"like {name}", request(f"/api/v1/namespaces/{name}/pods/x"), None, {400, 403, 404}


def _passing() -> Rows:
    """Odd but well-formed requests, which are the cluster's to answer."""
    for path, live in (
        ("/", {200, 403}), ("/api/", {200}), ("/api", {200}), ("/apis/", {200}), ("/version", {200}),
        ("/version?a=b;c=d", {200}), ("/api/v1?x=%00", {200}), ("/healthz?verbose", {200}), ("/openapi/v2", {200}),
        (f"{PODS}/", {200, 403, 404}), (f"{PODS}/%c3%a9", {404}), (f"{PODS}/a%20b", {404}), (f"{PODS}/%3f", {404}),
        (f"{PODS}/x%3Fwatch=1", {404}), (f"{PODS}/%23", {404}), (f"{PODS}/web/nosuch", {403, 404}),
        (f"{PODS}?labelSelector=a%3Db%2Cc%20notin%20(d)", {200}), (f"{PODS}?labelSelector=%00", {200, 400}),
        (f"{PODS}?labelSelector=((", {400}), (f"{PODS}?fieldSelector=spec.secret%3Dx", {400}),
        (f"{PODS}?fieldSelector=metadata.name%3D{MARKER}", {200}), (f"{PODS}?limit=-1", {200, 400}),
        (f"{PODS}?limit=99999999999999999999", {400}), (f"{PODS}?continue=x", {400, 410}),
        (f"{PODS}?resourceVersion=-1", {400}), (f"{PODS}?resourceVersion=999999999999", {504, 400}),
        (f"{PODS}?watch=1&timeoutSeconds=1", {200}), (f"{PODS}?watch=1&watch=0&timeoutSeconds=1", {200}),
        (f"{PODS}?sendInitialEvents=1", {422, 400, 200}), (f"{PODS}?" + "&".join(f"a{i}=1" for i in range(900)), {200}),
        ("/api/v2/pods", {404}), ("/apis/apps/v1beta9/deployments", {403, 404}), ("/API/v1/pods", {403, 404}),
        ("/api/v1/namespaces/shop/namespaces/vault", {403, 404}), ("/metrics", {403}), ("/debug/pprof/", {403}),
        ("/logs/", {403}), ("/t/right/api", {200}), ("/.well-known/openid-configuration", {200, 403}),
        ("/api/v1/namespaces/shop/services/nosuch/proxy/a//b%2fc", {400, 403, 404, 503}),
    ):  # fmt: skip
        yield _short(path), request(path), None, live


def _lists() -> Rows:
    """Across namespaces there are hidden things in the answer, which must not be in ours."""
    for query in (
        "", "?limit=1", "?limit=500", "?pretty=1", "?pretty=true&limit=2", "?fieldSelector=metadata.namespace%3Dvault",
        "?fieldSelector=metadata.namespace%3D%3Dvault", f"?fieldSelector=metadata.name%3D{MARKER}",
        "?fieldSelector=metadata.namespace!%3Dshop", f"?labelSelector=name%3D{MARKER}", "?labelSelector=name",
        "?resourceVersion=0", "?resourceVersion=0&resourceVersionMatch=NotOlderThan", "?watch=0", "?watch=false",
        "?watch=False&limit=3", "?watch=0&watch=1", "?a;watch=1", "?Watch=1", "?includeObject=Object", "?as=vault",
        "?timeoutSeconds=1", "?allowWatchBookmarks=1", "?export=1", "?dryRun=All", "?x=%00", "?;", "?&&&", "?=&=",
    ):  # fmt: skip
        yield f"pods{query}", request(f"/api/v1/pods{query}"), None, {200, 400}
    for query in (
        "watch=1", "watch=true", "watch", "watch=", "watch=TRUE", "watch=yes", "w%61tch=%31", "watch=1&watch=0",
        "watch=1&allowWatchBookmarks=true", f"watch=1&fieldSelector=metadata.name%3D{MARKER}", "watch=1&pretty=1",
        "watch=1&fieldSelector=metadata.namespace%3Dvault", "watch=2;&watch=1", "watch=1&limit=1",
    ):  # fmt: skip
        yield f"watch {query}", request(f"/api/v1/pods?{query}&timeoutSeconds=1"), None, {200, 400}
    for path in (
        "/api/v1/watch/pods", "/api/v1/watch/namespaces", "/api/v1/watch/events", "/apis/apps/v1/watch/deployments",
    ):  # fmt: skip
        yield path, request(f"{path}?timeoutSeconds=1"), None, {200}
    for path in (
        "/api/v1/namespaces", "/api/v1/events", "/apis/events.k8s.io/v1/events", "/api/v1/configmaps",
        "/api/v1/serviceaccounts", "/api/v1/services", "/api/v1/persistentvolumes", "/api/v1/nodes",
        "/apis/apps/v1/deployments", "/apis/apps/v1/replicasets", "/apis/discovery.k8s.io/v1/endpointslices",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "/apis/rbac.authorization.k8s.io/v1/rolebindings",
        "/apis/coordination.k8s.io/v1/leases", "/api/v1/namespaces/default/events",
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    ):  # fmt: skip
        yield path, request(path), None, {200}


def _tables() -> Rows:
    for path in ("/api/v1/pods", "/api/v1/events", "/api/v1/namespaces", "/api/v1/persistentvolumes", "/api/v1/nodes"):
        for query in ("", "includeObject=None", "includeObject=Object", "includeObject=none", "includeObject=None;a",
                      "includeObject=Metadata&includeObject=None", "include%4fbject=None", "watch=1&timeoutSeconds=1",
                      "watch=1&timeoutSeconds=1&includeObject=None"):  # fmt: skip
            where = f"{path}?{query}" if query else path
            yield where, request(where, f"Accept: {TABLE}"), None, {200, 400}
    yield "spaced", request("/api/v1/persistentvolumes", "Accept: application/json ; as = Table ; v = v1"), None, {200}


def _accept() -> Rows:
    binary = "application/vnd.kubernetes.protobuf"
    for name, value in (
        ("protobuf", binary), ("cbor", "application/cbor"), ("yaml", "application/yaml"), ("parts", f" {binary} ;q=1"),
        ("case", binary.upper()), ("table", f"{binary};as=Table;v=v1;g=meta.k8s.io"), ("two", f"{binary},,{binary}"),
        ("stream", f"{binary};stream=watch"), ("seq", "application/cbor-seq"), ("both", f"{binary},application/cbor"),
    ):  # fmt: skip
        yield name, request(PODS, f"Accept: {value}"), 406, set()
    yield "two lines", request(PODS, f"Accept: {binary}", "Accept: application/cbor"), 406, set()
    for path in ("/api/v1/persistentvolumes", "/api/v1/events"):
        yield f"metadata of {path}", request(path, f"Accept: {PARTIAL}"), 406, set()
    yield "metadata of pods", request("/api/v1/pods", f"Accept: {PARTIAL}"), None, {200}
    for value in ("", "*/*", "application/*", "text/html", "application/json;q=0", "x", ";", "a/b;c=d;e", ",,,"):
        yield f"other {value!r}", request("/api/v1/pods", f"Accept: {value}"), None, {200, 406}
    yield "encoding", request("/api/v1/pods", "Accept-Encoding: gzip, br, zstd, *;q=0"), None, {200}


def _identity() -> Rows:
    """Whoever the client says it is, it is the agent's user; the recording server checks every one."""
    for header in (
        "Impersonate-User: system:admin", "impersonate-user: system:admin", "IMPERSONATE-GROUP: system:masters",
        "Impersonate-Uid: 0", "Impersonate-Extra-Scopes: all", "Impersonate-Extra-%41: x", "X-Remote-User: root",
        "X-Remote-Group: system:masters", "X-Remote-Extra-A: b", "X-Forwarded-For: 127.0.0.1", "Forwarded: for=1",
        "X-Forwarded-Uri: /x", "Cookie: a=b", "Proxy-Authorization: Basic YTpi", "X-Relay-Listener: api",
        "Connection: authorization", "Connection: impersonate-user, impersonate-group", "Connection: host",
        "Connection: close, x-a\r\nX-A: b", "TE: trailers", "Keep-Alive: timeout=1", "Proxy-Connection: keep-alive",
        "X-HTTP-Method-Override: DELETE", "X-Original-URL: /api/v1/namespaces/vault/pods", "X-Rewrite-URL: /x",
        "Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.YWRtaW4", "Audit-Id: x", "Range: bytes=0-1",
        "If-None-Match: *", "Max-Forwards: 0", "Expect: 200-maybe", "Expect: 100-continue", "Via: 1.1 x",
    ):  # fmt: skip
        yield header.partition("\r")[0], request(PODS, header), None, {200, 304, 400, 417}
    twice = ("Impersonate-User: a", "Impersonate-User: b", "Impersonate-Group: system:masters")
    yield "several", request(PODS, *twice), None, {200}


def _tokens() -> Rows:
    for name, headers in (
        ("none", []), ("wrong", ["Authorization: Bearer wrong"]), ("empty", ["Authorization: Bearer "]),
        ("basic", ["Authorization: Basic cmlnaHQ="]), ("bare", ["Authorization: right"]),
        ("no value", ["Authorization:"]), ("case", ["Authorization: Bearer RIGHT"]),
        ("two", ["Authorization: Bearer right", "Authorization: Bearer wrong"]),
        ("more", ["Authorization: Bearer right, right"]), ("prefix", ["Authorization: Bearer righ"]),
        ("query", ["X: y"]), ("cookie", ["Cookie: token=right"]), ("bytes", ["Authorization: Bearer \xff\xfe"]),
    ):  # fmt: skip
        target = "/api?token=right&access_token=right" if name == "query" else "/api"
        yield name, request(target, *headers, token=False), 401, set()
    for path in ("/t/wrong/api", "/t/", "/t", "/t//api", "/t/%72ight/api", "/T/right/api", "//t/right/api",
                 "/t/right%2fapi", "/t/righ/t/right/api", "/t?right", "/./t/right/api"):  # fmt: skip
        yield path, request(path, token=False), 401, set()
    yield "bytes in the path", request("/t/\xff/api", token=False), 400, set()
    yield "in the path", request("/t/right/api", token=False), None, {200}
    yield "path wins", request("/t/wrong/api"), 401, set()
    yield "path and dots", request("/t/right/../api", token=False), 400, set()
    yield "path and slash", request("/t/right//api", token=False), 400, set()
    yield "only", request("/t/right", token=False), None, {200, 403}
    yield "only and query", request("/t/right?a=b", token=False), None, {200, 403}


def _framing() -> Rows:
    """Bodies whose end two readers could see in different places (request smuggling), and broken ones."""
    inner = request(f"/api/v1/namespaces/{HIDDEN}/pods")
    post = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    for name, headers, body in (
        ("cl.te", ["Content-Length: 4", "Transfer-Encoding: chunked"], b"0\r\n\r\n" + inner),
        ("te.cl", ["Transfer-Encoding: chunked", "Content-Length: 4"], b"0\r\n\r\n" + inner),
        ("two lengths", ["Content-Length: 0", "Content-Length: 5"], b"12345"),
        ("list of lengths", ["Content-Length: 0, 5"], b"12345"),
        ("negative", ["Content-Length: -1"], b""), ("plus", ["Content-Length: +5"], b"12345"),
        ("hex", ["Content-Length: 0x5"], b"12345"), ("words", ["Content-Length: five"], b""),
        ("fraction", ["Content-Length: 5.0"], b"12345"), ("blank inside", ["Content-Length: 1 2"], b""),
        ("empty", ["Content-Length:"], b""), ("endless", [f"Content-Length: {'9' * 40}"], b""),
        ("bad size", ["Transfer-Encoding: chunked"], b"zz\r\nabc\r\n0\r\n\r\n"),
        ("negative size", ["Transfer-Encoding: chunked"], b"-1\r\nabc\r\n0\r\n\r\n"),
        ("size too long", ["Transfer-Encoding: chunked"], b"f" * 40 + b"\r\nabc"),
        ("no end of chunk", ["Transfer-Encoding: chunked"], b"3\r\nabcXX0\r\n\r\n"),
        ("space in name", ["Transfer-Encoding : chunked"], b"0\r\n\r\n"),
        ("folded", ["Transfer-Encoding:\r\n chunked", "Content-Length: 3"], b"abc"),
        ("chunked in 1.0", ["Transfer-Encoding: chunked", "Connection: keep-alive"], b"0\r\n\r\n"),
    ):  # fmt: skip
        version = "HTTP/1.0" if name.endswith("1.0") else "HTTP/1.1"
        yield name, request(post, *headers, method="POST", body=body, version=version), 400, set()
    for coding in ("gzip", "identity", "gzip, chunked", "chunked, chunked", "xchunked", "chunked;q=1", "\x0bchunked"):
        raw = request(post, f"Transfer-Encoding: {coding}", method="POST", body=b"0\r\n\r\n")
        yield f"coding {coding!r}", raw, 400 if coding.startswith("\x0b") else 501, set()
    json_type = "Content-Type: application/json"
    chunked = (json_type, "Transfer-Encoding: Chunked")
    fine = b"2;ext=x\r\n{}\r\n0\r\nTrailer-A: b\r\nImpersonate-User: admin\r\n\r\n"
    yield "trailers", request(post, *chunked, method="POST", body=fine), None, {201, 400, 422}
    same = (json_type, "Content-Length: 2", "Content-Length: 2")
    yield "same lengths", request(post, *same, method="POST", body=b"{}"), None, {201, 400, 422}
    yield "body of get", request(PODS, "Content-Length: 5", body=b"12345"), None, {200}
    deep = b"[" * 100_000
    long = (json_type, f"Content-Length: {len(deep)}")
    yield "deep JSON", request(post, *long, method="POST", body=deep), None, {400}
    yield "not UTF-8", request(post, json_type, "Content-Length: 2", method="POST", body=b"\xff\xfe"), None, {400}
    bomb = ("Content-Encoding: gzip", json_type, "Content-Length: 2")
    yield "bomb", request(post, *bomb, method="POST", body=b"\x1f\x8b"), None, {400, 415}


def _heads() -> Rows:
    yield "long line", request("/api", f"X-A: {'a' * 70_000}"), 431, set()
    yield "many lines", request("/api", *(f"X-{i}: {'a' * 100}" for i in range(900))), 431, set()
    yield "no end", b"GET /api HTTP/1.1\r\n" + b"X-A: b\r\n" * 20_000, 431, set()
    yield "endless method", b"A" * 100_000, 431, set()
    yield "two hosts", request("/api", "Host: y"), 400, set()
    yield "no host", request("/api", host=""), 400, set()
    yield "odd host", request("/api", host="Host: vault.svc:443"), None, {200}
    yield "empty host", request("/api", host="Host:"), None, {200}
    for name, header in (
        ("no colon", "X-A"), ("no name", ": b"), ("space before colon", "X-A : b"), ("zero", "X-A: \0"),
        ("zero in name", "X\0A: b"), ("return", "X-A: a\rb"), ("latin name", "X-\xe9: b"), ("quote", 'X"A: b'),
        ("slash", "X/A: b"), ("leading blank", " X-A: b"),
    ):  # fmt: skip
        yield name, request("/api", header, host=header if name == "leading blank" else "Host: x"), 400, set()
    yield "escape", request("/api", "X-A: \x1b[2J"), None, {200, 400}
    yield "latin value", request("/api", "X-A: \xe9"), None, {200}
    yield "bare newlines", request("/api").replace(b"\r\n", b"\n"), None, {200}
    yield "tabs", request("/api", "X-A:\tb\t"), None, {200}


def _methods() -> Rows:
    for method in ("CONNECT", "TRACE", "PROPFIND", "get", "Get", "LIST", "WATCH", "PRI", "A" * 300):
        yield _short(method), request("/api", method=method), 405, set()
    yield "connect", request("vault.svc:443", method="CONNECT"), 400, set()
    yield "options", request("*", method="OPTIONS"), 400, set()
    for method in ("G T", "G\0T", "", "GET\t", "(GET)", "G\xc9T"):
        yield f"bad {method!r}", request("/api", method=method), 400, set()
    for version in ("HTTP/0.9", "HTTP/2.0", "HTTP/1.2", "HTTP/9.9", "HTTP/11", "HTTP/1", "http/1.1", "HTTP/1.1 x", ""):
        code = {"HTTP/1.2": None, "HTTP/0.9": 505, "HTTP/2.0": 505, "HTTP/9.9": 505}.get(version, 400)
        yield f"version {version!r}", request("/api", version=version), code, {200, 505}
    yield "1.0", request("/api", version="HTTP/1.0"), None, {200}
    yield "preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, set()
    yield "tls", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, set()
    yield "half", b"GET\r\n\r\n", 400, set()
    yield "zeros", b"\0" * 100 + b"\r\n\r\n", 400, set()
    yield "nothing", b"", 0, set()
    yield "cut off", b"GET /api HTT", 400, set()
    yield "head", request("/api", method="HEAD"), None, {200, 403, 405}
    yield "options of a resource", request(PODS, method="OPTIONS"), None, {200, 403, 405}


def _upgrades() -> Rows:
    """Only exec and its like become tunnels; all else is answered as if no upgrade had been asked for."""
    spdy = ("Connection: Upgrade", "Upgrade: SPDY/3.1")
    socket = ("Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
              "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")  # fmt: skip
    for name, how in (("spdy", spdy), ("websocket", socket)):
        for path in ("/api/v1/pods", "/api/v1/pods?watch=1&timeoutSeconds=1", "/api/v1/watch/pods?timeoutSeconds=1",
                     "/api/v1/events?watch=1&timeoutSeconds=1", "/api/v1/namespaces", PODS, "/version"):  # fmt: skip
            yield f"{name} {path}", request(path, *how), None, {200}
        yield f"{name} hidden", request(f"/api/v1/namespaces/{HIDDEN}/pods/x/exec?command=id", *how), 404, set()
        yield f"{name} node", request("/api/v1/nodes/n1/proxy/exec", *how), 403, set()
    h2c = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA")
    yield "h2c", request("/version", *h2c), None, {200}
    yield "h2c exec", request(f"{PODS}/nosuch/exec?command=id", *h2c), None, {400, 404}
    yield "tls", request("/version", "Connection: Upgrade", "Upgrade: TLS/1.0"), None, {200}
    yield "no connection", request(f"{PODS}/nosuch/exec?command=id", "Upgrade: SPDY/3.1"), None, {400, 404}
    yield "nothing named", request(f"{PODS}/nosuch/exec?command=id", "Connection: Upgrade"), None, {400, 404}


def _pipelines() -> Rows:
    """Several requests at once; the code is that of the first, and MARKER is in none of the answers."""
    hidden = request(f"/api/v1/namespaces/{HIDDEN}/pods/{MARKER}")
    yield "hidden second", request(PODS) + hidden, None, {200}
    yield "hidden first", hidden + request("/api"), 404, set()
    yield "junk second", request("/api") + b"\0\0\0\r\n\r\n", None, {200}
    yield "bad first", request("//api") + hidden, 400, set()
    yield "no token second", request("/api") + request("/api", token=False), None, {200}
    yield "twenty", request("/api") * 20, None, {200}
    yield "after close", request("/api", "Connection: close") + hidden, None, {200}
    posted = request(
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        *("Content-Type: application/json", "Content-Length: 2"),
        method="POST",
        body=b"{}" + hidden,
    )
    yield "in a body's shadow", posted, None, {201, 400, 422}


def _short(text: str) -> str:
    return text if len(text) <= 90 else f"{text[:60]}...({len(text)})"
