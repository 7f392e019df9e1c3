"""The final table of a run: what each attempt came to and why, then totals with intervals.

Made for 100 columns. Below the line of an attempt stands why its verdicts fell, so that nobody has to open a file to
see it; the whole of every reason is in `attempt.json`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import groupby

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sregym.results import (
    AttemptRecord,
    DiagnosisRecord,
    Grade,
    MitigationRecord,
    ObservationRecord,
    Rate,
    RunResults,
    Status,
    Summary,
    summarise,
)

OFFLINE = "offline"
WHY_LIMIT = 260
"""Characters of one reason."""
CHECKS_SHOWN = 4

_STYLE = {Grade.PASSED: "green", Grade.FAILED: "red", Grade.UNSCORED: "yellow"}
_FOLLOW = frozenset({"place", "commitment", "complete", "precise"})
"""Questions that are missed because another one is; shown only where they stand alone."""
_COLUMNS = ("problem", "diagnosis", "mitigation", "TTD", "TTM", "overhead")
_WIDTHS = (46, 13, 10, 7, 7, 8)


def show(run: RunResults, console: Console) -> None:
    """Prints the table of a run."""
    console.print(render(run))


def render(run: RunResults) -> RenderableType:
    """The table of a run; a run without attempts says so."""
    if not run.attempts:
        return Text(f"No attempt was finished. Results: {run.path}")
    by_agent = sorted(run.attempts, key=lambda one: (not one.agent.leaderboard, one.agent.name))
    blocks: list[RenderableType] = []
    for agent, attempts in groupby(by_agent, key=lambda one: one.agent.name):
        blocks += _agent(agent, list(attempts))
    return Group(*blocks, *_notes(run))


def _agent(name: str, records: Sequence[AttemptRecord]) -> Iterator[RenderableType]:
    first = records[0]
    told = "" if first.agent.leaderboard else "  (is given the answer: not for the leaderboard)"
    yield Text()
    yield Text.assemble((name, "bold"), (f"  {first.agent.model}" if first.agent.model else ""), (told, "yellow"))
    yield _line(_COLUMNS, style="dim")
    for one in records:
        yield _line(_cells(one))
        for why in _reasons(one):
            yield Padding(why, (0, 0, 0, 4))
    yield _totals(records)


def _line(cells: Iterable[str | Text], *, style: str = "") -> Table:
    table = Table.grid(padding=(0, 1, 0, 0))
    for index, width in enumerate(_WIDTHS):
        table.add_column(width=width, justify="right" if index > 2 else "left", overflow="fold", style=style)
    table.add_row(*cells)
    return table


def _cells(one: AttemptRecord) -> list[str | Text]:
    name = one.problem.id if one.attempt == 1 else f"{one.problem.id} #{one.attempt}"
    if one.status in (Status.VOID, Status.SKIPPED):
        return [name, Text(one.status.value, "yellow"), "", "", "", _seconds(one.times.overhead_s)]
    return [
        name,
        _diagnosis(one.diagnosis),
        _grade(one.mitigation.grade if one.mitigation else Grade.UNSCORED),
        _seconds(one.times.ttd_s),
        _seconds(one.times.ttm_s) + ("*" if one.times.timed_out else ""),
        _seconds(one.times.overhead_s),
    ]


def _grade(grade: Grade) -> Text:
    return Text(grade.value, _STYLE[grade])


def _diagnosis(one: DiagnosisRecord | None) -> Text:
    if one is None:
        return _grade(Grade.UNSCORED)
    score = "" if one.score is None else f" {_ninths(one.score)}"
    return Text(f"{one.grade.value}{score}", _STYLE[one.grade])


def _ninths(score: Fraction) -> str:
    """A score as so many of nine answers, where it is that."""
    return f"{score * 9}/9" if (score * 9).denominator == 1 else str(score)


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.0f} s"


def _reasons(one: AttemptRecord) -> Iterator[Text]:
    if one.status is not Status.GRADED:
        yield _why(one.status.value, one.reason, "yellow")
    if one.diagnosis and one.diagnosis.grade is not Grade.UNSCORED:
        yield _why("diagnosis", _diagnosis_why(one.diagnosis), "dim")
    if one.mitigation and one.mitigation.grade is not Grade.UNSCORED:
        yield _why("mitigation", _mitigation_why(one.mitigation), "dim")
    if one.world_equal is False:
        yield _why("world", f"not as before: {'; '.join(one.world_diff)}", "yellow")


def _why(what: str, reason: str, style: str) -> Text:
    short = " ".join(reason.split())
    short = short if len(short) <= WHY_LIMIT else short[: WHY_LIMIT - 1] + "…"
    return Text(f"{what}: {short}", style)


def _diagnosis_why(one: DiagnosisRecord) -> str:
    """What was missed, questions with one reason together; for a pass also what was said right."""
    no = [answer for answer in one.answers if not answer.yes]
    missed: dict[str, list[str]] = {}
    for answer in [a for a in no if a.question not in _FOLLOW] or no:
        missed.setdefault(answer.reason, []).append(answer.question)
    lost = "; ".join(f"{reason} ({', '.join(questions)})" for reason, questions in missed.items())
    if one.grade is not Grade.PASSED:
        return lost or one.reason
    right = [a.reason for a in one.answers if a.yes and a.question in ("object", "mechanism")]
    return "; ".join([*right, *([f"missed: {lost}"] if lost else [])]) or one.reason


def _mitigation_why(one: MitigationRecord) -> str:
    if one.grade is not Grade.PASSED:
        return "; ".join(one.reasons) or "no reason was recorded"
    held = list(dict.fromkeys(leaf.check for seen in one.observations for leaf in _leaves(seen)))
    more = f" and {len(held) - CHECKS_SHOWN} more" if len(held) > CHECKS_SHOWN else ""
    held_for = f"held for {one.hold_s:.0f} s" if one.hold_s else "held"
    return f"{held_for}: {', '.join(held[:CHECKS_SHOWN])}{more}"


def _leaves(seen: ObservationRecord) -> Iterator[ObservationRecord]:
    if not seen.parts:
        yield seen
    for part in seen.parts:
        yield from _leaves(part)


def _totals(records: Sequence[AttemptRecord]) -> RenderableType:
    total = summarise(records)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_row("", "passed", "95 % interval", "not scored", style="dim")
    table.add_row("diagnosis", *_rate(total.diagnosis), str(total.diagnosis_unscored))
    table.add_row("mitigation", *_rate(total.mitigation), str(total.mitigation_unscored))
    apart = ", ".join(f"{total.by_status[s]} {s.value}" for s in Status if s is not Status.GRADED)
    table.add_row("end-to-end", *_rate(total.end_to_end), "")
    times = f"mean TTD {_seconds(total.mean_ttd_s) or '-'}, mean TTM {_seconds(total.mean_ttm_s) or '-'}"
    attempts = "1 attempt" if total.attempts == 1 else f"{total.attempts} attempts"
    line = f"{attempts}: {total.by_status[Status.GRADED]} graded, {apart}; {times}"
    timed_out = f"; {total.timed_out} timed out (*, counted at the cap)" if total.timed_out else ""
    lines = [Text(line + timed_out), *([Text(_spending(total))] if total.tokens_in or total.budgets_spent else [])]
    return Padding(Group(table, *lines), (1, 0, 0, 0))


def _spending(total: Summary) -> str:
    cost = "cost not known" if total.cost_usd is None else f"{total.cost_usd:.4f} USD"
    spent = f"; budget spent in {total.budgets_spent}" if total.budgets_spent else ""
    return f"model: {total.tokens_in:,} tokens in, {total.tokens_out:,} out, {cost}{spent}"


def _rate(rate: Rate) -> tuple[str, str]:
    if rate.share is None or rate.low is None or rate.high is None:
        return "none scored", ""
    return (
        f"{rate.passed} of {rate.scored} ({rate.share:.0%})",
        f"{rate.low:.0%} to {rate.high:.0%}",
    )


def _notes(run: RunResults) -> Iterator[Text]:
    judges = sorted({one.diagnosis.judge for one in run.attempts if one.diagnosis})
    profiles = sorted({one.profile for one in run.attempts})
    taus = sorted({str(one.diagnosis.tau) for one in run.attempts if one.diagnosis})
    yield Text()
    graded = f"judge {', '.join(judges) or 'none'}; a diagnosis passes at {', '.join(taus) or '-'}"
    yield Text(f"profile {', '.join(profiles)}; {graded}")
    if any(one.agent.internet_access == "open" for one in run.attempts):
        yield Text("With open internet access: not comparable with attempts that had none.", "yellow")
    if len(judges) > 1 or len(profiles) > 1:
        yield Text("Judges or profiles are mixed: these attempts are not one comparison.", "yellow")
    if OFFLINE in judges:
        yield Text(
            "Diagnoses were graded by the offline judge (rules, no model): not comparable with a model's grades, and "
            "not for the leaderboard.",
            "yellow",
        )
    yield Text(f"results: {run.path}")
