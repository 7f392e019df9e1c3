"""Draws an `Instance` from (scenario, level, seed): which service, which key, which values, which distractors.

Pure and repeatable: one `random.Random` seeded by the three names, used in the order of the file.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from sregym.incidentops.errors import ScenarioError
from sregym.incidentops.scenarios.catalogue import catalogue
from sregym.incidentops.scenarios.distractors import People, add_distractors, base_deploys, next_version
from sregym.incidentops.scenarios.schema import (
    CallSpec,
    CauseSpec,
    DeploySpec,
    Draw,
    EffectSpec,
    LogSpec,
    MatchSpec,
    Scenario,
    SettingSpec,
    Text,
    WhenSpec,
)
from sregym.incidentops.world import noise
from sregym.incidentops.world.instance import (
    LEVELS,
    Call,
    Cause,
    Deploy,
    Effect,
    Instance,
    Level,
    LogRule,
    When,
)
from sregym.incidentops.world.topology import Match, Setting, Value, company

PAR = {"easy": 11, "medium": 13, "hard": 15}  # steps that cost nothing; + PAR_PER_CAUSE for every further cause
PAR_PER_CAUSE = 6
MAX_STEPS = 30
LOG_PAGE = {"easy": 25, "medium": 18, "hard": 12}


@lru_cache(maxsize=512)
def build(scenario: str, level: str, seed: int) -> Instance:
    """The instance of a scenario; equal arguments give an equal (and the same) value.

    Raises:
        UnknownTaskError: no such scenario or level.
        ScenarioError: the file's templates do not resolve.
    """
    spec = catalogue().scenario(scenario)
    checked = catalogue().level(level)
    return _Builder(spec=spec, level=checked, seed=seed).instance()


@dataclass(slots=True)
class _Names:
    """The names that templates may use."""

    values: dict[str, Any]

    def fill(self, template: Any) -> Any:
        """Fill a value, a list or a mapping of templates."""
        if isinstance(template, str):
            if template.startswith("{") and template.endswith("}") and template[1:-1] in self.values:
                return self.values[template[1:-1]]
            try:
                return template.format_map(self.values) if "{" in template else template
            except (KeyError, IndexError, ValueError) as error:
                raise ScenarioError(f"template {template!r}: unknown name {error}") from error
        if isinstance(template, Mapping):
            return {self.fill(key): self.fill(value) for key, value in template.items()}
        if isinstance(template, list | tuple):
            return [self.fill(item) for item in template]
        return template


class _Builder:
    """One run of the draws."""

    def __init__(self, *, spec: Scenario, level: Level, seed: int) -> None:
        self.spec, self.level, self.seed = spec, level, seed
        self.key = f"{spec.id}/{level}/{seed}"
        self.rng = random.Random(self.key)
        self.people = People(self.rng)
        self.names = _Names(self._draw_names())
        self.onset = self.rng.randint(*spec.onset[level])
        self.settings = {name: {s.key: s for s in service.config} for name, service in company().services.items()}
        self.declared: dict[str, dict[str, Value]] = {}
        self.deploys: dict[str, list[Deploy]] = {}
        self.fault_versions: dict[str, str] = {}

    # --- draws ---------------------------------------------------------------------------------------------

    def _draw_names(self) -> dict[str, Any]:
        values: dict[str, Any] = dict(self.rng.choice(self.spec.cases))
        if self.spec.more_cases:
            other = [case for case in self.spec.more_cases if case["service_b"] != values.get("service")]
            values.update(self.rng.choice(other))
        for name, draw in self.spec.draws.items():
            values[name] = self._draw(draw, values)
        names = _Names(values)
        for _ in range(2):  # a case may use a draw, and a draw a case
            values.update({name: names.fill(value) for name, value in values.items()})
        return values

    def _draw(self, draw: Draw, values: Mapping[str, Any]) -> Value:
        if draw.choice is not None:
            return self.rng.choice(draw.choice)
        if draw.integer is not None:
            low, high = draw.integer
            return self.rng.randrange(low, high + 1, draw.step)
        if draw.add is not None:
            return int(values[draw.add[0]]) + draw.add[1]
        if draw.hexadecimal is not None:
            return f"{self.rng.getrandbits(4 * draw.hexadecimal):0{draw.hexadecimal}x}"
        banned = set(_Names(dict(values)).fill(draw.service_except or []))
        return self.rng.choice([name for name in company().names if name not in banned])

    def _text(self, text: Text) -> str:
        return str(self.names.fill(self.rng.choice(text) if isinstance(text, list) else text))

    def _here(self, specs: Iterable[Any]) -> list[Any]:
        return [spec for spec in specs if self.level in spec.levels]

    # --- the instance ----------------------------------------------------------------------------------------

    def instance(self) -> Instance:
        """Everything drawn, in the order of the file."""
        self._vary_settings()
        for setting in self._here(self.spec.settings):
            self._apply_setting(setting)
        self.deploys = base_deploys(self.rng, self.people)
        for deploy in self._here(self.spec.deploys):
            self._apply_deploy(deploy)
        causes = tuple(self._cause(cause) for cause in self.spec.causes)
        effects = [self._effect(effect, causes) for effect in self._here(self.spec.effects)]
        if self.spec.distractors and self.level != "easy":
            touched = {effect.on for effect in effects} | {cause.component for cause in causes}
            effects += add_distractors(
                rng=self.rng,
                people=self.people,
                level=self.level,
                onset=self.onset,
                touched=touched,
                config_causes=self._config_causes(causes),
                deploys=self.deploys,
                settings=self.settings,
                declared=self.declared,
            )
        return Instance(
            scenario=self.spec.id,
            level=self.level,
            seed=self.seed,
            incident_id=f"INC-{self.rng.randint(1000, 9999)}",
            title=self._text(self.spec.incident_titles),
            severity=self.rng.choice(["SEV2", "SEV2", "SEV1"]),
            paged_service="",
            date=f"2026-{self.rng.randint(1, 12):02d}-{self.rng.randint(1, 28):02d}",
            hour=self.rng.randint(2, 21),
            minute=self.rng.randint(0, 59),
            settings=self.settings,
            declared=self.declared,
            deploys={name: tuple(sorted(items, key=_tick)) for name, items in self.deploys.items()},
            effects=tuple(effects),
            causes=causes,
            par_steps=PAR[self.level] + PAR_PER_CAUSE * (len(causes) - 1),
            max_steps=MAX_STEPS,
            log_page=LOG_PAGE[self.level],
            noise=noise.table(seed=self.key),
        )

    def _config_causes(self, causes: tuple[Cause, ...]) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        by_release = {cause.when.service for cause in causes if cause.when is not None and cause.when.deploy}
        for cause in causes:
            if cause.when is not None and cause.when.key and cause.when.service not in by_release:
                found.setdefault(cause.when.service, set()).add(cause.when.key)
        return found

    def _vary_settings(self) -> None:
        for name, settings in self.settings.items():
            for key, varied in _variants(name).items():
                settings[key] = self.rng.choice(varied)
            self.declared[name] = {key: setting.value for key, setting in settings.items()}

    def _apply_setting(self, spec: SettingSpec) -> None:
        service, key, value = self.names.fill(spec.service), self.names.fill(spec.key), self.names.fill(spec.value)
        old = self.settings[service].get(key)
        kind = spec.type or (old.type if old is not None else "str")
        reload = spec.reload or (old.reload if old is not None else "hot")
        if spec.restart_when_hard and self.level == "hard":
            reload = "restart"
        safe = self._match(spec.safe) if spec.safe is not None else (old.safe if old is not None else None)
        self.settings[service][key] = Setting(key=key, type=kind, value=value, reload=reload, safe=safe)
        self.declared[service][key] = value if spec.declared is None else self.names.fill(spec.declared)

    def _apply_deploy(self, spec: DeploySpec) -> None:
        service = self.names.fill(spec.service)
        previous = self.deploys[service][-1].version
        version = next_version(self.rng, previous)
        self.fault_versions[service] = version
        config = tuple((str(key), old, new) for key, old, new in self.names.fill(spec.config))
        self.deploys[service].append(
            Deploy(
                version=version,
                previous=previous,
                author=self.people.one(),
                tick=self.onset - spec.before_onset,
                summary=self._text(spec.summary),
                diff=tuple(self.names.fill(spec.diff)),
                config=config,
            )
        )

    def _match(self, spec: MatchSpec) -> Match:
        return Match(op=spec.op, value=self.names.fill(spec.value))

    def _when(self, spec: WhenSpec) -> When:
        service = self.names.fill(spec.service)
        if spec.deploy:
            return When(service=service, deploy=self.fault_versions[service])
        assert spec.match is not None  # the schema holds this
        return When(
            service=service,
            key=self.names.fill(spec.key),
            match=self._match(spec.match),
            unless_key=spec.unless_key,
            unless=None if spec.unless is None else self._match(spec.unless),
        )

    def _cause(self, spec: CauseSpec) -> Cause:
        return Cause(
            component=self.names.fill(spec.component),
            mechanism=spec.mechanism,
            accepted=tuple(spec.accepted),
            also_components=tuple(self.names.fill(spec.also_components)),
            when=None if spec.when is None else self._when(spec.when),
            evidence=self._calls(spec.evidence),
            repair=self._repair(spec),
        )

    def _calls(self, specs: Sequence[CallSpec]) -> tuple[Call, ...]:
        return tuple(Call(tool=s.tool, arguments=self.names.fill(s.arguments)) for s in self._here(specs))

    def _repair(self, spec: CauseSpec) -> tuple[Call, ...]:
        """The stated repair, with the restart that a setting of this level needs."""
        calls = list(self._calls(spec.repair))
        for call in list(calls):
            if call.tool != "patch_config":
                continue
            service, key = str(call.arguments["service"]), str(call.arguments["key"])
            restart = Call(tool="restart_service", arguments={"service": service})
            if self.settings[service][key].reload == "restart" and restart not in calls:
                calls.append(restart)
        return tuple(calls)

    def _effect(self, spec: EffectSpec, causes: tuple[Cause, ...]) -> Effect:
        number = self._number
        starts = self.onset + spec.after
        cause = causes[spec.cause] if spec.cause is not None else None
        fall = spec.easy_fall if spec.easy_fall is not None and self.level == "easy" else number(spec.fall)
        return Effect(
            name=spec.name,
            on=self.names.fill(spec.at),
            cause=spec.cause,
            when=cause.when if cause is not None and spec.when == "cause" else None,
            starts=starts,
            ends=None if spec.lasts is None else starts + spec.lasts,
            start_level=spec.start_level,
            rise=number(spec.rise),
            fall=fall,
            cap=spec.cap,
            crash_to=spec.crash_to,
            restart_clears=spec.restart_clears,
            error=number(spec.error),
            latency_ms=number(spec.latency_ms),
            memory_mb=number(spec.memory_mb),
            cpu_pct=number(spec.cpu_pct),
            queue=number(spec.queue),
            disk_pct=number(spec.disk_pct),
            lag_s=number(spec.lag_s),
            connections=number(spec.connections),
            capacity=number(spec.capacity),
            demand_rps=number(spec.demand_rps),
            logs=tuple(self._log(log) for log in self._here(spec.logs)),
        )

    def _number(self, template: float | str) -> float:
        return float(self.names.fill(template))

    def _log(self, spec: LogSpec) -> LogRule:
        return LogRule(
            service=self.names.fill(spec.service),
            level=spec.level,
            text=self._text(spec.text),
            above=spec.above,
            below=spec.below,
            every=spec.every,
            clue=spec.clue,
        )


@cache
def _variants(service: str) -> dict[str, list[Setting]]:
    """The settings of a service that vary, each with every value that it may have."""
    return {
        setting.key: [setting.model_copy(update={"value": value}) for value in setting.vary]
        for setting in company().services[service].config
        if setting.vary
    }


def _tick(deploy: Deploy) -> int:
    return deploy.tick


def check_all() -> int:
    """Build every scenario at every level for a few seeds; how many instances there were. For tests and CI."""
    built = 0
    for scenario in catalogue().ids:
        for level in LEVELS:
            for seed in range(3):
                build(scenario, level, seed)
                built += 1
    return built
