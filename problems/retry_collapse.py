"""A composed, metastable failure: a short burst tips a queue over, and retries keep it there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from apps.hotel_reservation.app import HotelReservation
from injectors.load import LoadBurst
from oracles.combine import Settled
from oracles.exercises import Burst
from oracles.queues import Counters, QueueFlows, QueueStuck
from oracles.requests import OperationsFail, app_serves
from problems.common import restart_only
from sregym.api import (
    AllOf,
    Await,
    Check,
    Concept,
    Diagnoses,
    Fault,
    FaultClass,
    InOrder,
    Layer,
    LoadPhase,
    Oracle,
    Problem,
    Provenance,
    Repair,
    Role,
    RootCause,
    Scale,
    SetEnv,
    deployment,
    on,
)
from sregym.api.app import Shipped

SEARCHES: Mapping[str, float] = {"search": 1.0}


class RetryCollapse(Problem):
    """Calls wait in the callee's queue longer than their deadline and are tried again; what nobody waits for any more
    still uses capacity. The constraint is there from the start, the trigger is a burst of some seconds that is over
    when the incident begins, and the failure feeds itself at normal load.

    Restarting empties the queue but the next burst fills it again: it is no repair.
    """

    fault_class = FaultClass.METASTABLE
    layer = Layer.APPLICATION
    revision = 3
    timing_sensitive = True
    latent = True
    caller: str = "search"
    callee: str = "rate"
    capacity_rps: int = 20
    queue: int = 256
    timeout_ms: int = 750
    attempts: int = 3
    steady_rps: float = 8.0
    burst_rps: float = 40.0
    burst_s: float = 10.0

    variants = {
        "search_rate_retry_collapse_hotel_reservation": on(
            HotelReservation, provenance=Provenance.NEW, suites=("smoke",)
        ),
    }

    def ships(self) -> Shipped:
        calls = {
            "RATE_RPC_TIMEOUT_MS": str(self.timeout_ms),
            "RATE_RPC_MAX_ATTEMPTS": str(self.attempts),
            "RATE_RPC_INITIAL_BACKOFF_MS": "50",
        }
        admission = {"RATE_BACKEND_QPS_LIMIT": str(self.capacity_rps), "RATE_QUEUE_CAPACITY": str(self.queue)}
        return Shipped(values={"services": {self.caller: {"env": calls}, self.callee: {"env": admission}}})

    def load(self) -> LoadPhase:
        return LoadPhase(rate=self.steady_rps, operations=SEARCHES)

    def fault(self) -> Fault:
        return InOrder(
            Await(check=self._flows(), within=60.0),
            LoadBurst(rate=self.burst_rps, seconds=self.burst_s, operations=SEARCHES),
            Await(check=self._stuck(), within=90.0),
        )

    def symptom(self) -> Check:
        return AllOf(OperationsFail(operations=("search",), over=10.0, minimum=40), self._stuck())

    def root_causes(self) -> Sequence[RootCause]:
        return [
            RootCause(
                components=(deployment(self.caller), deployment(self.callee)),
                mechanism=f"Calls from {self.caller} to {self.callee} have a deadline of {self.timeout_ms} ms and"
                f" {self.attempts} attempts, while they wait in {self.callee}'s queue of {self.queue} that is served at"
                f" {self.capacity_rps}/s; calls that have expired keep their place, so retries keep the queue full.",
                effect="Most searches time out at normal load though all pods are healthy; it does not end by itself.",
                mechanism_concepts=(
                    Concept("retries", r"retr(y|ies)", r"attempts?", "tried again"),
                    Concept("queue or time-out", "queue", "time-?outs?", "deadline", "backlog"),
                ),
                value_concepts=(
                    Concept(
                        "a setting",
                        rf"\b{self.timeout_ms}\b",
                        rf"\b{self.attempts} (attempts|tries|times)",
                        rf"\b{self.capacity_rps}\b",
                        rf"\b{self.queue}\b",
                        "RATE_RPC_MAX_ATTEMPTS",
                        "RATE_RPC_TIMEOUT_MS",
                        "RATE_BACKEND_QPS_LIMIT",
                        "RATE_QUEUE_CAPACITY",
                    ),
                ),
                effect_concepts=(
                    Concept(
                        "searches fail and go on failing",
                        "metastable",
                        "persist",
                        "never (drain|recover)",
                        "storm",
                        "collapse",
                        "amplif",
                        r"search\w* (fail|time)",
                        "keeps? .*full",
                        "does not (recover|drain|end)",
                    ),
                ),
                victims=("frontend",),
                role=Role.CONSTRAINT,
            ),
            RootCause(
                components=(deployment(self.callee),),
                mechanism=f"A burst of searches ({self.burst_rps:g}/s for {self.burst_s:g} s, {self.steady_rps:g}/s is"
                f" usual) filled the queue of {self.callee}. It was over when the incident began.",
                effect=f"Waiting in {self.callee}'s full queue takes longer than the deadline, so calls began to be"
                " tried again.",
                mechanism_concepts=(
                    Concept(
                        "a burst",
                        r"bursts?\b",
                        "spike",
                        "surge",
                        "peak",
                        r"flood(ed)?\b",
                        r"(short|brief|transient|temporary|sudden)\w* (rise|increase|jump|overload|load|traffic|wave)",
                        r"(load|traffic|requests?) (rose|jumped|peaked|increased)",
                    ),
                ),
                value_concepts=(Concept("what it filled", "queue", "backlog"),),
                effect_concepts=(Concept("calls waited too long", "time-?outs?", "time[sd]? out", "deadline", "retr"),),
                victims=("frontend",),
                role=Role.TRIGGER,
                rank=2,
            ),
        ]

    def mitigation(self) -> Oracle:
        serves = app_serves(self.topology, operations=("search",), over=10.0, at_least=0.9)
        return Settled(
            condition=AllOf(serves, self._flows()),
            exercises=(Burst(rate=self.burst_rps, seconds=self.burst_s, operations=SEARCHES),),
            hold=10.0,
            within=180.0,
            patience=90.0,
        )

    def repairs(self) -> Sequence[Repair]:
        return [
            Repair(
                name="more capacity, fewer and more patient tries",
                steps=(
                    self._calls({"RATE_RPC_MAX_ATTEMPTS": "2", "RATE_RPC_TIMEOUT_MS": "1000"}),
                    self._admission({"RATE_BACKEND_QPS_LIMIT": "50"}),
                ),
            ),
            Repair(
                name="no retries, and a queue that is shorter than the deadline",
                steps=(self._calls({"RATE_RPC_MAX_ATTEMPTS": "1"}), self._admission({"RATE_QUEUE_CAPACITY": "10"})),
            ),
        ]

    def cheats(self) -> Sequence[Repair]:
        return [
            restart_only(self.callee, self.caller, why="empties the queue until the next burst"),
            Repair(
                name="admission control off",
                steps=(self._admission({"RATE_BACKEND_QPS_LIMIT": "0"}),),
                why="the backend behind it is not protected any more",
            ),
            Repair(name="shut the door", steps=(Scale(deployment("frontend"), 0),), why="no users, no retries"),
        ]

    def diagnoses(self) -> Diagnoses:
        return Diagnoses(
            right=(
                f"Retry storm between the deployments {self.caller} and {self.callee}: each call times out after"
                f" {self.timeout_ms} ms in the queue of {self.callee} and is retried up to {self.attempts} times."
                " Expired requests still use capacity, so the queue never drains although the burst is over, and"
                " searches fail.",
                f"Metastable collapse: deployment {self.callee} admits only {self.capacity_rps} requests/s behind a"
                f" long queue, and deployment {self.caller} retries timed-out calls. A short spike of traffic tipped it"
                " over, and retries keep the backlog full.",
            ),
            wrong=(
                f"A burst of requests has filled the queue of {self.callee}; it will recover when the burst is over.",
                "The frontend deployment is overloaded by too many users and needs more replicas.",
                "mongodb-rate is slow because its disk is full, so hotel search times out.",
                "Hotel search has a high latency and error rate.",
            ),
        )

    def _flows(self) -> QueueFlows:
        return QueueFlows(caller=self._counters(self.caller), callee=self._counters(self.callee))

    def _stuck(self) -> QueueStuck:
        return QueueStuck(caller=self._counters(self.caller), callee=self._counters(self.callee))

    def _counters(self, name: str) -> Counters:
        spec = self.topology.service(name)
        port = next(one.port for one in spec.ports if one.name == "metrics")
        return Counters(workload=name, selector=spec.selector, port=port)

    def _calls(self, env: Mapping[str, str]) -> SetEnv:
        return SetEnv(deployment(self.caller), env)

    def _admission(self, env: Mapping[str, str]) -> SetEnv:
        return SetEnv(deployment(self.callee), env)
