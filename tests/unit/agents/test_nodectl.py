"""nodectl: words of a command line as the request that the node tool understands."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sregym.agents.workstation.oncall import nodectl
from sregym.gateway.node.tool import catalogue, parse

OPERATIONS = {one["op"]: one for one in catalogue()}


@pytest.mark.parametrize(
    ("words", "request_"),
    [
        ("service restart kubelet", {"action": "restart", "unit": "kubelet"}),
        ("journal --unit kubelet --lines 100", {"unit": "kubelet", "lines": 100}),
        ("journal kubelet --grep=9", {"unit": "kubelet", "grep": "9"}),
        ("kubelet-set maxPods 110", {"key": "maxPods", "value": 110}),
        (
            'kubelet-set evictionHard {"memory.available":"5%"}',
            {"key": "evictionHard", "value": {"memory.available": "5%"}},
        ),
        ("kubelet-set maxPods null", {"key": "maxPods", "value": None}),
        ("disk-free --inodes", {"inodes": True}),
        ("sysctl-write net.core.somaxconn 4096", {"key": "net.core.somaxconn", "value": "4096"}),
        (
            "conntrack delete --protocol udp --destination_port 53",
            {"action": "delete", "protocol": "udp", "destination_port": 53},
        ),
        ("kill 812 KILL", {"pid": 812, "signal": "KILL"}),
        ("time", {}),
    ],
)
def test_words_become_a_valid_request(words: str, request_: dict[str, Any]) -> None:
    op, *rest = words.split(" ")
    assert nodectl.arguments(OPERATIONS[op], rest) == request_
    parse({"op": op, **request_})


@pytest.mark.parametrize("words", ["time now", "journal --nonsense 1", "service --action"])
def test_what_cannot_be_meant_is_said(words: str) -> None:
    op, *rest = words.split(" ")
    with pytest.raises(nodectl.Stop):
        nodectl.arguments(OPERATIONS[op], rest)


@pytest.mark.parametrize("op", OPERATIONS)
def test_every_operation_is_described(op: str) -> None:
    text = nodectl.described(OPERATIONS[op])
    assert all(f"--{name}" in text for name in OPERATIONS[op]["arguments"])


class _Desk(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._say(200, {"nodes": ["w1"], "operations": catalogue()})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body["op"] == "time":
            self._say(200, {"node": "w1", "op": "time", "ok": self.path == "/nodes/w1", "text": "now"})
        else:
            self._say(403, {"error": "out of reach"})

    def _say(self, status: int, body: dict[str, Any]) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Desk) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("API_URL", f"http://127.0.0.1:{server.server_address[1]}")
        yield
        server.shutdown()
        thread.join()


@pytest.mark.usefixtures("desk")
def test_statuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert nodectl.main(["w1", "time"]) == 0
    assert capsys.readouterr().out == "now\n"
    assert nodectl.main(["w2", "time"]) == 1
    assert nodectl.main(["w1", "remove-file", "/etc/passwd"]) == 2
    assert "out of reach" in capsys.readouterr().err
    assert nodectl.main(["w1", "nonsense"]) == 2
    assert nodectl.main(["list"]) == 0
    assert nodectl.main([]) == 0
