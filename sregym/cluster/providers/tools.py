"""Steps that compile the Go programs of a cluster: Kubernetes, etcd, kind, CoreDNS and so on.

One module (`kind/tools`) for all but kube-router, so that what they share is compiled once. Each program is a step
and is built by its own `go build`: in one command with the others local-path-provisioner does not build.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sregym.cluster.providers.images import go_build
from sregym.cluster.providers.pins import KIND_DATA, Pins
from sregym.cluster.providers.steps import Lane, Step, StepContext, fingerprint_of

STRIPPED = "-s -w"


@dataclass(frozen=True, kw_only=True)
class Program:
    """A Go program: the package is a path inside the module, or one that its `tool` block names."""

    name: str
    package: str
    module: Path = KIND_DATA / "tools"
    version: str = ""
    version_variable: str = ""
    """Package variable that is set to `version` when linking."""
    flags: Sequence[str] = ()
    """Further flags of `go build`."""

    @property
    def step_name(self) -> str:
        return f"go.{self.name}"

    @property
    def ldflags(self) -> str:
        return f"{STRIPPED} -X {self.version_variable}={self.version}" if self.version_variable else STRIPPED


def programs(pins: Pins) -> list[Program]:
    """Every program, the slowest first."""
    return [
        Program(
            name="kube",
            package="./kube",
            version=pins.go.kubernetes,
            version_variable="k8s.io/component-base/version.gitVersion",
        ),
        Program(name="etcd", package="./etcd"),
        Program(name="kind", package="sigs.k8s.io/kind"),
        Program(name="coredns", package="github.com/coredns/coredns"),
        Program(name="local-path-provisioner", package="github.com/rancher/local-path-provisioner"),
        Program(
            name="kube-router",
            package="github.com/cloudnativelabs/kube-router/v2/cmd/kube-router",
            module=KIND_DATA / "kube-router",
            version=pins.go.kube_router,
            version_variable="github.com/cloudnativelabs/kube-router/v2/pkg/version.Version",
        ),
        Program(name="crictl", package="sigs.k8s.io/cri-tools/cmd/crictl"),
        Program(
            name="helm",
            package="helm.sh/helm/v3/cmd/helm",
            version=pins.go.helm,
            # Without it helm calls itself v3.19, which is no semantic version and which pyhelm3 refuses.
            version_variable="helm.sh/helm/v3/internal/version.version",
        ),
    ]


def tool_steps(pins: Pins) -> list[Step]:
    """A step for each program; its result folder holds the binary."""
    return [program_step(program) for program in programs(pins)]


def binary(results: dict[str, Path], name: str) -> Path:
    """A built program."""
    return results[f"go.{name}"] / name


def program_step(program: Program) -> Step:
    """The step that compiles a program."""

    async def run(context: StepContext) -> None:
        with _neutral_path(program.module) as module:
            await go_build(
                context, module, [program.package], out=context.out, ldflags=program.ldflags, flags=program.flags
            )

    return Step(
        name=program.step_name,
        title=f"compile {program.name}",
        fingerprint=fingerprint_of(values=[program.package, program.ldflags, *program.flags], paths=_sources(program)),
        run=run,
        lane=Lane.CPU,
    )


@contextmanager
def _neutral_path(module: Path) -> Iterator[Path]:
    """Another path to a module: programs keep the path that they were compiled at, and agents can read programs.

    `-trimpath` would do it, too, but share nothing with what was compiled without it.
    """
    with TemporaryDirectory(prefix="src-") as folder:
        path = Path(folder) / module.name
        path.symlink_to(module, target_is_directory=True)
        yield path


def _sources(program: Program) -> Sequence[Path]:
    sums = [program.module / "go.mod", program.module / "go.sum"]
    return [*sums, program.module / program.package] if program.package.startswith("./") else sums
