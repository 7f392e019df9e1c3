"""A server in a child process, for tests that must see the real thing (sockets, signals, files)."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

PACKAGE = Path(__file__).resolve().parents[3] / "sregym" / "incidentops"
STARTS_WITHIN_S = 150.0


@dataclass
class Served:
    """A running server."""

    url: str
    process: subprocess.Popen[bytes]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def served(db: str, **environment: str) -> Iterator[Served]:
    """`uvicorn server.app:app` in the package folder, as the README says."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "server.app:app", "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--log-level", "error"], cwd=PACKAGE, env=os.environ | {"INCIDENTOPS_DB": db} | environment
    )
    url = f"http://127.0.0.1:{port}"
    try:
        wait(url, process)
        yield Served(url=url, process=process)
    finally:
        process.terminate()
        process.wait(timeout=60)


def wait(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < deadline:
        assert process.poll() is None, "the server ended"
        try:
            if httpx.get(f"{url}/health", timeout=2).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    raise TimeoutError(f"{url} did not come up in {STARTS_WITHIN_S} s")
