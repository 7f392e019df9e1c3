"""The contracts that content is written against: the only package that problems, apps, injectors and oracles import.

It re-exports from `sregym.cluster` what content needs (references, checks), so that one import suffices. Contracts
do no I/O by themselves; concrete faults and checks live in `injectors` and `oracles`.
"""

from sregym.api.app import App, Context, FaultContext, OracleContext
from sregym.api.fault import Await, Fault, InOrder, Noise, Together, Transient
from sregym.api.grading import Verdict, VerdictState
from sregym.api.oracle import Baseline, Exercise, Oracle
from sregym.api.problem import Diagnoses, FaultClass, Layer, Problem, Provenance, Variant, on
from sregym.api.repair import (
    Create,
    Delete,
    Exec,
    Patch,
    Repair,
    Restart,
    Scale,
    SetEnv,
    Step,
    WaitRollout,
)
from sregym.api.root_cause import Concept, Role, RootCause
from sregym.api.topology import Edge, Operation, ServiceSpec, Topology, Via, When
from sregym.cluster.check import AllOf, AnyOf, Check, Look, Not, Observation, State
from sregym.cluster.contract import Compensation, ExecResult, HttpReply, PatchType, Selection
from sregym.cluster.objects import Kind, Obj, Ref, configmap, deployment, dig, node, pod, service
from sregym.cluster.traffic import LoadPhase, OperationStats, TrafficWindow
from sregym.errors import DefinitionError, InjectionError

__all__ = [
    "AllOf",
    "AnyOf",
    "App",
    "Await",
    "Baseline",
    "Check",
    "Compensation",
    "Concept",
    "Context",
    "Create",
    "DefinitionError",
    "Delete",
    "Diagnoses",
    "Edge",
    "Exec",
    "ExecResult",
    "Exercise",
    "Fault",
    "FaultClass",
    "FaultContext",
    "HttpReply",
    "InOrder",
    "InjectionError",
    "Kind",
    "Layer",
    "LoadPhase",
    "Look",
    "Noise",
    "Not",
    "Obj",
    "Observation",
    "Operation",
    "OperationStats",
    "Oracle",
    "OracleContext",
    "Patch",
    "PatchType",
    "Problem",
    "Provenance",
    "Ref",
    "Repair",
    "Restart",
    "Role",
    "RootCause",
    "Scale",
    "Selection",
    "ServiceSpec",
    "SetEnv",
    "State",
    "Step",
    "Together",
    "Topology",
    "TrafficWindow",
    "Transient",
    "Variant",
    "Verdict",
    "VerdictState",
    "Via",
    "WaitRollout",
    "When",
    "configmap",
    "deployment",
    "dig",
    "node",
    "on",
    "pod",
    "service",
]
