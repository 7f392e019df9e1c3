"""Alert rules over the samples: fire after two bad ticks, resolve after two good ones."""

from __future__ import annotations

from sregym.incidentops.world.state import Alert, Sample
from sregym.incidentops.world.topology import Service

FOR_TICKS = 2
MEMORY_SHARE = 0.88
DISK_PCT = 88.0
CPU_PCT = 90.0
LAG_S = 30.0
ERROR_ALERT = 0.05
ERROR_OK = 0.02


def violations(service: Service, sample: Sample) -> list[tuple[str, str]]:
    """(rule, text) for every rule that the sample breaks, in a fixed order."""
    found: list[tuple[str, str]] = []
    if sample.error > ERROR_ALERT:
        found.append(("HighErrorRate", f"{sample.error * 100:.1f}% of requests fail (limit 5%)"))
    if sample.p95_ms > service.slo_p95_ms:
        found.append(("HighLatency", f"p95 {sample.p95_ms:.0f} ms (limit {service.slo_p95_ms:.0f} ms)"))
    if sample.memory_mb > MEMORY_SHARE * service.memory_limit_mb:
        found.append(("MemoryNearLimit", f"{sample.memory_mb:.0f} of {service.memory_limit_mb:.0f} MiB in use"))
    if sample.cpu_pct > CPU_PCT:
        found.append(("CpuHigh", f"CPU at {sample.cpu_pct:.0f}%"))
    if sample.disk_pct > DISK_PCT:
        found.append(("DiskAlmostFull", f"disk {sample.disk_pct:.0f}% full"))
    if service.queue_depth is not None and sample.queue > service.queue_alert:
        found.append(("QueueBacklog", f"{sample.queue:.0f} messages wait (limit {service.queue_alert:.0f})"))
    if sample.lag_s > LAG_S:
        found.append(("ReplicationLag", f"reads are {sample.lag_s:.0f} s behind (limit 30 s)"))
    return found


SEVERITY = {
    "HighErrorRate": "critical",
    "HighLatency": "warning",
    "MemoryNearLimit": "warning",
    "CpuHigh": "warning",
    "DiskAlmostFull": "warning",
    "QueueBacklog": "warning",
    "ReplicationLag": "warning",
}


class AlertBook:
    """Keeps the alerts of one episode. `streaks` counts ticks towards firing (> 0) or resolving (< 0)."""

    __slots__ = ("alerts", "streaks")

    def __init__(self) -> None:
        self.alerts: list[Alert] = []
        self.streaks: dict[str, int] = {}

    def firing(self) -> list[Alert]:
        """The alerts that fire now, oldest first."""
        return [alert for alert in self.alerts if alert.state == "firing"]

    def observe(self, *, tick: int, name: str, broken: list[tuple[str, str]]) -> None:
        """Take one tick's violations of one service into account."""
        if not broken and not self.alerts and not self.streaks:
            return
        open_here = {alert.rule: alert for alert in self.alerts if alert.service == name and alert.state == "firing"}
        seen = set()
        for rule, text in broken:
            seen.add(rule)
            if (alert := open_here.get(rule)) is not None:
                alert.text = text
                self.streaks.pop(f"{name}/{rule}", None)
                continue
            self._count_up(tick=tick, name=name, rule=rule, text=text)
        self._count_down(tick=tick, name=name, seen=seen, open_here=open_here)

    def _count_up(self, *, tick: int, name: str, rule: str, text: str) -> None:
        key = f"{name}/{rule}"
        streak = max(self.streaks.get(key, 0), 0) + 1
        if streak < FOR_TICKS:
            self.streaks[key] = streak
            return
        self.streaks.pop(key, None)
        self.alerts.append(
            Alert(service=name, rule=rule, severity=SEVERITY[rule], state="firing", since=tick, text=text)
        )

    def _count_down(self, *, tick: int, name: str, seen: set[str], open_here: dict[str, Alert]) -> None:
        for rule, alert in open_here.items():
            if rule in seen:
                continue
            key = f"{name}/{rule}"
            streak = min(self.streaks.get(key, 0), 0) - 1
            if -streak >= FOR_TICKS:
                alert.state, alert.until = "resolved", tick
                self.streaks.pop(key, None)
            else:
                self.streaks[key] = streak
        for key in [k for k, v in self.streaks.items() if v > 0 and k.startswith(f"{name}/")]:
            if key.split("/", 1)[1] not in seen:
                del self.streaks[key]
