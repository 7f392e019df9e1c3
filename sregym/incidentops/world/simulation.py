"""One tick of the company: effects evolve, load flows along calls and retries, alerts and log lines follow.

Pure arithmetic on the state; no clock, no generator, no input or output. Errors of the last tick decide the
retries of this one, so a retry storm is a real feedback here: it can outlive what started it.
"""

from __future__ import annotations

from dataclasses import replace

from sregym.incidentops.world import noise as noise_table
from sregym.incidentops.world.alerts import (
    DISK_PCT,
    ERROR_OK,
    LAG_S,
    MEMORY_SHARE,
    AlertBook,
    violations,
)
from sregym.incidentops.world.instance import HISTORY_TICKS, Deploy, Effect, Instance, When
from sregym.incidentops.world.state import Change, LogLine, Sample, ServiceState
from sregym.incidentops.world.topology import Service, Topology, Value, company

RESTART_CAPACITY = 0.55  # share of capacity that a rolling restart leaves
CRASH_ERROR = 0.65
BROKEN_ERROR = 0.7
MAX_UTILISATION = 1.6


class World:
    """The company during one incident. Every public method is deterministic."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.company: Topology = company()
        self.names: list[str] = self.company.names
        self.tick_now = -HISTORY_TICKS
        self.services: dict[str, ServiceState] = {name: self._fresh(name) for name in self.names}
        self.levels: list[float] = [0.0] * len(instance.effects)
        self.alerts = AlertBook()
        self.logs: list[LogLine] = []
        self.metrics: list[dict[str, Sample]] = []
        self.changes: list[Change] = []
        self.last_error: dict[str, float] = dict.fromkeys(self.names, 0.0)

    def _fresh(self, name: str) -> ServiceState:
        stored = {key: setting.value for key, setting in self.instance.settings[name].items()}
        deploys = list(self.instance.deploys[name])
        return ServiceState(
            name=name, version=deploys[-1].version, stored=stored, running=dict(stored), deploys=deploys
        )

    def play_history(self) -> None:
        """Run up to the page (tick 0)."""
        while self.tick_now < 0:
            self.tick()

    # --- one tick ---------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Let one simulated minute pass."""
        self.tick_now += 1
        gauges = self._advance_effects()
        samples = self._flow(gauges)
        self.metrics.append(samples)
        self._write_logs(samples)
        for name in self.names:
            service = self.company.services[name]
            self.alerts.observe(tick=self.tick_now, name=name, broken=violations(service, samples[name]))
        for state in self.services.values():
            state.crashed = False
            if state.restarting:
                state.restarting -= 1

    def _jitter(self, lane: int) -> float:
        return self.instance.noise[((self.tick_now + 64) * 127 + lane * 31) % noise_table.SIZE]

    def _advance_effects(self) -> dict[str, list[tuple[Effect, float]]]:
        now = self.tick_now
        by_service: dict[str, list[tuple[Effect, float]]] = {}
        for index, effect in enumerate(self.instance.effects):
            level = self.levels[index]
            if now < effect.starts:
                continue
            if (effect.ends is None or now < effect.ends) and (effect.when is None or self.holds(effect.when)):
                level = effect.start_level if now == effect.starts else level
                level = min(effect.cap, level + effect.rise)
                if effect.crash_to is not None and level >= effect.cap:
                    level = effect.crash_to
                    self._crash(effect.on)
            else:
                level = max(0.0, level - effect.fall)
            self.levels[index] = level
            if level > 0.0:
                by_service.setdefault(effect.on, []).append((effect, level))
        return by_service

    def _crash(self, name: str) -> None:
        state = self.services[name]
        state.crashed = True
        state.restarts += 1

    def holds(self, when: When) -> bool:
        """Whether a condition holds in the running world."""
        state = self.services[when.service]
        return _holds(when, state.version, state.running)

    def holds_as_stored(self, when: When) -> bool:
        """Whether a condition would hold after a restart."""
        state = self.services[when.service]
        return _holds(when, state.version, state.stored)

    # --- load, errors, latency ---------------------------------------------------------------------------

    def _flow(self, gauges: dict[str, list[tuple[Effect, float]]]) -> dict[str, Sample]:
        demand = self._demand(gauges)
        samples: dict[str, Sample] = {}
        for lane, name in enumerate(reversed(self.names)):
            samples[name] = self._sample(
                name, lane=lane, demand=demand[name], active=gauges.get(name, ()), below=samples
            )
        ordered = {name: samples[name] for name in self.names}
        self.last_error = {name: sample.error for name, sample in ordered.items()}
        return ordered

    def _demand(self, gauges: dict[str, list[tuple[Effect, float]]]) -> dict[str, float]:
        """Requests/s that arrive at each service, retries of callers included."""
        demand = dict.fromkeys(self.names, 0.0)
        offered = dict.fromkeys(self.names, 0.0)
        offered["api"] = self.company.users_rps * (0.97 + 0.06 * self._jitter(90))
        demand["api"] = offered["api"]
        for name in self.names:
            retries = int(self.services[name].running.get("retry_max", 0))
            for callee, share in self.company.services[name].calls.items():
                first = offered[name] * share
                offered[callee] += first
                demand[callee] += first * (1 + retries * self.last_error[callee])
            for effect, level in gauges.get(name, ()):
                demand[name] += effect.demand_rps * level
        return demand

    def _sample(
        self,
        name: str,
        *,
        lane: int,
        demand: float,
        active: list[tuple[Effect, float]] | tuple[()],
        below: dict[str, Sample],
    ) -> Sample:
        service, state = self.company.services[name], self.services[name]
        lost = error = latency = memory = cpu = queue = disk = lag = conns = 0.0
        for effect, level in active:
            lost += effect.capacity * level
            error = max(error, effect.error * level)
            latency += effect.latency_ms * level
            memory += effect.memory_mb * level
            cpu += effect.cpu_pct * level
            queue += effect.queue * level
            disk += effect.disk_pct * level
            lag += effect.lag_s * level
            conns += effect.connections * level
        capacity = service.capacity_rps * max(0.05, 1.0 - lost)
        if state.restarting:
            capacity *= RESTART_CAPACITY
        shed = 1.0 - capacity / demand if demand > capacity else 0.0
        if state.crashed:
            error = max(error, CRASH_ERROR)
        if state.broken:
            error = max(error, BROKEN_ERROR)
        ok = (1.0 - shed) * (1.0 - min(error, 0.98))
        waiting = 0.0
        for callee, share in service.calls.items():
            weight = min(share, 1.0)
            ok *= 1.0 - 0.9 * weight * below[callee].error
            waiting += weight * max(0.0, below[callee].p95_ms - 1.6 * self.company.services[callee].p95_ms)
        jitter, second, third = self._jitter(lane), self._jitter(lane + 20), self._jitter(lane + 40)
        total_error = min(0.99, (1.0 - ok) + 0.004 * second)
        utilisation = min(demand / capacity, MAX_UTILISATION)
        p95 = service.p95_ms * (0.92 + 0.16 * jitter) * (1.0 + 4.0 * utilisation**4) + latency + 0.6 * waiting
        limit = int(state.running[service.connections.limit_key])
        need = service.connections.base * (0.9 + 0.2 * third) * (1.0 + 2.0 * max(0.0, utilisation - 0.6)) + conns
        return Sample(
            demand,
            total_error,
            p95,
            min(99.0, service.cpu_pct * (0.7 + 0.5 * utilisation) * (0.95 + 0.1 * third) + cpu),
            min(service.memory_limit_mb, service.memory_mb * (0.98 + 0.04 * second) + memory),
            min(100.0, service.disk_pct + 0.4 * third + disk),
            (service.queue_depth or 0.0) * (0.7 + 0.6 * second) + queue,
            (0.4 + third if service.replication else 0.0) + lag,
            min(float(limit), need),
            limit,
        )

    def healthy(self, name: str, sample: Sample | None = None) -> list[str]:
        """Why a service is not healthy now; empty when it is."""
        service = self.company.services[name]
        now = self.metrics[-1][name] if sample is None else sample
        reasons = []
        if self.services[name].restarting:
            reasons.append("instances are still coming up")
        if now.error > ERROR_OK:
            reasons.append(f"error rate {now.error * 100:.1f}% (healthy: at most 2%)")
        if now.p95_ms > service.slo_p95_ms:
            reasons.append(f"p95 {now.p95_ms:.0f} ms (objective {service.slo_p95_ms:.0f} ms)")
        if now.memory_mb > MEMORY_SHARE * service.memory_limit_mb:
            reasons.append(f"memory {now.memory_mb:.0f} of {service.memory_limit_mb:.0f} MiB")
        if now.disk_pct > DISK_PCT:
            reasons.append(f"disk {now.disk_pct:.0f}% full")
        if service.queue_depth is not None and now.queue > service.queue_alert:
            reasons.append(f"{now.queue:.0f} messages wait in the queue")
        if now.lag_s > LAG_S:
            reasons.append(f"reads are {now.lag_s:.0f} s behind the primary")
        return reasons

    def fork(self) -> World:
        """An independent copy that can be run ahead; it starts with no log lines."""
        other = World(self.instance)
        other.tick_now = self.tick_now
        other.levels = list(self.levels)
        other.last_error = dict(self.last_error)
        other.metrics = self.metrics[-1:]
        for name, state in self.services.items():
            other.services[name] = replace(
                state,
                stored=dict(state.stored),
                running=dict(state.running),
                deploys=list(state.deploys),
                rolled_back=set(state.rolled_back),
                broken=set(state.broken),
            )
        return other

    def all_healthy(self) -> bool:
        """Whether every service is healthy now."""
        return not any(self.healthy(name) for name in self.names)

    # --- logs ----------------------------------------------------------------------------------------------

    def _write_logs(self, samples: dict[str, Sample]) -> None:
        now, lines = self.tick_now, self.logs
        for lane, name in enumerate(self.names):
            service = self.company.services[name]
            self._ambient(lane, name, service)
            if self.services[name].crashed:
                lines.append(LogLine(now, 7, name, "ERROR", "process killed: out of memory, exit code 137", -1))
                lines.append(LogLine(now, 19, name, "INFO", "process started, warming caches", -1))
            self._failing_calls(lane, name, service, samples)
            for key in sorted(self.services[name].broken):
                text = f"setting {key} holds a value this service cannot work with"
                lines.append(LogLine(now, 33, name, "ERROR", text, -1))
        for index, effect in enumerate(self.instance.effects):
            self._effect_logs(effect, self.levels[index])

    def _ambient(self, lane: int, name: str, service: Service) -> None:
        roll = self._jitter(100 + lane)
        count = len(service.ambient)
        pick = min(int(roll * count * 1.0), count - 1)
        if pick == count - 1 and self._jitter(120 + lane) > 0.35:
            pick = lane % (count - 1)  # the last template is a harmless warning: keep it rare
        level, _, text = service.ambient[pick].partition(" ")
        low = int(roll * 89) + 10
        text = text.format(
            ms=int(service.p95_ms * (0.3 + roll)), id=f"{int(roll * 16777215):06x}", n=low, k=low % 7 + 1
        )
        self.logs.append(LogLine(self.tick_now, int(roll * 59), name, level, text, -1))

    def _failing_calls(self, lane: int, name: str, service: Service, samples: dict[str, Sample]) -> None:
        for callee in service.calls:
            error = samples[callee].error
            if error > 0.04:
                kind = "timed out" if samples[callee].p95_ms > self.company.services[callee].slo_p95_ms else "failed"
                share = int(error * 100)
                second = int(self._jitter(140 + lane) * 59)
                text = f"call to {callee} {kind} ({share}% of calls in the last minute)"
                self.logs.append(LogLine(self.tick_now, second, name, "WARN" if error < 0.3 else "ERROR", text, -1))

    def _effect_logs(self, effect: Effect, level: float) -> None:
        for number, rule in enumerate(effect.logs):
            if rule.above <= level < rule.below and (self.tick_now - effect.starts) % rule.every == 0:
                roll = self._jitter(160 + number)
                text = rule.text.replace("<n>", str(int(roll * 900) + 100)).replace(
                    "<id>", f"{int(roll * 16777215):06x}"
                )
                clue = effect.cause if rule.clue and effect.cause is not None else -1
                self.logs.append(LogLine(self.tick_now, int(roll * 59), rule.service, rule.level, text, clue))

    # --- changes -------------------------------------------------------------------------------------------

    def restart(self, name: str) -> None:
        """Rolling restart: settings are loaded, what a restart clears is cleared."""
        state = self.services[name]
        state.running = dict(state.stored)
        state.restarting = 2
        state.restarts += 1
        for index, effect in enumerate(self.instance.effects):
            if effect.on == name and effect.restart_clears:
                self.levels[index] = 0.0
        self.changes.append(Change(tick=self.tick_now, service=name, text="restarted by on-call"))

    def patch(self, name: str, key: str, value: Value) -> None:
        """Store a setting; a hot one runs at once, the others after a restart."""
        state = self.services[name]
        setting = self.instance.settings[name][key]
        before = state.stored[key]
        state.stored[key] = value
        if setting.reload == "hot":
            state.running[key] = value
        if setting.safe is not None and not setting.safe.holds(value):
            state.broken.add(key)
        else:
            state.broken.discard(key)
        text = f"{key}: {_show(before)} -> {_show(value)} by on-call"
        self.changes.append(Change(tick=self.tick_now, service=name, text=text))

    def live_deploy(self, name: str) -> Deploy:
        """The release that runs now."""
        state = self.services[name]
        return next(deploy for deploy in reversed(state.deploys) if deploy.version == state.version)

    def roll_back(self, name: str) -> Deploy | None:
        """Go to the release before the live one, with the settings that came with it; None if there is none."""
        state = self.services[name]
        live = self.live_deploy(name)
        if not any(deploy.version == live.previous for deploy in state.deploys):
            return None
        state.rolled_back.add(live.version)
        state.version = live.previous
        for key, old, _ in live.config:
            state.stored[key] = old
            state.broken.discard(key)
        self.restart(name)
        self.changes[-1].text = f"rolled back {live.version} -> {live.previous} by on-call"
        return live

    def time_of(self, tick: int, second: int = 0) -> str:
        """A tick as a time stamp."""
        minutes = self.instance.hour * 60 + self.instance.minute + tick
        return f"{self.instance.date}T{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}Z"


def _holds(when: When, version: str, settings: dict[str, Value]) -> bool:
    if when.deploy:
        return version == when.deploy
    if when.unless is not None and when.unless.holds(settings[when.unless_key]):
        return False
    return when.match is not None and when.match.holds(settings[when.key])


def _trace(roll: float) -> str:
    return f"{int(roll * 16777215):06x}"


def _show(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if value != "" else '""'
