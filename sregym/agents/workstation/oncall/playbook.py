"""A runbook, automated: look, name the surest cause, repair it, look again. No model."""

from __future__ import annotations

import time

from . import config_rules, desk, pod_rules, telemetry_rules, wiring_rules
from .findings import VAGUE, Finding
from .kube import change, dig, name_of, rolled_out
from .world import KINDS, World, is_ready

RULES = (*wiring_rules.RULES, *config_rules.RULES, *pod_rules.RULES, *telemetry_rules.RULES)
ROUNDS = 4
LOOKS = 6
BETWEEN_LOOKS_S = 5.0
SETTLE_S = 60


def findings(namespaces: list[str]) -> list[Finding]:
    """What is wrong, surest first; each text once."""
    found: dict[str, Finding] = {}
    for namespace in namespaces:
        world = World.look(namespace)
        for rule in RULES:
            for finding in rule(world):
                found.setdefault(finding.text, finding)
    return sorted(found.values(), key=lambda finding: -finding.weight)


def surest(found: list[Finding]) -> list[Finding]:
    """The causes; what is less sure than they are is taken for their consequence."""
    return [finding for finding in found if finding.weight == found[0].weight] if found else []


def watch_for_trouble(namespaces: list[str]) -> list[Finding]:
    """Look a few times, since some signs (kills, probe failures) take a while to show."""
    found: list[Finding] = []
    for _ in range(LOOKS):
        found = findings(namespaces)
        if found and found[0].weight > VAGUE:
            break
        time.sleep(BETWEEN_LOOKS_S)
    return found


def settle(namespaces: list[str]) -> None:
    """Wait until what was changed has rolled out, and let what still crashes start afresh."""
    for namespace in namespaces:
        world = World.look(namespace)
        for pod in world.pods:
            waiting = [
                dig(s, "state", "waiting", "reason") for s in dig(pod, "status", "containerStatuses", default=[])
            ]
            if not is_ready(pod) and "CrashLoopBackOff" in waiting:
                change("delete", "pod", name_of(pod), "-n", namespace, "--wait=false")
        for workload in world.workloads:
            rolled_out(KINDS[workload["kind"]], name_of(workload), namespace, within=SETTLE_S)


def main() -> None:
    namespaces = list(desk.app()["namespaces"])
    found = watch_for_trouble(namespaces)
    causes = surest(found)
    desk.diagnose(" ".join(finding.text for finding in causes) or "No rule of the playbook finds anything wrong.")
    for _ in range(ROUNDS):
        for finding in causes:
            desk.say(f"repairing: {finding.text}")
            finding.repair()
        settle(namespaces)
        causes = [finding for finding in surest(findings(namespaces)) if finding.weight > VAGUE]
        if not causes:
            break
    desk.mitigated()


if __name__ == "__main__":
    main()
