"""Charts: rendered without a cluster, or installed as releases whose records are not in the cluster.

Helm keeps a release's whole manifest, with all healthy values, in a Secret that anyone can decode. So after each
operation the record is taken out onto the coordinator's disk, and it is put back for the next one. (Helm's memory
driver is no way around: it reports "deployed" and creates nothing.) Helm's ownership annotations go as well.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyhelm3.errors
from pyhelm3.command import Command

from sregym.cluster.contract import Cluster, Selection
from sregym.cluster.normalise import meant
from sregym.cluster.objects import SECRET, Obj, ref_of
from sregym.errors import ClusterError, Conflict, DefinitionError, NotFound, PrerequisiteError

WITHIN_S = 300
"""What Helm may take for one operation; it does not wait for pods (`waits` does)."""
HISTORY = 2
_RECORDS = "owner=helm,name={release}"
_ANNOTATIONS = ("meta.helm.sh/release-name", "meta.helm.sh/release-namespace")


async def render(helm: Path, chart: Path, values: Mapping[str, Any], *, release: str, namespace: str) -> Sequence[Obj]:
    """The chart's manifests; needs no cluster.

    Raises:
        DefinitionError: The chart refuses the values.
        PrerequisiteError: There is no helm.
    """
    with _mapped(f"chart {chart.name}"):
        rendered = await Command(executable=_found(helm)).template(
            release, chart, dict(values), namespace=namespace, include_crds=True
        )
        return [obj for obj in rendered if obj]


@dataclass(frozen=True, kw_only=True)
class Release:
    """One release. `records` is the folder on our disk where its record lies between operations."""

    name: str
    namespace: str
    records: Path

    @property
    def file(self) -> Path:
        return self.records / f"{self.namespace}.{self.name}.json"


class Helm:
    """Installs and removes releases on one cluster."""

    def __init__(self, cluster: Cluster, *, helm: Path, kubeconfig: Path, context: str | None = None) -> None:
        self._cluster = cluster
        self._command = Command(
            executable=_found(helm),
            kubeconfig=kubeconfig,
            kubecontext=context,
            default_timeout=f"{WITHIN_S}s",
            history_max_revisions=HISTORY,
        )

    async def install(self, release: Release, chart: Path, values: Mapping[str, Any]) -> None:
        """Installs or upgrades. Does not wait for pods. Raises ClusterError or DefinitionError.

        Killed in between, the record is in the cluster, on disk, or both; the next operation sorts it out.
        """
        async with self._record_in_cluster(release):
            with _mapped(f"release {release.name}"):
                await self._command.install_or_upgrade(
                    release.name, chart, dict(values), namespace=release.namespace, create_namespace=True
                )
        with _mapped(f"chart {chart.name}"):
            rendered = await self._command.template(
                release.name, chart, dict(values), namespace=release.namespace, is_upgrade=True
            )
            objects = [obj for obj in rendered if obj]
        for obj in objects:
            await self._neutralise(obj, release.namespace)

    async def uninstall(self, release: Release) -> None:
        """Removes what the release installed, and its record. Not installed is no error."""
        async with self._record_in_cluster(release):
            with _mapped(f"release {release.name}"):
                try:
                    await self._command.uninstall(release.name, namespace=release.namespace)
                except pyhelm3.errors.ReleaseNotFoundError:
                    return

    @asynccontextmanager
    async def _record_in_cluster(self, release: Release) -> AsyncIterator[None]:
        """Puts the record back for one operation of Helm's, and takes out what it has left."""
        for record in _read(release.file):
            try:
                await self._cluster.create(record)
            except Conflict:
                continue  # an operation was killed before it could take it out
            except NotFound:
                break  # the namespace is gone, and the release with it
        try:
            yield
        finally:
            await self._take_out(release)

    async def _take_out(self, release: Release) -> None:
        selection = Selection(kind=SECRET, namespace=release.namespace, labels=_RECORDS.format(release=release.name))
        records = await self._cluster.list(selection)
        _write(release.file, [meant(record) for record in records])
        for record in records:
            await self._cluster.delete(ref_of(record, SECRET))

    async def _neutralise(self, obj: Obj, namespace: str) -> None:
        ref = ref_of(obj, await self._cluster.kind_of(obj)).within(namespace)
        try:
            await self._cluster.patch(ref, {"metadata": {"annotations": dict.fromkeys(_ANNOTATIONS)}})
        except NotFound:
            return  # a hook's object that Helm has removed already


def _read(file: Path) -> list[Obj]:
    if not file.exists():
        return []
    records: list[Obj] = json.loads(file.read_text(encoding="utf-8"))
    return records


def _write(file: Path, records: Sequence[Obj]) -> None:
    """On disk before anything is removed from the cluster; no records, no file."""
    if not records:
        file.unlink(missing_ok=True)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_suffix(".new")
    with fresh.open("w", encoding="utf-8") as out:
        os.fchmod(out.fileno(), 0o600)
        json.dump(records, out)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(file)


def _found(helm: Path) -> str:
    if not helm.is_file():
        raise PrerequisiteError(f"there is no helm at {helm}", cure="run `main.py cluster build`")
    return str(helm)


@contextmanager
def _mapped(what: str) -> Iterator[None]:
    """Turns the library's errors into ours, with what Helm said."""
    try:
        yield
    except pyhelm3.errors.ReleaseNotFoundError:
        raise
    except (pyhelm3.errors.FailedToRenderChartError, pyhelm3.errors.InvalidResourceError) as error:
        raise DefinitionError(f"{what}: {_said(error)}") from error
    except pyhelm3.errors.Error as error:
        raise ClusterError(f"{what}: {_said(error)}") from error


def _said(error: Any) -> str:
    return str(error.stderr.decode(errors="replace")).strip()[-600:]
