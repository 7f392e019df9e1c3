"""The agent's model, its prices and limits, from flags and environment; what it took, in table and CSV."""

import csv
import io
from pathlib import Path

import pytest
from rich.console import Console

from sregym.cli.model import check_key, limits_of, model_of
from sregym.cli.table import render
from sregym.errors import PrerequisiteError
from sregym.gateway.internet.access import InternetAccess
from sregym.gateway.models import Budget, ModelAccess, Price, Protocol
from sregym.results import AttemptRecord, RunResults, Usage
from sregym.results.rows import text_of
from sregym.settings import Models
from tests.unit.results.records import FAILED, PASSED, RIGHT, attempt, judged

CLOSED = InternetAccess()


def settings(**more: object) -> Models:
    empty = {"agent_api_base": None, "agent_api_protocols": "", "agent_input_price": None, "agent_output_price": None,
             "agent_cached_price": None, "agent_api_key": None, "openai_api_key": None, "anthropic_api_key": None,
             "gemini_api_key": None}  # fmt: skip
    return Models.model_validate(empty | more)


def test_settings_make_the_model() -> None:
    told = settings(
        agent_api_base="http://h:1/v1",
        agent_api_protocols="chat, messages",
        agent_input_price=1,
        agent_output_price=2,
        agent_cached_price=0.5,
    )
    model = model_of(told, "local/m", Budget(cost_usd=3, tokens=4), InternetAccess(open=True))
    assert model == ModelAccess(
        model="local/m",
        api_base="http://h:1/v1",
        speaks=(Protocol.CHAT, Protocol.MESSAGES),
        price=Price(input=1, output=2, cached=0.5),
        budget=Budget(cost_usd=3, tokens=4),
        hosted_tools=True,
    )
    assert limits_of(model) == {"cost_usd": 3, "tokens": 4}
    assert model_of(settings(), None, Budget(), CLOSED) is None
    assert limits_of(None) == {}


@pytest.mark.parametrize(
    ("more", "budget", "words"),
    [
        ({"agent_api_protocols": "chat,soap"}, Budget(), "soap"),
        ({"agent_input_price": 1}, Budget(), "AGENT_OUTPUT_PRICE"),
        ({}, Budget(cost_usd=1), "price of local/m is not known"),
        ({}, Budget(tokens=0), "numbers above 0"),
        ({"agent_input_price": 1, "agent_output_price": 1}, Budget(cost_usd=-1), "numbers above 0"),
    ],
)
def test_limits_that_cannot_be_kept_are_refused(more: dict[str, object], budget: Budget, words: str) -> None:
    with pytest.raises(PrerequisiteError, match=words):
        model_of(settings(**more), "local/m", budget, CLOSED)


def test_a_cost_limit_for_a_model_of_the_price_table() -> None:
    assert model_of(settings(), "openai/gpt-4o-mini", Budget(cost_usd=1), CLOSED)


USED = Usage(calls=3, tokens_in=12_000, tokens_out=345, cached_tokens=9_000, cost_usd=0.0123, budget_spent=True)


def shown(*records: AttemptRecord) -> str:
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(render(RunResults(path=Path("results/x"), lock=None, attempts=records)))
    return console.export_text()


def test_the_table_says_what_the_model_took() -> None:
    one = attempt(diagnosis=judged(RIGHT), mitigation=PASSED, usage=USED)
    assert "12,000 tokens in, 345 out, 0.0123 USD; budget spent in 1" in shown(one)
    unpriced = attempt(diagnosis=judged(RIGHT), mitigation=PASSED, usage=Usage(calls=1, tokens_in=5), number=2)
    assert "12,005 tokens in, 345 out, cost not known" in shown(one, unpriced)
    assert "tokens" not in shown(attempt(diagnosis=judged(RIGHT), mitigation=FAILED))


def test_the_table_marks_open_internet_access() -> None:
    one = attempt(diagnosis=judged(RIGHT), mitigation=PASSED)
    opened = one.model_copy(update={"agent": one.agent.model_copy(update={"internet_access": "open"})})
    assert "With open internet access" in shown(opened)
    assert "With open internet access" not in shown(one)


def test_the_csv_says_it_too() -> None:
    (row,) = csv.DictReader(io.StringIO(text_of([attempt(diagnosis=judged(RIGHT), mitigation=PASSED, usage=USED)])))
    wanted = {"model_calls": "3", "tokens_in": "12000", "tokens_out": "345", "cached_tokens": "9000",
              "cost_usd": "0.0123", "budget_spent": "True", "internet_access": "filtered"}  # fmt: skip
    assert {name: row[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("more", "name", "words"),
    [
        ({}, "local/m", "AGENT_API_BASE"),
        ({}, "openai/gpt-5", "OPENAI_API_KEY"),
        ({"openai_api_key": "k"}, "anthropic/claude", "ANTHROPIC_API_KEY"),
    ],
)
def test_a_model_that_surely_cannot_be_asked_is_said_before_anything_is_begun(
    more: dict[str, object], name: str, words: str
) -> None:
    with pytest.raises(PrerequisiteError) as raised:
        check_key(settings(**more), name)
    assert words in f"{raised.value} {raised.value.cure}"


def test_a_model_with_a_key_or_an_address_can_be_asked() -> None:
    check_key(settings(openai_api_key="k"), "openai/gpt-5")
    check_key(settings(agent_api_key="k"), "anthropic/claude")
    check_key(settings(agent_api_base="http://h:1/v1"), "openai/gpt-5")
    check_key(settings(agent_api_base="http://h:1/v1"), "local/m")
    check_key(settings(), "mistral/large")
