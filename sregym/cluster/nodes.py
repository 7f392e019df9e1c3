"""Commands on the nodes of a kind cluster: each node is a Docker container, entered with `docker exec`.

Used for requests from inside the cluster's network and for faults below Kubernetes; invisible through the API.
"""

from __future__ import annotations

from collections.abc import Sequence

from sregym import process
from sregym.cluster.contract import ExecResult
from sregym.errors import CommandError, Unavailable

_DOCKER_ITSELF = 125
"""Exit code with which docker(1) says that it failed, not the command."""


class DockerNodeShell:
    """A `NodeShell` over the Docker containers that are the nodes; container and node have the same name."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self._nodes = tuple(nodes)

    @property
    def nodes(self) -> Sequence[str]:
        return self._nodes

    @property
    def own_kernel(self) -> bool:
        return False

    async def run(self, node: str, argv: Sequence[str], *, stdin: str = "", within: float = 30.0) -> ExecResult:
        if node not in self._nodes:
            raise Unavailable(f"there is no node {node}; there are {', '.join(self._nodes)}")
        keep_stdin = ("--interactive",) if stdin else ()
        try:
            done = await process.run(
                ("docker", "exec", *keep_stdin, node, *argv),
                stdin=stdin.encode() if stdin else None,
                check=False,
                within=within,
            )
        except CommandError as error:
            raise Unavailable(f"node {node}: {error}") from error
        if done.code == _DOCKER_ITSELF or _is_dockers_word(done.code, done.stderr):
            raise Unavailable(f"node {node}: {done.stderr.strip()[:300]}")
        return ExecResult(code=done.code, stdout=done.stdout, stderr=done.stderr)


def _is_dockers_word(code: int, stderr: str) -> bool:
    """`docker exec` ends with 1 and one of these texts where the container is gone, stopped or paused."""
    said = stderr.removeprefix("Error: ")
    return code == 1 and said.startswith(("Error response from daemon:", "No such container:", "Cannot connect to"))
