"""Root causes are read structurally: one service and one mechanism per cause, by whole phrases."""

from __future__ import annotations

import pytest

from sregym.incidentops.errors import ToolError
from sregym.incidentops.rootcause import Claim, match, mechanisms_in, parse
from sregym.incidentops.world.instance import Cause

AUTH = Cause(component="auth", mechanism="misconfiguration", accepted=("config_drift",))
DB = Cause(component="db", mechanism="memory_leak")


@pytest.mark.parametrize(
    ("text", "component", "mechanism"),
    [
        ("auth: misconfiguration", "auth", "misconfiguration"),
        ("Auth: wrong config value of jwt_secret_version", "auth", "misconfiguration"),
        ("api and search fail because auth has a wrong setting", "auth", "misconfiguration"),
        ("db: not a memory leak but connection pool exhaustion", "db", "pool_exhaustion"),
        ("search: leaked connections", "search", "pool_exhaustion"),
        ('{"component": "db", "mechanism": "disk full"}', "db", "disk_full"),
        ("none: false alarm", "none", "self_recovered"),
    ],
)
def test_reads(text: str, component: str, mechanism: str) -> None:
    assert parse(text) == [Claim(component=component, mechanism=mechanism)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "auth is broken",
        "auth: memory leak or disk full",
        "auth and db have a memory leak",
        "a; b; c; d",
        "[1]",
        "{",
        "auth: memory leak; db: memory leak; api: memory leak; search: memory leak",
        "cache: memory leak",
    ],
)
def test_refuses(text: str) -> None:
    with pytest.raises(ToolError):
        parse(text)


def test_words_inside_words_do_not_count() -> None:
    assert mechanisms_in("reconfiguration of leakproof regressions") == []


@pytest.mark.parametrize(
    ("text", "worth"),
    [
        ("auth: misconfiguration", 1.0),
        ("auth: config drift", 1.0),
        ("auth: memory leak", 0.4),
        ("db: misconfiguration", 0.0),
        ("auth: misconfiguration; db: memory leak", 0.5),
    ],
)
def test_one_cause(text: str, worth: float) -> None:
    assert match(parse(text), [AUTH]) == pytest.approx(worth)


@pytest.mark.parametrize(
    ("text", "worth"),
    [("db: leak; auth: misconfiguration", 1.0), ("auth: misconfiguration", 0.5), ("auth: leak; db: leak", 0.7)],
)
def test_two_causes(text: str, worth: float) -> None:
    assert match(parse(text), [AUTH, DB]) == pytest.approx(worth)
