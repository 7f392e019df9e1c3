"""The contract of an application, and the surroundings that faults and oracles act in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from sregym.api.topology import Topology
from sregym.cluster import waits
from sregym.cluster.check import Check, Observation
from sregym.cluster.contract import Cluster, Editor, Reader, Shell
from sregym.cluster.objects import Obj
from sregym.cluster.traffic import Traffic
from sregym.events import Emit, silent

T = TypeVar("T")

Profile = Literal["lite", "full"]


@dataclass(frozen=True, kw_only=True)
class Shipped:
    """What a problem ships with the app before it is deployed, so that nothing new appears at injection.

    `values` is merged over the chart's values; `objects` are further manifests of the release.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    objects: Sequence[Obj] = ()


NOTHING_SHIPPED = Shipped()


class App(ABC):
    """An application. Building one does no I/O on a cluster; it is a value."""

    profile: Profile

    @property
    @abstractmethod
    def topology(self) -> Topology: ...

    @property
    def name(self) -> str:
        return self.topology.name

    @property
    def namespace(self) -> str:
        return self.topology.namespace

    @abstractmethod
    async def manifests(self, shipped: Shipped = NOTHING_SHIPPED) -> Sequence[Obj]:
        """What will be deployed, rendered without a cluster, in an order in which it can be applied."""

    def equipped(self, tools: Mapping[str, Path]) -> App:
        """The same app with the places of programs that it runs (`helm`); without this they are looked for on PATH."""
        return self

    @abstractmethod
    async def deploy(self, cluster: Cluster, shipped: Shipped = NOTHING_SHIPPED, *, emit: Emit = silent) -> None:
        """Installs into the app's namespace and leaves no release record behind. Does not wait for health."""

    @abstractmethod
    async def remove(self, cluster: Cluster, *, emit: Emit = silent) -> None:
        """Removes the namespace and all that belongs to it; returns when it is gone. Idempotent."""

    @abstractmethod
    def healthy(self) -> Check:
        """Everything rolled out, ready and able to serve; holds before an attempt starts."""

    @abstractmethod
    async def fingerprint(self, cluster: Cluster) -> Mapping[str, Any]:
        """What the API does not show: database users, seeded rows, registry entries with a live address (JSON).

        Without anything that load writes. Raises ClusterError where it cannot be read.
        """


@dataclass(frozen=True, kw_only=True)
class Context:
    """Where a check looks: satisfies `sregym.cluster.check.Look`. `until` and `holds` are the only ways to wait."""

    app: App
    reader: Reader
    shell: Shell
    traffic: Traffic
    emit: Emit = silent

    @property
    def namespace(self) -> str:
        return self.app.namespace

    async def until(self, check: Check, *, within: float) -> Observation:
        """Waits for the check. Raises WaitTimeout (early where the check says that it CANNOT hold any more)."""
        return await waits.until(check, self, within=within, emit=self.emit)

    async def holds(self, check: Check, *, for_: float, within: float) -> Observation:
        """Waits until the check has held for `for_` seconds without a break. Raises WaitTimeout."""
        return await waits.holds(check, self, for_=for_, within=within, emit=self.emit)

    async def poll(
        self, probe: Callable[[], Awaitable[T | None]], *, what: str, within: float, every: float = waits.PROBE_EVERY_S
    ) -> T:
        """Calls `probe` until it returns something else than None. Raises WaitTimeout."""
        return await waits.poll(probe, what=what, every=every, within=within)

    async def elapse(self, seconds: float, *, why: str) -> None:
        """Lets time pass because time itself is meant (a burst's length), never instead of a condition."""
        await waits.elapse(seconds, why=why, emit=self.emit)


@dataclass(frozen=True, kw_only=True)
class FaultContext(Context):
    """Where a fault acts. Changes go through `editor`, which writes the undo first."""

    cluster: Cluster
    editor: Editor

    def section(self, name: str) -> FaultContext:
        """The same surroundings with an editor whose `undo_all` undoes only what was done through it."""
        return replace(self, editor=self.editor.section(name))


@dataclass(frozen=True, kw_only=True)
class OracleContext(Context):
    """Where an oracle looks. `editor` is for exercises only, which run when the agent's access is withdrawn."""

    editor: Editor
