"""The build graph: what is built, what is not, what survives a failure, and what the user is told."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from sregym.cluster.providers import steps as steps_module
from sregym.cluster.providers.steps import Builder, BuildError, Lane, Step, StepContext, fingerprint_of, step_key
from sregym.errors import PrerequisiteError
from sregym.progress import Outcome, Recorded

Run = Callable[[StepContext], Awaitable[None]]


def writes(text: str, runs: list[str] | None = None) -> Run:
    async def run(context: StepContext) -> None:
        if runs is not None:
            runs.append(context.step.name)
        (context.out / "result").write_text(text)

    return run


def step(name: str, run: Run, *, fingerprint: str = "1", needs: tuple[str, ...] = (), lane: Lane = Lane.IO) -> Step:
    return Step(name=name, title=f"make {name}", fingerprint=fingerprint, run=run, needs=needs, lane=lane)


@pytest.fixture
def builder(tmp_path: Path) -> Builder:
    return Builder(cache=tmp_path / "cache", progress=Recorded(), space_needed=0)


async def test_builds_needs_first_and_hands_on_their_results(builder: Builder) -> None:
    async def joins(context: StepContext) -> None:
        text = (context.results["a"] / "result").read_text()
        (context.out / "result").write_text(text + "b")

    results = await builder.build([step("b", joins, needs=("a",)), step("a", writes("a"))], wanted=["b"])
    assert (results["b"] / "result").read_text() == "ab"


async def test_what_is_there_is_not_built_again(builder: Builder) -> None:
    runs: list[str] = []
    graph = [step("a", writes("a", runs)), step("b", writes("b", runs), needs=("a",))]
    await builder.build(graph, wanted=["b"])
    await builder.build(graph, wanted=["b"])
    assert runs == ["a", "b"]


async def test_a_change_rebuilds_what_depends_on_it_and_nothing_else(builder: Builder) -> None:
    runs: list[str] = []

    def graph(a: str) -> list[Step]:
        return [
            step("a", writes("a", runs), fingerprint=a),
            step("b", writes("b", runs), needs=("a",)),
            step("other", writes("c", runs)),
        ]

    await builder.build(graph("1"), wanted=["b", "other"])
    runs.clear()
    await builder.build(graph("2"), wanted=["b", "other"])
    assert sorted(runs) == ["a", "b"]
    runs.clear()
    await builder.build(graph("1"), wanted=["b", "other"])
    assert runs == []


async def test_only_what_is_wanted_is_built(builder: Builder) -> None:
    runs: list[str] = []
    await builder.build([step("a", writes("a", runs)), step("b", writes("b", runs))], wanted=["a"])
    assert runs == ["a"]


async def test_a_failure_names_step_and_log_and_keeps_what_succeeded(builder: Builder) -> None:
    runs: list[str] = []

    async def fails(context: StepContext) -> None:
        (context.out / "half").write_text("half")
        await context.run(["sh", "-c", "echo the compiler is unhappy >&2; exit 1"])

    graph = [step("a", writes("a", runs)), step("b", fails, needs=("a",))]
    with pytest.raises(BuildError, match="the compiler is unhappy") as caught:
        await builder.build(graph, wanted=["b"])
    assert caught.value.step == "b"
    assert "the compiler is unhappy" in caught.value.log.read_text()
    await builder.build([graph[0], step("b", writes("b", runs), needs=("a",))], wanted=["b"])
    assert runs == ["a", "b"]


async def test_a_killed_step_leaves_no_result(builder: Builder) -> None:
    async def endless(context: StepContext) -> None:
        (context.out / "half").write_text("half")
        await anyio.sleep_forever()

    with anyio.move_on_after(0.05):
        await builder.build([step("a", endless)], wanted=["a"])
    results = await builder.build([step("a", writes("whole"))], wanted=["a"])
    assert [path.name for path in results["a"].iterdir()] == ["result"]
    assert [timing.outcome for timing in builder.timings()] == [Outcome.CANCELLED, Outcome.DONE]


async def test_one_cpu_step_at_a_time_while_others_go_on(builder: Builder) -> None:
    busy = most = 0
    other = anyio.Event()

    async def compiles(context: StepContext) -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await other.wait()
        busy -= 1

    async def downloads(context: StepContext) -> None:
        other.set()

    graph = [step("a", compiles, lane=Lane.CPU), step("b", compiles, lane=Lane.CPU), step("c", downloads)]
    await builder.build(graph, wanted=["a", "b", "c"])
    assert most == 1


async def test_an_invalid_cached_result_is_built_again(builder: Builder) -> None:
    runs: list[str] = []

    async def never(result: Path) -> bool:
        return False

    one = Step(name="a", title="a", fingerprint="1", run=writes("a", runs), still_valid=never)
    await builder.build([one], wanted=["a"])
    await builder.build([one], wanted=["a"])
    assert runs == ["a", "a"]


async def test_a_full_disk_is_said_before_a_step_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = Builder(cache=tmp_path, progress=Recorded(), space_needed=10)
    monkeypatch.setattr("sregym.cluster.providers.host.free_space", lambda path: 9)
    runs: list[str] = []
    with pytest.raises(PrerequisiteError, match="needs"):
        await builder.build([step("a", writes("a", runs))], wanted=["a"])
    assert runs == []


@pytest.mark.parametrize("how", ["by the system", "by a command"])
async def test_a_disk_that_fills_up_is_for_the_user_to_fix(builder: Builder, how: str) -> None:
    async def fills(context: StepContext) -> None:
        if how == "by the system":
            raise OSError(errno.ENOSPC, "No space left on device")
        await context.run(["sh", "-c", "echo 'write /x: No space left on device' >&2; exit 1"])

    with pytest.raises(PrerequisiteError, match="disk is full"):
        await builder.build([step("a", fills)], wanted=["a"])


async def test_progress_and_times_are_recorded(builder: Builder) -> None:
    async def talks(context: StepContext) -> None:
        await context.run(["echo", "half way"])

    graph = [step("a", talks)]
    await builder.build(graph, wanted=["a"])
    await builder.build(graph, wanted=["a"])
    progress = builder.progress
    assert isinstance(progress, Recorded)
    assert progress.lines == ["half way"]
    assert [one.outcome for one in progress.ended] == [Outcome.DONE, Outcome.CACHED]
    assert builder.expected_seconds("a") is not None
    assert builder.expected_seconds("b") is None


async def test_steps_that_need_each_other_are_refused(builder: Builder) -> None:
    graph = [step("a", writes("a"), needs=("b",)), step("b", writes("b"), needs=("a",))]
    with pytest.raises(ValueError, match="need each other"):
        await builder.build(graph, wanted=["a"])


async def test_two_builds_in_one_cache_do_not_run_together(builder: Builder) -> None:
    runs: list[str] = []
    graph = [step("a", writes("a", runs))]

    async def build() -> None:
        await Builder(cache=builder.cache, progress=Recorded(), space_needed=0).build(graph, wanted=["a"])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(build)
        tasks.start_soon(build)
    assert runs == ["a"]


def test_a_key_depends_on_name_fingerprint_and_needs() -> None:
    one = step("a", writes(""), needs=("x",))
    keys = {
        step_key(one, {"x": "1"}),
        step_key(one, {"x": "2"}),
        step_key(step("a", writes(""), fingerprint="2", needs=("x",)), {"x": "1"}),
        step_key(step("b", writes(""), needs=("x",)), {"x": "1"}),
    }
    assert len(keys) == 4


def test_a_fingerprint_sees_contents_names_and_executable_bits(tmp_path: Path) -> None:
    file = tmp_path / "a"
    seen = set()
    file.write_text("1")
    seen.add(fingerprint_of(paths=[tmp_path]))
    file.write_text("2")
    seen.add(fingerprint_of(paths=[tmp_path]))
    file.chmod(0o755)
    seen.add(fingerprint_of(paths=[tmp_path]))
    file.rename(tmp_path / "b")
    seen.add(fingerprint_of(paths=[tmp_path]))
    assert len(seen) == 4


def test_the_key_in_names_is_long_enough() -> None:
    assert steps_module.KEY_LENGTH >= 16
