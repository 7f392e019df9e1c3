"""The alert rules: well formed, and (where there is a promtool) firing when and only when they should."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from sregym import process
from sregym.observability.stack import CONFIG

RULES = CONFIG / "prometheus-rules"
CASES = Path(__file__).with_name("rules_test.yml")
PROMTOOL = shutil.which("promtool")
WANTED = {
    "PodNotReady",
    "ContainerCrashLooping",
    "PodPending",
    "ContainerOutOfMemory",
    "ContainerThrottled",
    "HighErrorRate",
    "HighLatency",
    "EndpointDown",
    "VolumeFilling",
    "NodeUnderPressure",
    "ConsumerLagGrowing",
    "TargetDown",
}


def rules() -> list[dict[str, Any]]:
    files = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(RULES.glob("*.yml"))]
    return [rule for file in files for group in file["groups"] for rule in group["rules"]]


def test_what_an_engineer_wants_to_be_told_is_there_once() -> None:
    names = [rule["alert"] for rule in rules() if "alert" in rule]
    assert set(names) >= WANTED
    assert len(set(names)) == len(names)


def test_each_alert_says_how_bad_it_is_and_what_it_is_about() -> None:
    for rule in (rule for rule in rules() if "alert" in rule):
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), rule["alert"]
        assert "{{ $" in rule["annotations"]["summary"], rule["alert"]


def test_rules_wait_at_most_a_minute() -> None:
    """Incidents are minutes long: an alert that comes later helps nobody."""
    for rule in rules():
        assert re.fullmatch(r"(\d+s|1m)", rule.get("for", "0s")), rule


@pytest.mark.skipif(PROMTOOL is None, reason="no promtool here; the live test builds one")
async def test_rules_fire_when_and_only_when_they_should(tmp_path: Path) -> None:
    for path in (*RULES.glob("*.yml"), CASES):
        shutil.copy(path, tmp_path)
    assert PROMTOOL is not None
    await process.run([PROMTOOL, "check", "rules", *sorted(RULES.glob("*.yml"))])
    await process.run([PROMTOOL, "test", "rules", CASES.name], cwd=tmp_path)
