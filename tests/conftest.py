"""Shared by all tests: event loops, fake time, leaked tasks, and the switch for tests that need a real cluster.

Every `async def test_*` runs by anyio on asyncio. `fake_time` makes a test's clock jump over all waiting; `--live`
turns on tests marked `live`, which use the cluster of `--kubeconfig` (default: the development cluster's).
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import AsyncIterator
from pathlib import Path

import hypothesis
import looptime
import pytest

from sregym.cluster.fake import FakeCluster

# A busy machine is not a defect: no deadline for a single example. CI plays the same examples each time.
hypothesis.settings.register_profile("house", deadline=None, derandomize=bool(os.environ.get("CI")))
hypothesis.settings.load_profile("house")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("sregym")
    group.addoption("--live", action="store_true", help="also run tests that need a real cluster")
    group.addoption("--kubeconfig", type=Path, default=None, help="the cluster that live tests may use")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.function):
            item.fixturenames.append("no_leaked_tasks")
    if config.getoption("--live"):
        return
    skip = pytest.mark.skip(reason="needs a real cluster: run with --live")
    for item in items:
        if "live" in item.keywords:
            item.add_marker(skip)


def _fake_time_loop() -> asyncio.AbstractEventLoop:
    return looptime.patch_event_loop(asyncio.SelectorEventLoop(), start=0.0)


@pytest.fixture
def fake_time() -> None:
    """Named by a test that wants the clock to jump: waiting for an hour takes no time."""


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> object:
    """asyncio; with fake time for tests that name the fixture `fake_time`."""
    if "fake_time" in request.fixturenames:
        return "asyncio", {"loop_factory": _fake_time_loop}
    return "asyncio"


@pytest.fixture
async def no_leaked_tasks() -> AsyncIterator[None]:
    """Fails a test that leaves tasks running; every async test has it."""
    before = asyncio.all_tasks()
    yield
    # The teardown of this fixture itself runs in a new task of anyio's test runner.
    leaked = [task for task in asyncio.all_tasks() - before if not task.done() and "TestRunner" not in repr(task)]
    assert not leaked, f"tasks left running: {leaked}"


@pytest.fixture
def fake_cluster() -> FakeCluster:
    """A fresh cluster in memory."""
    return FakeCluster()
