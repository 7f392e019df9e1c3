"""SQLite: an episode that is loaded goes on exactly as the one in memory; nothing finished is overwritten."""

from __future__ import annotations

import json
import shutil
import sqlite3
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sregym.incidentops import checkpoints, scoring
from sregym.incidentops.episode import Episode
from sregym.incidentops.errors import EpisodeError, StoreError
from sregym.incidentops.mechanisms import MECHANISMS
from sregym.incidentops.scenarios import build, catalogue
from sregym.incidentops.server.tools import TOOLS
from sregym.incidentops.store import Store
from sregym.incidentops.world.instance import LEVELS
from sregym.incidentops.world.topology import company

SERVICES = st.sampled_from(company().names)
TEXT = st.text(max_size=60)
VALUES = st.one_of(TEXT, st.integers(-5, 10**6), st.booleans())
KEYS = st.sampled_from(sorted({setting.key for service in company().services.values() for setting in service.config}))


def call(tool: str) -> st.SearchStrategy[tuple[str, dict[str, object]]]:
    fields: dict[str, st.SearchStrategy[object]] = {}
    for name in TOOLS[tool].parameters:
        fields[name] = {"service": SERVICES, "key": KEYS, "value": VALUES}.get(name, TEXT)
    return st.tuples(st.just(tool), st.fixed_dictionaries(fields))


JSON: st.SearchStrategy[object] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXT),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
SENSIBLE = st.one_of([call(tool) for tool in TOOLS if tool != "resolve_incident"])
ANYTHING = st.tuples(st.one_of(st.sampled_from(list(TOOLS)), TEXT), JSON)
TASKS = st.tuples(st.sampled_from(catalogue().ids), st.sampled_from(LEVELS), st.integers(0, 10**6))
SLOW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SLOW
@given(task=TASKS, calls=st.lists(SENSIBLE, max_size=12), cut=st.integers(0, 12))
def test_a_loaded_episode_goes_on_as_if_it_had_never_left_memory(
    task: tuple[str, str, int], calls: list[tuple[str, dict[str, object]]], cut: int
) -> None:
    store, lasting = Store(), Episode(build(*task))
    key = store.begin("e", lasting)
    loaded = lasting
    for number, (tool, arguments) in enumerate(calls):
        if number == cut:
            loaded = store.load(key)
            assert asdict(loaded.ledger) == asdict(lasting.ledger)
        result = lasting.step(tool, arguments)
        if loaded is lasting:
            store.record(key, lasting, arguments=arguments, result=result)
        else:
            again = loaded.step(tool, arguments)
            store.record(key, loaded, arguments=arguments, result=again)
            assert json.dumps(asdict(again)) == json.dumps(asdict(result))
    final = store.load(key)
    assert final.world.services == lasting.world.services
    assert final.world.metrics == lasting.world.metrics
    assert final.world.logs == lasting.world.logs
    assert final.world.alerts.alerts == lasting.world.alerts.alerts
    assert final.reward_sum == lasting.reward_sum


@SLOW
@given(task=TASKS, calls=st.lists(st.one_of(SENSIBLE, ANYTHING), min_size=1, max_size=20), cause=TEXT)
def test_any_input_gives_an_answer_and_a_reward_in_the_declared_range(
    task: tuple[str, str, int], calls: list[tuple[str, object]], cause: str
) -> None:
    episode = Episode(build(*task))
    resolve = {"incident_id": episode.instance.incident_id, "root_cause": cause, "resolution": "x"}
    low, high = scoring.REWARD_RANGE
    for tool, arguments in [*calls, ("resolve_incident", resolve)]:
        if episode.done:
            break
        result = episode.step(tool, arguments)
        assert low <= result.reward <= high
        assert result.ok is (result.error is None)
        json.dumps(asdict(result))
    if episode.score is not None:
        assert all(0.0 <= value <= 1.0 for value in asdict(episode.score).values())


@SLOW
@given(task=TASKS, service=SERVICES, mechanism=st.sampled_from(sorted(MECHANISMS)))
def test_resolving_at_once_never_scores_well(task: tuple[str, str, int], service: str, mechanism: str) -> None:
    episode = Episode(build(*task))
    arguments = {
        "incident_id": episode.instance.incident_id,
        "root_cause": f"{service}: {mechanism}",
        "resolution": "closed",
    }
    assert episode.step("resolve_incident", arguments).done
    assert episode.score is not None
    assert episode.score.score < 0.75


