"""The users of an application: a load generator in a container beside the cluster, watched and accounted for."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from sregym import process
from sregym.api.app import App
from sregym.cluster.contract import Change, Reader, Selection
from sregym.cluster.journal import Journal
from sregym.cluster.leftovers import HostThing, remove_host_thing
from sregym.cluster.objects import SERVICE, Obj, dig
from sregym.cluster.providers.base import ClusterHandle
from sregym.cluster.tasks import first_error
from sregym.cluster.traffic import LoadPhase, TrafficWindow
from sregym.errors import CommandError, Unavailable
from sregym.events import Emit, silent
from sregym.load import spec
from sregym.load.place import container_command, place_beside
from sregym.load.records import Records

STARTS_WITHIN_S = 30.0
SILENT_AFTER_S = 5.0
"""The generator writes a line every second; after so long without any it counts as dead."""
PHASE_WITHIN_S = 5.0
STOPS_WITHIN_S = 2.0


@asynccontextmanager
async def users(
    handle: ClusterHandle,
    app: App,
    *,
    reader: Reader,
    image: str,
    seed: int,
    base: LoadPhase | None = None,
    journal: Journal | None = None,
    emit: Emit = silent,
) -> AsyncIterator[Users]:
    """Load on the application while the context is open, from its first complete second on.

    Args:
        image: The load generator's image, as Docker on this machine knows it.
        seed: Decides when requests are due and what they ask for.
        base: The steady phase; the application's own rate and mix where None.
        journal: Where the container is noted before it is made.

    Raises:
        PrerequisiteError: The cluster's nodes cannot be reached from a container here.
        Unavailable: The generator did not start.
    """
    base = base or LoadPhase(rate=app.topology.rate)
    place = await place_beside(handle, reader)
    async with (
        container_noted(journal) as name,
        talking(
            container_command(place, name=name, image=image), app, reader=reader, seed=seed, base=base, emit=emit
        ) as running,
    ):
        yield running


@asynccontextmanager
async def talking(
    command: Sequence[str | Path], app: App, *, reader: Reader, seed: int, base: LoadPhase, emit: Emit
) -> AsyncIterator[Users]:
    """Load from a generator that `command` starts, which reads what to do and writes records."""
    async with AsyncExitStack() as stack:
        log = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="client-"))) / "stderr"
        child = await stack.enter_async_context(process.dialogue(command, log=log))
        running = Users(child=child, base=base, log=log, emit=emit)
        entrance = _Entrance(reader, Selection(kind=SERVICE, namespace=app.namespace, name=app.topology.entry), app)
        target = await entrance.address()
        await child.send(spec.spec_line(app.topology, target=target, seed=seed, base=base))
        async with _beside(running.listen, partial(running.follow, entrance, target)):
            await running.begun()
            emit("load.started", rate=base.rate, seed=seed, target=target)
            try:
                yield running
            finally:
                with anyio.CancelScope(shield=True):
                    await running.stop()
                emit("load.ended", **running.account())


@asynccontextmanager
async def _beside(*tasks: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Runs tasks, which raise nothing, while the context is open; what its body raises comes out as it is."""
    with first_error():
        async with anyio.create_task_group() as group:
            for task in tasks:
                group.start_soon(task)
            yield
            group.cancel_scope.cancel()


@dataclass(frozen=True)
class _Entrance:
    """The Service that users call, looked up by name as often as it changes."""

    reader: Reader
    selection: Selection
    app: App

    async def address(self) -> str:
        found = await self.reader.list(self.selection)
        return self.address_in(found[0] if found else None)

    async def addresses(self) -> AsyncIterator[str]:
        """The address now, and then whenever the Service changes. Endless."""
        async for event in self.reader.watch(self.selection):
            if event is not None:
                yield self.address_in(None if event.change is Change.DELETED else event.obj)

    def address_in(self, found: Obj | None) -> str:
        ip = dig(found, "spec", "clusterIP")
        return f"{ip}:{self.app.topology.entry_port}" if ip and ip != "None" else spec.NOWHERE


