"""Every curated problem and every target, without a cluster: it can be built, says what it must say, and leaks nothing.

The offline judge must agree with each problem's own right and wrong diagnoses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from sregym.api import Create, Problem, Repair
from sregym.api.repair import KubectlCall
from sregym.catalogue import Catalogue, Entry
from sregym.judge import JudgeInput, OfflineJudge

CATALOGUE = Catalogue.discover("problems")
CURATED = list(CATALOGUE.entries.values())
OURS = re.compile(
    r"sregym|\binject|\bfault|broken|oracle|" + "|".join(re.escape(one) for one in CATALOGUE.entries), re.I
)


def targets() -> Iterator[Problem]:
    for app in CATALOGUE.apps:
        yield from CATALOGUE.targets(CATALOGUE.app(app.__name__, "lite"))


def every_problem() -> list[object]:
    curated = [pytest.param(entry.build("lite"), id=entry.id) for entry in CURATED]
    found = [pytest.param(one, id="-".join([type(one).__name__, *map(str, one.params.values())])) for one in targets()]
    return [*curated, *found]


def calls(repair: Repair, namespace: str) -> list[KubectlCall]:
    return [step.kubectl(namespace) for step in repair.steps]


def test_all_files_are_imported_and_the_smoke_suite_is_whole() -> None:
    assert not CATALOGUE.broken
    assert {entry.primitive for entry in CATALOGUE.suite("smoke")} == set(CATALOGUE.primitives)
    assert len(CATALOGUE.primitives) >= 9


@pytest.mark.parametrize("entry", CURATED, ids=lambda entry: entry.id)
@pytest.mark.parametrize("profile", ["lite", "full"])
def test_curated_problems_build_in_both_profiles(entry: Entry, profile: str) -> None:
    problem = entry.build("lite" if profile == "lite" else "full")
    assert problem.app.profile == profile
    assert entry.description.endswith(".")


@pytest.mark.parametrize("problem", every_problem())
def test_a_problem_says_all_that_it_must_say(problem: Problem) -> None:
    assert problem.fault() == problem.fault(), "pure: the same fault every time"
    assert problem.symptom().title
    assert problem.root_causes()
    repairs, cheats = problem.repairs(), problem.cheats()
    assert len(repairs) >= 2
    assert any(not one.inverse for one in repairs), "at least one repair is not just the inverse"
    assert len(cheats) >= 2
    names = [one.name for one in (*repairs, *cheats)]
    assert len(names) == len(set(names))
    assert all(one.why for one in cheats), "a cheat says why it is wrong"


@pytest.mark.parametrize("problem", every_problem())
def test_components_exist_in_the_application(problem: Problem) -> None:
    known = set(problem.topology.by_name) | set(problem.topology.configmaps)
    for cause in problem.root_causes():
        assert {ref.name for ref in cause.components} <= known
        assert not {ref.name for ref in cause.components} & set(cause.victims)


@pytest.mark.parametrize("problem", every_problem())
def test_repairs_are_kubectl_commands_in_the_applications_namespace(problem: Problem) -> None:
    for repair in (*problem.repairs(), *problem.cheats()):
        for call in calls(repair, problem.app.namespace):
            assert problem.app.namespace in call.argv
            assert not call.stdin or json.loads(call.stdin)["metadata"]["name"]


@pytest.mark.parametrize("problem", every_problem())
def test_what_an_agent_can_read_holds_none_of_our_words(problem: Problem) -> None:
    shipped = problem.ships()
    assert not OURS.search(json.dumps([dict(shipped.values), list(shipped.objects)]))
    created = [step.obj for one in problem.repairs() for step in one.steps if isinstance(step, Create)]
    assert not OURS.search(json.dumps(created))
    assert not OURS.search(json.dumps({key: str(value) for key, value in problem.params.items()}))


@pytest.mark.parametrize("problem", every_problem())
async def test_the_offline_judge_agrees_with_the_problems_own_diagnoses(problem: Problem) -> None:
    judge = OfflineJudge()
    told = problem.diagnoses()
    for right, texts in ((True, told.right), (False, told.wrong)):
        for text in texts:
            judged = await judge.grade(JudgeInput.of(problem, text))
            assert judged.passed is right, f"{judged.score}: {text}\n{judged.why}"
