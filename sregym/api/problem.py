"""The contract of a problem: a fault primitive with targets.

A `Problem` subclass knows how to break any suitable target, what the root cause then is, what shows that it bites,
how to tell that it is repaired, which different repairs are right, which cheats are wrong. Its methods are pure: every
problem can be built, listed, documented and tested with no cluster. Subclasses become frozen keyword-only dataclasses;
variants with wrong or missing parameters fail when the class is created.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Self, dataclass_transform

from pydantic import TypeAdapter, ValidationError

from sregym.api.app import NOTHING_SHIPPED, App, Shipped
from sregym.api.fault import Fault
from sregym.api.oracle import Oracle
from sregym.api.repair import Repair
from sregym.api.root_cause import RootCause
from sregym.api.topology import Topology
from sregym.cluster.check import Check
from sregym.cluster.traffic import LoadPhase
from sregym.errors import DefinitionError


class FaultClass(StrEnum):
    """Classes that results are broken down by (facts of the curated problems)."""

    MISCONFIGURATION = "misconfiguration"
    CLOUD_MANAGEMENT = "cloud-management"
    SOFTWARE = "software"
    NETWORK = "network"
    SECURITY = "security"
    DATABASE = "database"
    HARDWARE = "hardware"
    METASTABLE = "metastable"
    CORRELATED = "correlated"


class Layer(StrEnum):
    """Where the defect sits."""

    KUBERNETES = "kubernetes"
    APPLICATION = "application"
    DATA = "data"
    NETWORK = "network"
    NODE = "node"


class Provenance(StrEnum):
    """Where a curated problem comes from (the paper's split of the pool)."""

    PORTED = "ported"
    SIMILAR = "similar"
    NEW = "new"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A named, curated instance of a primitive."""

    app: type[App]
    params: Mapping[str, Any]
    provenance: Provenance = Provenance.UNKNOWN
    suites: frozenset[str] = frozenset()


def on(
    app: type[App], *, provenance: Provenance = Provenance.UNKNOWN, suites: Iterable[str] = (), **params: Any
) -> Variant:
    """A variant of the primitive on an application, with the values of its fields."""
    return Variant(app=app, params=params, provenance=provenance, suites=frozenset(suites))


@dataclass(frozen=True, kw_only=True)
class Diagnoses:
    """Diagnoses in an engineer's words, to test a judge with: at least two right ones, at least two wrong ones."""

    right: tuple[str, ...]
    wrong: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.right) < 2 or len(self.wrong) < 2:
            raise DefinitionError("diagnoses need at least two right ones and two wrong ones")


_REQUIRED = ("fault", "symptom", "root_causes", "mitigation", "repairs", "cheats", "diagnoses")


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
@dataclass(frozen=True, kw_only=True)
class Problem:
    """A fault primitive; an instance is the primitive on one target of one app.

    Class attributes: `fault_class`, `layer`, `variants` (curated ids), `revision` (bump it when fault, oracle or
    checklist changes), `requires` (names of cluster capabilities), `timing_sensitive` (nothing else may run beside),
    `restart_repairs` (whether restarting everything is a right repair; else it is added to the cheats), `latent` (the
    defect is shipped with the app and waits for its trigger: the healthy world passes a look, but not the exercises).
    """

    fault_class: ClassVar[FaultClass]
    layer: ClassVar[Layer]
    variants: ClassVar[Mapping[str, Variant]] = {}
    revision: ClassVar[int] = 1
    requires: ClassVar[frozenset[str]] = frozenset()
    timing_sensitive: ClassVar[bool] = False
    restart_repairs: ClassVar[bool] = False
    latent: ClassVar[bool] = False

    app: App

    def __init_subclass__(cls, *, abstract: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclass(frozen=True, kw_only=True, eq=True)(cls)
        if not abstract:
            _check_definition(cls)

    @classmethod
    def targets(cls, app: App) -> Iterable[Self]:
        """Where else on an app this could strike and hurt. Default: nowhere but in the variants."""
        return ()

    @abstractmethod
    def fault(self) -> Fault:
        """What is done to the world."""
        raise DefinitionError(f"{type(self).__name__} defines no fault")

    @abstractmethod
    def symptom(self) -> Check:
        """What must be seen before the incident is handed to an agent; user-visible where user impact is claimed."""
        raise DefinitionError(f"{type(self).__name__} defines no symptom")

    @abstractmethod
    def root_causes(self) -> Sequence[RootCause]:
        """The ground truth, worst first."""
        raise DefinitionError(f"{type(self).__name__} defines no root cause")

    @abstractmethod
    def mitigation(self) -> Oracle:
        """How to tell that it is repaired: the fault is gone and the whole app serves."""
        raise DefinitionError(f"{type(self).__name__} defines no oracle")

    @abstractmethod
    def repairs(self) -> Sequence[Repair]:
        """Right repairs, at least two, at least one of them not the inverse of the fault. Each must pass."""
        raise DefinitionError(f"{type(self).__name__} defines no repairs")

    @abstractmethod
    def cheats(self) -> Sequence[Repair]:
        """Wrong ones, at least two: bypasses, placeholders, half repairs. Each must fail."""
        raise DefinitionError(f"{type(self).__name__} defines no cheats")

    @abstractmethod
    def diagnoses(self) -> Diagnoses:
        """Right and wrong diagnoses for testing the judge."""
        raise DefinitionError(f"{type(self).__name__} defines no diagnoses")

    def ships(self) -> Shipped:
        """Helper objects and settings that are rendered into the app before it is deployed."""
        return NOTHING_SHIPPED

    def load(self) -> LoadPhase | None:
        """The steady load of this problem; None for the app's own."""
        return None

    @property
    def topology(self) -> Topology:
        return self.app.topology

    @property
    def params(self) -> Mapping[str, Any]:
        """The values of the primitive's own fields (all but `app`)."""
        own = (f.name for f in dataclasses.fields(self) if f.name != "app")
        return {name: getattr(self, name) for name in own}


def _check_definition(cls: type[Problem]) -> None:
    missing = [name for name in _REQUIRED if getattr(cls, name) is getattr(Problem, name)]
    missing += [name for name in ("fault_class", "layer") if not hasattr(cls, name)]
    if missing:
        raise DefinitionError(f"{cls.__module__}.{cls.__name__} does not define: {', '.join(missing)}")
    if not inspect.getdoc(cls):
        raise DefinitionError(f"{cls.__module__}.{cls.__name__} has no doc-string; it is the primitive's description")
    hints = typing.get_type_hints(cls)
    for variant_id, variant in cls.variants.items():
        _check_variant(cls, hints, variant_id, variant)


def _check_variant(cls: type[Problem], hints: Mapping[str, Any], variant_id: str, variant: Variant) -> None:
    where = f"{cls.__name__} variant {variant_id!r}"
    fields = {f.name: f for f in dataclasses.fields(cls) if f.name != "app"}
    if unknown := set(variant.params) - set(fields):
        raise DefinitionError(f"{where}: unknown parameters {sorted(unknown)}; it takes {sorted(fields)}")
    required = {
        name
        for name, f in fields.items()
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }
    if absent := required - set(variant.params):
        raise DefinitionError(f"{where}: missing parameters {sorted(absent)}")
    for name, value in variant.params.items():
        try:
            TypeAdapter(hints[name]).validate_python(value, strict=True)
        except ValidationError as error:
            raise DefinitionError(f"{where}: {name}={value!r}: {error.errors()[0]['msg']}") from error
