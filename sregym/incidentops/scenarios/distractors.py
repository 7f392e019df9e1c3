"""What is true of every company and has nothing to do with the incident: past releases, other people's
releases, noisy logs, harmless drift, an alert that flaps. The medium and hard levels add more of it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from sregym.incidentops.world.instance import Deploy, Effect, Level, LogRule
from sregym.incidentops.world.topology import Setting, Value, company

AUTHORS = ("amara", "bjorn", "chen", "dilara", "emeka", "farah", "goran", "hana", "ines", "jonas", "keiko", "luis")

PAST = (
    ("Bump base image", ("- FROM debian:12.7", "+ FROM debian:12.8")),
    ("Tidy request logging", ('- log.info("req")', '+ log.info("request handled")')),
    ("Add a unit test for date parsing", ("+ def test_parses_week_dates():", "+     assert parse('2026-W07')")),
    ("Rename an internal metric", ("- counter('reqs')", "+ counter('requests_total')")),
    ("Update dependencies", ("- orjson==3.10.1", "+ orjson==3.10.7")),
    ("Remove dead code", ("- def legacy_export(rows):", "-     ...")),
)

RECENT = (
    ("Log the caller's name", ("+ log.info('caller', name=peer)",)),
    ("Use a shorter cache key for avatars", ("- key = f'avatar:{user}:{size}'", "+ key = f'av:{user}:{size}'")),
    ("Expose build date in /version", ("+ info['built'] = BUILT_AT",)),
    ("Speed up JSON encoding", ("- json.dumps(body)", "+ orjson.dumps(body)")),
    ("Raise unit test coverage", ("+ def test_empty_page(): ...",)),
    ("Change the order of response headers", ("- headers = dict(h)", "+ headers = sorted(h)")),
)

SCARY = (
    ("ERROR", "deadlock detected, transaction <id> rolled back and retried"),
    ("ERROR", "unhandled exception in metrics exporter, exporter restarted"),
    ("WARN", "GC pause <n>ms"),
    ("ERROR", "failed to refresh feature flag cache, using the cached copy"),
    ("WARN", "circuit breaker half-open for geo lookup"),
    ("ERROR", "cannot write audit sample <id>, dropped"),
    ("WARN", "connection reset by peer while reading response header from client"),
    ("ERROR", "tracing exporter: deadline exceeded, <n> spans dropped"),
)

HARMLESS: dict[str, tuple[str, ...]] = {  # settings whose value does not matter
    "api": ("cors_max_age_s", "gzip_min_bytes"),
    "payments": ("settlement_currency", "idempotency_window_s"),
    "search": ("max_result_window", "synonyms_file"),
    "auth": ("password_hash_rounds", "session_ttl_s"),
    "notifications": ("template_pack", "batch_size"),
    "db": ("work_mem_mb", "checkpoint_timeout_s"),
}


class People:
    """Draws authors."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def one(self) -> str:
        """An author."""
        return self._rng.choice(AUTHORS)


def next_version(rng: random.Random, previous: str) -> str:
    """A version after `previous`: one more minor, some patch."""
    major, minor, _ = previous.split(".")
    return f"{major}.{int(minor) + 1}.{rng.randint(0, 4)}"


def base_deploys(rng: random.Random, people: People) -> dict[str, list[Deploy]]:
    """Two releases of every service, days ago."""
    deploys: dict[str, list[Deploy]] = {}
    for name in company().names:
        old = f"{rng.randint(1, 6)}.{rng.randint(2, 30)}.{rng.randint(0, 4)}"
        middle = next_version(rng, old)
        new = next_version(rng, middle)
        age = rng.randint(4, 9) * 1440
        (first, first_diff), (second, second_diff) = rng.sample(PAST, 2)
        deploys[name] = [
            Deploy(version=middle, previous=old, author=people.one(), tick=-2 * age, summary=first, diff=first_diff),
            Deploy(
                version=new,
                previous=middle,
                author=people.one(),
                tick=-age + rng.randint(0, 600),
                summary=second,
                diff=second_diff,
            ),
        ]
    return deploys


