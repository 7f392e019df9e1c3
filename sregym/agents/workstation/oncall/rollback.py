"""Takes back the newest change that can be taken back: the roll-out that is younger than all others."""

from __future__ import annotations

from . import desk
from .kube import WORKLOADS, Obj, change, dig, items, name_of, rolled_out

CHANGED_BY_THE_SYSTEM = ("kube-controller-manager", "kubelet", "kube-scheduler")
WITHOUT_HISTORY = ("services", "configmaps")


def changed_at(obj: Obj) -> str:
    """When somebody last changed an object (RFC 3339 sorts as text)."""
    times = [
        str(entry.get("time", ""))
        for entry in dig(obj, "metadata", "managedFields", default=[])
        if entry.get("subresource") != "status" and entry.get("manager") not in CHANGED_BY_THE_SYSTEM
    ]
    return max([*times, str(obj["metadata"]["creationTimestamp"])])


def newest(resources: tuple[str, ...], namespaces: list[str]) -> list[tuple[str, str, Obj]]:
    """(time, kind, object), newest first."""
    found = [
        (changed_at(obj), resource, obj)
        for namespace in namespaces
        for resource in resources
        for obj in items(resource, namespace, "--show-managed-fields")
    ]
    return sorted(found, key=lambda entry: entry[0], reverse=True)


def revisions(workload: Obj, namespace: str) -> int:
    own = dig(workload, "metadata", "uid")
    owned = [
        rs
        for rs in items("replicasets", namespace)
        if any(owner.get("uid") == own for owner in dig(rs, "metadata", "ownerReferences", default=[]))
    ]
    return len(owned)


def main() -> None:
    namespaces = list(desk.app()["namespaces"])
    workloads = newest(WORKLOADS, namespaces)
    others = newest(WITHOUT_HISTORY, namespaces)
    latest = max([*workloads[:1], *others[:1]], key=lambda entry: entry[0], default=None)
    if latest is None:
        desk.diagnose("Nothing to be seen that was changed.")
        desk.mitigated()
        return
    when, kind, obj = latest
    desk.diagnose(f"The last change was to {kind}/{name_of(obj)} at {when}; it broke the application. Rolling back.")
    for _, resource, workload in workloads:
        namespace = workload["metadata"]["namespace"]
        if resource == "deployments" and revisions(workload, namespace) < 2:
            continue
        if change("rollout", "undo", f"{resource}/{name_of(workload)}", "-n", namespace).ok:
            rolled_out(resource, name_of(workload), namespace, within=90)
            break
    desk.mitigated()


if __name__ == "__main__":
    main()