def finish(episode: Episode, store: Store, key: str) -> None:
    while not episode.done:
        result = episode.step("get_alerts", {})
        store.record(key, episode, arguments={}, result=result)


def test_a_finished_episode_is_never_overwritten() -> None:
    store, first = Store(), Episode(build("false-alarm", "easy", 0))
    finish(first, store, store.begin("e", first))
    store.release("e")
    assert store.begin("e", Episode(build("false-alarm", "easy", 1))) == "e~2"
    assert store.begin("e", Episode(build("false-alarm", "easy", 2))) == "e~3"
    assert [(row.id, row.status) for row in store.episodes()] == [("e", "finished"), ("e~2", "open"), ("e~3", "open")]


def test_old_finished_episodes_make_room() -> None:
    store = Store(keep=5)
    for number in range(100):
        episode = Episode(build("false-alarm", "easy", 0))
        key = store.begin(f"e{number}", episode)
        if number < 20:
            finish(episode, store, key)
        store.release(key)
    assert sum(row.status == "finished" for row in store.episodes()) == 5


def test_actions_are_readable(tmp_path: Path) -> None:
    path = tmp_path / "episodes.sqlite3"
    store, episode = Store(str(path)), Episode(build("false-alarm", "easy", 0))
    key = store.begin("e", episode)
    result = episode.step("search_logs", {"service": "db", "query": "'; DROP TABLE logs; --"})
    store.record(key, episode, arguments={"service": "db", "query": "'; DROP TABLE logs; --"}, result=result)
    store.close()
    rows = sqlite3.connect(path).execute("SELECT tool, json_extract(arguments, '$.query') FROM actions").fetchall()
    assert rows == [("search_logs", "'; DROP TABLE logs; --")]
    assert Store(str(path)).actions("e")[0][0] == "search_logs"


def test_steps_are_in_the_file_or_its_log_when_a_server_is_killed_amid_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "EVERY", 3)
    monkeypatch.setattr(checkpoints, "LONGEST_LOG", 10)
    folder = tmp_path / "live"
    folder.mkdir()
    store = Store(str(folder / "e.db"))
    for number in range(12):
        episode = Episode(build("false-alarm", "easy", number))
        finish(episode, store, store.begin(f"e{number}", episode))
        copy = tmp_path / f"killed-{number}"
        with store._lock:  # what a kill leaves: no commit is half done, a checkpoint may be
            shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*-shm"))
    rows = store.episodes()
    store.close()
    assert Store(str(folder / "e.db")).episodes() == rows
    assert not (folder / "e.db-wal").exists() or not (folder / "e.db-wal").stat().st_size
    for number in range(12):
        known = Store(str(tmp_path / f"killed-{number}" / "e.db")).episodes()
        assert known == [row for row in rows if int(row.id[1:]) <= number]


def test_a_log_that_is_too_long_begins_anew(tmp_path: Path) -> None:
    store, sizes = Store(str(tmp_path / "e.db")), []
    assert store._checkpoints is not None
    for number in range(6):
        episode = Episode(build("false-alarm", "easy", number))
        key = store.begin(f"e{number}", episode)
        store._checkpoints.log_is_long = True
        finish(episode, store, key)
        sizes.append((tmp_path / "e.db-wal").stat().st_size)
    assert sizes[-1] < 2 * sizes[0]
    store.close()


def test_an_episode_that_somebody_else_removed_takes_no_more_steps(tmp_path: Path) -> None:
    path = str(tmp_path / "e.db")
    store, episode = Store(path), Episode(build("false-alarm", "easy", 0))
    key = store.begin("e", episode)
    Store(path).forget("e")
    result = episode.step("get_alerts", {})
    with pytest.raises(EpisodeError, match="no longer"):
        store.record(key, episode, arguments={}, result=result)
    assert store.actions("e") == []


def test_other_databases_are_refused(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.db"
    connection = sqlite3.connect(foreign)
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="something else"):
        Store(str(foreign))
    newer = tmp_path / "newer.db"
    Store(str(newer)).close()
    connection = sqlite3.connect(newer)
    connection.execute("UPDATE meta SET value = '99'")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="schema version 99"):
        Store(str(newer))


def test_unknown_episodes_are_said_to_be_unknown() -> None:
    with pytest.raises(EpisodeError, match="no episode"):
        Store().load("e")