def add_distractors(
    *,
    rng: random.Random,
    people: People,
    level: Level,
    onset: int,
    touched: set[str],
    config_causes: Mapping[str, set[str]],
    deploys: dict[str, list[Deploy]],
    settings: dict[str, dict[str, Setting]],
    declared: dict[str, dict[str, Value]],
) -> list[Effect]:
    """Add harmless things; the effects (log noise, a flapping alert) are returned.

    `config_causes` names the services whose cause is a setting, with those settings: there a harmless release may
    come after the one that broke it, and a harmless setting may have drifted.
    """
    quiet = [name for name in company().names if name not in touched]
    rng.shuffle(quiet)
    count = 2 if level == "hard" else 1
    for name in quiet[:count]:
        deploys[name].append(_harmless_release(rng, people, deploys[name][-1].version, onset - rng.randint(0, 3)))
    for name in sorted(config_causes):
        keys = [key for key in HARMLESS[name] if key not in config_causes[name]]
        if rng.random() < (0.8 if level == "hard" else 0.5):
            _drift(rng, name, keys[-1], settings, declared)
        if level == "hard" or rng.random() < 0.5:
            deploys[name].append(_harmless_change(rng, people, name, keys[0], onset, settings, declared, deploys))
    for name in rng.sample(sorted(HARMLESS), count):
        keys = [key for key in HARMLESS[name] if key not in config_causes.get(name, set())]
        _drift(rng, name, keys[-1], settings, declared)
    effects = [_scary_logs(rng, name, onset) for name in quiet[-count:]]
    if level == "hard" and quiet:
        effects.append(_flapping_cpu(rng, quiet[0]))
    return effects


def _harmless_release(rng: random.Random, people: People, previous: str, tick: int) -> Deploy:
    summary, diff = rng.choice(RECENT)
    version = next_version(rng, previous)
    return Deploy(version=version, previous=previous, author=people.one(), tick=tick, summary=summary, diff=diff)


def _others(setting: Setting, rng: random.Random) -> Value | None:
    values = [value for value in setting.vary if value != setting.value]
    return rng.choice(values) if values else None


def _drift(
    rng: random.Random,
    name: str,
    key: str,
    settings: dict[str, dict[str, Setting]],
    declared: dict[str, dict[str, Value]],
) -> None:
    other = _others(settings[name][key], rng)
    if other is not None:
        declared[name][key] = other


def _harmless_change(
    rng: random.Random,
    people: People,
    name: str,
    key: str,
    onset: int,
    settings: dict[str, dict[str, Setting]],
    declared: dict[str, dict[str, Value]],
    deploys: dict[str, list[Deploy]],
) -> Deploy:
    """A release on top of the others that changes a setting which does not matter."""
    now, before = settings[name][key].value, _others(settings[name][key], rng)
    plain = _harmless_release(rng, people, deploys[name][-1].version, onset + 1)
    if before is None:
        return plain
    declared[name][key] = now
    return replace(
        plain,
        summary=rng.choice(("Adjust a default", "Housekeeping of settings", "Product request: new default")),
        diff=(f"- {key}: {before}", f"+ {key}: {now}"),
        config=((key, before, now),),
    )


def _scary_logs(rng: random.Random, name: str, onset: int) -> Effect:
    rules = tuple(
        LogRule(service=name, level=level, text=text, every=rng.randint(1, 2)) for level, text in rng.sample(SCARY, 2)
    )
    return Effect(name="scary-logs", on=name, cause=None, starts=onset - rng.randint(0, 2), start_level=1.0, logs=rules)


def _flapping_cpu(rng: random.Random, name: str) -> Effect:
    starts = rng.randint(-5, -2)
    text = "scheduled job nightly-compaction took <n>ms"
    return Effect(
        name="scheduled-job",
        on=name,
        cause=None,
        starts=starts,
        ends=starts + rng.randint(5, 8),
        start_level=1.0,
        cpu_pct=68.0,
        logs=(LogRule(service=name, level="INFO", text=text),),
    )
