"""kubectl under the agent's identity, from the coordinator's machine: how `verify` runs repairs and cheats.

The calls go through a kube proxy like an agent's own, so a repair that the agent's rights do not allow fails here too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from sregym import process
from sregym.api.repair import KubectlCall
from sregym.errors import CommandError
from sregym.events import Emit, silent
from sregym.gateway.identity import PREFIX, Identity, TokenGate, new_token
from sregym.gateway.kubeconfig import kubeconfig_text
from sregym.gateway.serve import serving_kube
from sregym.gateway.upstream import ClusterAccess
from sregym.gateway.web import tcp_socket

LOOPBACK = "127.0.0.1"
TIMED_OUT = 124
Run = Callable[[KubectlCall], Awaitable[process.Completed]]


@asynccontextmanager
async def agent_kubectl(
    access: ClusterAccess,
    *,
    kubectl: Sequence[str | Path],
    namespace: str,
    identity: Identity | None = None,
    emit: Emit = silent,
) -> AsyncIterator[Run]:
    """Run kubectl calls as the agent's user.

    Args:
        kubectl: How kubectl is called here, e.g. `(path_of_kube, "kubectl")`.
        namespace: Where calls go that name none.

    Yields: a function that runs one call and returns it whatever its status; a call that was not done in its time has
    status 124.
    """
    token = new_token()
    sockets = [tcp_socket(LOOPBACK, 0)]
    with TemporaryDirectory(prefix="kubectl-") as folder:
        async with serving_kube(access, TokenGate(token), identity or Identity(), sockets, emit) as port:
            home = Path(folder)
            config = home / "config"
            config.write_text(kubeconfig_text(f"http://{LOOPBACK}:{port}{PREFIX}{token}", namespace), encoding="utf-8")
            environment = {"KUBECONFIG": str(config), "HOME": folder, "KUBECACHEDIR": str(home / "cache")}

            async def run(call: KubectlCall) -> process.Completed:
                done = await _run([*kubectl, *call.argv], call, environment)
                emit("kubectl.ran", argv=call.argv, code=done.code, seconds=round(done.seconds, 3))
                return done

            yield run


async def _run(argv: Sequence[str | Path], call: KubectlCall, environment: dict[str, str]) -> process.Completed:
    try:
        stdin = call.stdin.encode() if call.stdin else None
        return await process.run(argv, env=environment, stdin=stdin, check=False, within=call.within)
    except CommandError as error:
        return process.Completed(
            argv=tuple(map(str, argv)), code=TIMED_OUT, stdout="", stderr=str(error), seconds=call.within
        )
