"""Restarts everything and hopes."""

from __future__ import annotations

from . import desk
from .kube import WORKLOADS, change, items, name_of, rolled_out


def main() -> None:
    app = desk.app()
    names = app["namespaces"]
    desk.diagnose(
        f"Some workload of {app['app_name']} got into a bad state; restarting all of them should bring it back."
    )
    restarted = []
    for namespace in names:
        for kind in WORKLOADS:
            for workload in items(kind, namespace):
                if change("rollout", "restart", f"{kind}/{name_of(workload)}", "-n", namespace).ok:
                    restarted.append((kind, name_of(workload), namespace))
    for kind, name, namespace in restarted:
        rolled_out(kind, name, namespace, within=60)
    desk.mitigated()


if __name__ == "__main__":
    main()
