"""Nodes in memory: enough of systemd, files, sysctl and ps for what runs commands on nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sregym.cluster.contract import ExecResult
from sregym.errors import Unavailable

KUBELET = "/var/lib/kubelet/config.yaml"
CONFIG = """apiVersion: kubelet.config.k8s.io/v1beta1
authentication:
  x509:
    clientCAFile: /etc/kubernetes/pki/ca.crt
kind: KubeletConfiguration
maxPods: 110
"""


@dataclass
class FakeNodes:
    """A `NodeShell`. `commands` are all argument lists, without the time limit before them; `script` answers others."""

    nodes: Sequence[str] = ("c-control-plane", "c-worker", "c-worker2")
    own_kernel: bool = False
    units: dict[str, bool] = field(default_factory=lambda: {"kubelet": True, "containerd": True, "sshd": True})
    files: dict[str, str] = field(default_factory=lambda: {KUBELET: CONFIG})
    sysctls: dict[str, str] = field(default_factory=lambda: {"net.ipv4.ip_forward": "1", "vm.swappiness": "60"})
    script: Callable[[Sequence[str]], ExecResult] | None = None
    broken: bool = False
    commands: list[list[str]] = field(default_factory=list)

    async def run(self, node: str, argv: Sequence[str], *, stdin: str = "", within: float = 30.0) -> ExecResult:
        if self.broken:
            raise Unavailable(f"node {node}: gone")
        command = list(argv[3:] if argv[0] == "timeout" else argv)
        self.commands.append(command)
        return self._answer(command, stdin)

    def _answer(self, argv: list[str], stdin: str) -> ExecResult:
        match argv:
            case ["systemctl", "is-active", "--", unit]:
                return _ok("active\n") if self.units.get(unit) else _fails(3, "inactive\n")
            case ["systemctl", "show", *_, unit]:
                return _ok("loaded\n" if unit in self.units else "not-found\n")
            case ["systemctl", "start" | "stop" | "restart" as verb, "--", unit]:
                self.units[unit] = verb != "stop"
                return _ok("")
            case ["cat", "--", path]:
                return _ok(self.files[path]) if path in self.files else _fails(1, "", "No such file")
            case ["install", "-m", "0644", "/dev/stdin", path]:
                self.files[path] = stdin
                return _ok("")
            case ["mv", "-fT", "--", source, path]:
                self.files[path] = self.files.pop(source)
                return _ok("")
            case ["sysctl", "-n", key]:
                return _ok(self.sysctls[key] + "\n") if key in self.sysctls else _fails(255, "", "unknown key")
            case ["sysctl", "-w", pair]:
                key, _, value = pair.partition("=")
                self.sysctls[key] = value
                return _ok("")
        return self.script(argv) if self.script is not None else _ok("")


def _ok(stdout: str) -> ExecResult:
    return ExecResult(code=0, stdout=stdout, stderr="")


def _fails(code: int, stdout: str, stderr: str = "") -> ExecResult:
    return ExecResult(code=code, stdout=stdout, stderr=stderr)
