"""The pinned versions of `kind/versions.toml`, typed."""

from __future__ import annotations

import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict

KIND_DATA = Path(__file__).parents[3] / "kind"
"""Cluster configurations, the Go modules of tools, image recipes, manifests."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Pulled(_Frozen):
    """What is pulled where a registry answers."""

    node: str
    registry: str


class Debian(_Frozen):
    """The distribution that images are made of."""

    release: str
    mirror: str


class GoModules(_Frozen):
    """Versions of Go programs; go.mod has the same."""

    kubernetes: str
    kind: str
    helm: str
    coredns: str
    kube_router: str


class Tags(_Frozen):
    """Image references that manifests name."""

    etcd: str
    coredns: str
    pause: str
    kube_router: str
    storage_provisioner: str
    storage_helper: str


class Pins(_Frozen):
    """Everything that the from-source build pins."""

    pulled: Pulled
    debian: Debian
    go: GoModules
    tags: Tags


def read(file: Path = KIND_DATA / "versions.toml") -> Pins:
    """Read the pins."""
    return Pins.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