@asynccontextmanager
async def container_noted(journal: Journal | None) -> AsyncIterator[str]:
    """A name for a container of ours, noted before it is made; removed at the end."""
    thing = HostThing.of("container", f"client-{secrets.token_hex(4)}")
    entry = journal.note_host(thing.kind, thing.name) if journal else None
    try:
        yield thing.name
    finally:
        with anyio.CancelScope(shield=True):
            await remove_host_thing(thing)
            if journal is not None and entry is not None:
                journal.mark(entry, "undone")


class Users:
    """The running load: satisfies `sregym.cluster.traffic.Traffic`."""

    def __init__(self, *, child: process.Dialogue, base: LoadPhase, log: Path, emit: Emit) -> None:
        self.records = Records()
        self._child = child
        self._base = base
        self._log = log
        self._emit = emit
        self._heard = anyio.current_time()
        self._ended = False
        self._stopping = False
        self._news = anyio.Event()
        self._phases = 0

    @property
    def base(self) -> LoadPhase:
        return self._base

    async def window(self, over: float, *, until_s_ago: float = 0.0) -> TrafficWindow:
        """See `Traffic.window`."""
        self._alive()
        return self.records.window(over, until_s_ago=until_s_ago)

    async def phase(self, phase: LoadPhase) -> None:
        """See `Traffic.phase`. Raises Unavailable where the generator does not begin it."""
        self._alive()
        self._phases += 1
        name = f"phase-{self._phases}"
        for line in spec.phase_lines(phase, name=name, base=self._base):
            await self._say(line)
        await self._until(lambda: name in self.records.phases, what=f"phase {name} begins", within=PHASE_WITHIN_S)
        self._emit("load.phase", name=name, rate=phase.rate, seconds=phase.seconds)

    async def begun(self) -> None:
        """Returns after the first complete second."""
        await self._until(lambda: self.records.last is not None, what="load begins", within=STARTS_WITHIN_S)

    async def listen(self) -> None:
        """Takes in what the generator says until it ends."""
        try:
            async for line in self._child.lines():
                self.records.feed(line)
                self._heard = anyio.current_time()
                self._tell()
        except Unavailable as error:
            self._emit("load.garbled", reason=str(error))
        self._ended = True
        self._tell()
        if not self._stopping:
            self._emit("load.died", said=self._said())

    async def follow(self, entrance: _Entrance, target: str) -> None:
        """Keeps the target at the entry Service's address, as name resolution would: also when it is made anew."""
        async for address in entrance.addresses():
            if address == target or self._ended:
                continue
            target = address
            try:
                await self._say(spec.target_line(target))
            except Unavailable:
                return  # whoever asks for a window is told
            self._emit("load.target", target=target)

    async def stop(self) -> None:
        """No more requests. What is still under way is waited for shortly."""
        self._stopping = True
        if self._ended:
            return
        try:
            await self._say('{"command": "stop"}')
        except Unavailable:
            return
        with anyio.move_on_after(STOPS_WITHIN_S):
            while not self._ended:
                await self._hear()

    def account(self) -> dict[str, object]:
        """The whole run in figures, for the record; empty where the generator did not end by itself."""
        summary = self.records.summary or {}
        return {key: summary[key] for key in ("seconds", "scheduled", "missed_share") if key in summary}

    def _alive(self) -> None:
        if self._ended:
            raise Unavailable(f"the load generator has ended: {self._said()}")
        silent_for = anyio.current_time() - self._heard
        if silent_for > SILENT_AFTER_S:
            raise Unavailable(f"the load generator has been silent for {silent_for:.1f} s")

    async def _say(self, line: str) -> None:
        try:
            await self._child.send(line)
        except CommandError as error:
            raise Unavailable(f"the load generator does not listen any more: {self._said()}") from error

    async def _until(self, holds: Callable[[], bool], *, what: str, within: float) -> None:
        with anyio.move_on_after(within):
            while not holds():
                if self._ended:
                    raise Unavailable(f"the load generator has ended: {self._said()}")
                await self._hear()
            return
        raise Unavailable(f"{what}: not within {within:g} s; it said: {self.records.errors[-1:] or 'nothing wrong'}")

    async def _hear(self) -> None:
        if self._news.is_set():
            self._news = anyio.Event()
        await self._news.wait()

    def _tell(self) -> None:
        self._news.set()

    def _said(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else f"status {self._child.code}"
