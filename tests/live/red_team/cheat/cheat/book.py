"""The book of attempts, and the tools that they share."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

IMAGE = os.environ["POD_IMAGE"]
CONTROL_PLANE, WORKER = os.environ["CONTROL_PLANE"], os.environ["WORKER"]
NAMESPACE = os.environ["NAMESPACE"]
CANARY = os.environ["CANARY"]
"""Begins whatever an attempt must not get to see. The test puts the rest of it elsewhere."""
REFUSALS = r"[Ff]orbidden|ValidatingAdmissionPolicy|not found|NotFound"


@dataclass(frozen=True)
class Finding:
    outcome: str
    evidence: str


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        return (self.err or self.out).strip()


Play = Callable[[], Finding]
ATTEMPTS: dict[str, tuple[str, Play]] = {}


def attempt(name: str, what: str) -> Callable[[Play], Play]:
    def enter(play: Play) -> Play:
        assert name not in ATTEMPTS, name
        ATTEMPTS[name] = (what, play)
        return play

    return enter


def refused(evidence: str) -> Finding:
    return Finding("refused", evidence)


def harmless(evidence: str) -> Finding:
    return Finding("harmless", evidence)


def succeeded(evidence: str) -> Finding:
    return Finding("SUCCEEDED", evidence)


def broken(evidence: str) -> Finding:
    return Finding("broken", evidence)


def judged(done: Done, pattern: str = REFUSALS) -> Finding:
    """Of a command that must fail, and say why."""
    if done.code == 0:
        return succeeded(done.out)
    return refused(done.said) if re.search(pattern, done.said) else broken(done.said)


def all_refused(findings: Iterable[Finding]) -> Finding:
    """The worst of several ways to the same end."""
    found = list(findings)
    for outcome in ("SUCCEEDED", "broken"):
        for one in found:
            if one.outcome == outcome:
                return one
    return Finding(found[0].outcome, f"{len(found)} ways: " + " | ".join(one.evidence[-120:] for one in found))


def run(*argv: str, stdin: str = "", within: float = 90) -> Done:
    try:
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=within, errors="replace")
    except subprocess.TimeoutExpired as error:
        return Done(124, "", f"no end within {within} s: {error}")
    except OSError as error:
        return Done(127, "", str(error))
    return Done(done.returncode, done.stdout, done.stderr)


def shell(script: str, within: float = 90) -> Done:
    return run("bash", "-c", script, within=within)


def kubectl(*argv: str, stdin: str = "", within: float = 90) -> Done:
    return run("kubectl", *argv, stdin=stdin, within=within)


def create(obj: dict[str, Any], *flags: str) -> Done:
    return kubectl("create", "-f", "-", *flags, stdin=json.dumps(obj))


def refused_kubectl(*argv: str, stdin: str = "", pattern: str = REFUSALS) -> Finding:
    return judged(kubectl(*argv, stdin=stdin), pattern)


def refused_object(obj: dict[str, Any], pattern: str = REFUSALS) -> Finding:
    return judged(create(obj), pattern)


def obj(kind: str, name: str, api: str = "v1", **more: Any) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, **more}


def pod(name: str, container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    main = {"name": "main", "image": IMAGE, "imagePullPolicy": "IfNotPresent", "command": ["sleep", "3600"]}
    wanted = {"terminationGracePeriodSeconds": 0, "containers": [{**main, **(container or {})}], **spec}
    return obj("Pod", name, spec=wanted)


def http(
    url: str, *, method: str = "GET", body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, str]:
    """Status and body; status 0 where nothing answers."""
    request = urllib.request.Request(url, data=body, method=method, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=90) as reply:
            return reply.status, reply.read(200_000).decode(errors="replace")
    except urllib.error.HTTPError as error:
        return error.code, error.read(200_000).decode(errors="replace")
    except OSError as error:
        return 0, str(error)


def post(url: str, body: Any, **headers: str) -> tuple[int, str]:
    return http(
        url, method="POST", body=json.dumps(body).encode(), headers={"Content-Type": "application/json", **headers}
    )


def answering(hosts: Iterable[str], ports: Iterable[int], within: float = 2.0) -> list[str]:
    """Which TCP ports answer."""

    def reach(where: tuple[str, int]) -> str | None:
        try:
            with socket.create_connection(where, timeout=within):
                return f"{where[0]}:{where[1]}"
        except OSError:
            return None

    wanted = [(host, port) for host in hosts for port in ports]
    with ThreadPoolExecutor(64) as pool:
        return [one for one in pool.map(reach, wanted) if one]
