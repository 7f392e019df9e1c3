"""Restarts everything and hopes."""

from __future__ import annotations

import time

from . import desk
from .kube import WORKLOADS, change, items, name_of, rolled_out

PATIENCE_S = 60.0
"""For all of them together: what does not come back has no part in the waiting of the others."""


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
    until = time.monotonic() + PATIENCE_S
    for kind, name, namespace in restarted:
        rolled_out(kind, name, namespace, within=max(1, round(until - time.monotonic())))
    desk.mitigated()


if __name__ == "__main__":
    main()
