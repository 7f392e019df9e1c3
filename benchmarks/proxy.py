"""What the kube proxy costs, against direct access to the API server.

    python -m benchmarks.proxy [--kubeconfig FILE] [--pods 500] [--lists 40] [--events 100] [--minutes 5]

Prints one JSON object:

- `list_ratio_p50`: median time of a list of 500 pods through the proxy, over the direct one; the worst of three forms
  (`list_ms`: plain JSON, gzip as kubectl asks for it, a table). The two ways take turns.
- `watch_extra_ms_p50`: how much later a watch event arrives through the proxy, median (and p95).
- `memory_growth_pct`: resident memory of the gateway process at the end of 50 parallel watches and 20 execs, over that
  after the first fifth of the time (medians of samples); `memory_mib` are some of the samples.
- `errors`: what broke off or went missing; [] is what should be there.

The pods are never scheduled (scheduling gates). Everything stands in a namespace of its own, removed at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import httpcore

from sregym import process
from sregym.cluster import waits
from sregym.cluster.client import KubeCluster
from sregym.cluster.namespaces import remove_namespaces
from sregym.cluster.objects import POD, Obj, Ref
from sregym.cluster.providers.kind import KindProvider
from sregym.errors import WaitTimeout
from sregym.gateway.access import access_objects
from sregym.gateway.doors import KUBE
from sregym.gateway.identity import Identity
from sregym.gateway.kubeconfig import kubeconfig_text
from sregym.gateway.serve import Listen, Ports, ServeConfig
from sregym.gateway.upstream import ClusterAccess, Upstream
from sregym.progress import Recorded
from sregym.settings import Settings

LOOPBACK = "127.0.0.1"
WATCHES, EXECS = 50, 20
CHANGE_EVERY_S = 0.5
SAMPLE_EVERY_S = 2.0
IMAGE = "registry.k8s.io/kube-proxy:v1.34.4"
"""On every node already; has a shell."""
FORMS = {
    "json": [(b"accept", b"application/json"), (b"accept-encoding", b"identity")],
    "gzip": [(b"accept", b"application/json"), (b"accept-encoding", b"gzip")],
    "table": [(b"accept", b"application/json;as=Table;v=v1;g=meta.k8s.io"), (b"accept-encoding", b"gzip")],
}
Send = Callable[[str, Sequence[tuple[bytes, bytes]]], Awaitable[httpcore.Response]]


@dataclass
class Bench:
    """Both ways to one cluster, and what was found."""

    cluster: KubeCluster
    namespace: str
    direct: Send
    proxied: Send
    gateway: process.Running
    errors: list[str] = field(default_factory=list)

    async def change(self, number: int) -> None:
        """Write a number into a ConfigMap, which is an event for every watch."""
        meta = {"name": "changing", "namespace": self.namespace}
        await self.cluster.apply(
            [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"number": str(number)}}]
        )

    async def events(self, send: Send) -> AsyncIterator[int]:
        """The numbers of the ConfigMap as they are written."""
        path = f"/api/v1/namespaces/{self.namespace}/configmaps?watch=1&fieldSelector=metadata.name%3Dchanging"
        response = await send(path, FORMS["json"])
        pending = b""
        try:
            async for piece in response.aiter_stream():
                *lines, pending = (pending + piece).split(b"\n")
                for line in lines:
                    yield int(json.loads(line)["object"]["data"]["number"])
        finally:
            await response.aclose()

    def memory_mib(self) -> float:
        """Resident memory of the gateway process."""
        text = Path(f"/proc/{self.gateway.pid}/status").read_text(encoding="utf-8")
        return round(next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS")) / 1024, 2)


async def list_times(bench: Bench, rounds: int) -> dict[str, dict[str, float]]:
    """Median milliseconds of a list, by form and way."""
    path = f"/api/v1/namespaces/{bench.namespace}/pods?limit=500"
    found: dict[str, dict[str, float]] = {}
    for form, headers in FORMS.items():
        times: dict[str, list[float]] = {"direct": [], "proxied": []}
        for turn in range(rounds + 2):
            for way, send in (("direct", bench.direct), ("proxied", bench.proxied)):
                started = time.perf_counter()
                response = await send(path, headers)
                size = len(await response.aread())
                await response.aclose()
                if response.status != 200 or size < 10_000:
                    bench.errors.append(f"{way} {form} list: status {response.status}, {size} bytes")
                if turn >= 2:  # the first ones open connections
                    times[way].append((time.perf_counter() - started) * 1000)
        found[form] = {way: round(statistics.median(values), 2) for way, values in times.items()}
        found[form]["ratio"] = round(found[form]["proxied"] / found[form]["direct"], 3)
    return found


async def watch_delays(bench: Bench, count: int) -> list[float]:
    """Milliseconds by which events arrive later through the proxy."""
    seen: dict[str, dict[int, float]] = {"direct": {}, "proxied": {}}

    async def read(way: str, send: Send) -> None:
        async for number in bench.events(send):
            seen[way][number] = time.perf_counter()

    await bench.change(0)
    async with anyio.create_task_group() as tasks:
        for way, send in (("direct", bench.direct), ("proxied", bench.proxied)):
            tasks.start_soon(read, way, send)

        async def both(number: int) -> bool | None:
            return True if all(number in one for one in seen.values()) else None

        for number in range(count + 1):
            if number:
                await bench.change(number)
            await waits.poll(partial(both, number), what="the event", every=0.01, within=30)
        tasks.cancel_scope.cancel()
    return [(seen["proxied"][number] - seen["direct"][number]) * 1000 for number in range(1, count + 1)]


async def endurance(bench: Bench, seconds: float, kubectl: Sequence[str | Path], config: Path) -> list[float]:
    """Memory of the gateway process while watches and execs are open."""
    last: dict[int, int] = {}
    samples: list[float] = []
    folder = config.parent

    async def watch(index: int) -> None:
        async for number in bench.events(bench.proxied):
            last[index] = number
        bench.errors.append(f"watch {index} ended")

    talk = [*kubectl, "exec", "talker", "--", "sh", "-c", "while true; do echo a line of output; sleep 0.2; done"]
    async with AsyncExitStack() as stack:
        children = [
            await stack.enter_async_context(
                process.running(talk, log=folder / f"exec-{index}.log", env={"KUBECONFIG": str(config)})
            )
            for index in range(EXECS)
        ]
        tasks = await stack.enter_async_context(anyio.create_task_group())
        for index in range(WATCHES):
            tasks.start_soon(watch, index)
        number, started = 1000, time.monotonic()
        next_sample = started
        while (now := time.monotonic()) - started < seconds:
            await bench.change(number := number + 1)
            if now >= next_sample:
                samples.append(bench.memory_mib())
                next_sample = now + SAMPLE_EVERY_S
            await anyio.sleep(CHANGE_EVERY_S)

        async def all_there() -> bool | None:
            return True if sum(value == number for value in last.values()) == WATCHES else None

        try:
            await waits.poll(all_there, what="the last event at every watch", every=0.1, within=15)
        except WaitTimeout:
            bench.errors.append(f"{sum(value != number for value in last.values())} watches missed the last event")
        bench.errors += [
            f"exec {index} ended with {one.code}" for index, one in enumerate(children) if one.code is not None
        ]
        tasks.cancel_scope.cancel()
    expected = seconds / 0.2 * 0.5  # the machine is busy; a stalled exec has far fewer
    for index in range(EXECS):
        said = (folder / f"exec-{index}.log").read_text(encoding="utf-8").count("a line of output")
        if said < expected:
            bench.errors.append(f"exec {index} said {said} lines, fewer than {expected:g}")
    return samples


def gated_pod(namespace: str, index: int) -> Obj:
    """A pod of usual size that no scheduler looks at."""
    env = [{"name": f"SETTING_{number}", "value": "x" * 40} for number in range(12)]
    container = {"name": "main", "image": IMAGE, "env": env, "resources": {"requests": {"cpu": "1m"}}}
    labels = {"app": "many", "part": f"p{index % 7}", "app.kubernetes.io/name": "many"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"many-{index:04}", "namespace": namespace, "labels": labels},
        "spec": {"schedulingGates": [{"name": "example.com/never"}], "containers": [container]},
    }


def talker(namespace: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "talker", "namespace": namespace},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": IMAGE, "command": ["sleep", "86400"]}],
        },
    }


@asynccontextmanager
async def filled_namespace(cluster: KubeCluster, pods: int) -> AsyncIterator[str]:
    """A namespace with many idle pods and one that runs."""
    namespace = f"many-{secrets.token_hex(3)}"
    await cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}])
    try:
        await cluster.apply([*access_objects([namespace]), talker(namespace)])
        slots = anyio.CapacityLimiter(8)

        async def make(index: int) -> None:
            async with slots:
                await cluster.create(gated_pod(namespace, index))

        async with anyio.create_task_group() as tasks:
            for index in range(pods):
                tasks.start_soon(make, index)

        async def runs() -> bool | None:
            found = await cluster.get(Ref(POD, "talker", namespace))
            return True if found.get("status", {}).get("phase") == "Running" else None

        await waits.poll(runs, what="the pod for execs", every=0.5, within=120)
        yield namespace
    finally:
        with anyio.CancelScope(shield=True):
            await remove_namespaces(cluster, [namespace])


@asynccontextmanager
async def ways(access: ClusterAccess, folder: Path) -> AsyncIterator[tuple[Send, Send, process.Running, str]]:
    """Direct, proxied, the gateway process, and its address."""
    token = secrets.token_hex(8)
    config = ServeConfig(
        access=access,
        identity=Identity(),
        token=token,
        listen={KUBE.name: Listen(unix=folder / "kube.sock", host=LOOPBACK)},
        api=folder / "api.sock",
        runtime=folder,
        folder=folder,
        ready=folder / "ready.json",
    )
    file = folder / "gateway.json"
    file.write_text(config.model_dump_json(), encoding="utf-8")

    async def ready() -> Ports | None:
        return Ports.read(config.ready)

    async with AsyncExitStack() as stack:
        command: list[str | Path] = [sys.executable, "-m", "sregym.gateway.serve", file]
        child = await stack.enter_async_context(process.running(command, log=folder / "gateway.log"))
        port = (await waits.poll(ready, what="the gateway process", every=0.05, within=60)).by_door[KUBE.name]
        upstream = await stack.enter_async_context(Upstream(access))
        pool = await stack.enter_async_context(httpcore.AsyncConnectionPool(max_connections=None))

        async def direct(path: str, headers: Sequence[tuple[bytes, bytes]]) -> httpcore.Response:
            return await upstream.send(b"GET", path, headers)

        async def proxied(path: str, headers: Sequence[tuple[bytes, bytes]]) -> httpcore.Response:
            url = httpcore.URL(scheme=b"http", host=LOOPBACK.encode(), port=port, target=f"/t/{token}{path}".encode())
            return await pool.handle_async_request(
                httpcore.Request(b"GET", url, headers=[(b"host", b"gateway"), *headers])
            )

        yield direct, proxied, child, f"http://{LOOPBACK}:{port}/t/{token}"


async def measured(kubeconfig: Path, options: argparse.Namespace) -> dict[str, object]:
    """The JSON object."""
    paths = Settings().paths
    kube = await KindProvider(cache=paths.cache, state=paths.state, progress=Recorded()).tool("kube")
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="proxy-")))
        cluster = await stack.enter_async_context(KubeCluster.connect(kubeconfig))
        namespace = await stack.enter_async_context(filled_namespace(cluster, options.pods))
        access = ClusterAccess(kubeconfig=kubeconfig)
        direct, proxied, child, url = await stack.enter_async_context(ways(access, folder))
        bench = Bench(cluster, namespace, direct, proxied, child)
        config = folder / "kubeconfig"
        config.write_text(kubeconfig_text(url, namespace), encoding="utf-8")
        lists = await list_times(bench, options.lists)
        delays = sorted(await watch_delays(bench, options.events))
        samples = await endurance(bench, options.minutes * 60, (kube, "kubectl"), config)
        part = max(1, len(samples) // 5)
        before, after = statistics.median(samples[part : 2 * part]), statistics.median(samples[-part:])
        return {
            "list_ratio_p50": max(one["ratio"] for one in lists.values()),
            "list_ms": lists,
            "watch_extra_ms_p50": round(statistics.median(delays), 2),
            "watch_extra_ms_p95": round(delays[int(len(delays) * 0.95)], 2),
            "memory_growth_pct": round((after / before - 1) * 100, 2),
            "memory_mib": samples[:: max(1, len(samples) // 12)],
            "pods": options.pods,
            "load_1min": os.getloadavg()[0],
            "errors": bench.errors,
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", type=Path, help="of the cluster; the first that `cluster up` made unless set")
    parser.add_argument("--pods", type=int, default=500, help="pods that are listed (%(default)s unless set)")
    parser.add_argument(
        "--lists", type=int, default=40, help="lists in each form and each way (%(default)s unless set)"
    )
    parser.add_argument("--events", type=int, default=100, help="watch events (%(default)s unless set)")
    parser.add_argument(
        "--minutes", type=float, default=5, help="how long the watches and execs last (%(default)s unless set)"
    )
    options = parser.parse_args()
    found = sorted((Settings().paths.state / "clusters").glob("*.kubeconfig"))
    if not options.kubeconfig and not found:
        parser.error("no cluster: run `main.py cluster up`, or give --kubeconfig")
    json.dump(anyio.run(measured, options.kubeconfig or found[0], options), sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
