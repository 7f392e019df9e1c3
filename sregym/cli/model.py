"""The agent's model and its limits, as the command line and the environment describe them."""

from __future__ import annotations

import math

from sregym.errors import PrerequisiteError
from sregym.gateway.internet.access import InternetAccess
from sregym.gateway.models import Budget, ModelAccess, Price, Protocol
from sregym.gateway.relay.prices import Prices
from sregym.llm import Asker, checked_key
from sregym.settings import Models


def model_of(settings: Models, name: str | None, budget: Budget, internet: InternetAccess) -> ModelAccess | None:
    """The model of a run; None where none is configured. Raises PrerequisiteError."""
    _check_limits(budget)
    if name is None:
        return None
    access = ModelAccess(
        model=name,
        api_base=settings.agent_api_base,
        speaks=_protocols(settings),
        price=_price(settings),
        budget=budget,
        hosted_tools=internet.open,
    )
    if budget.cost_usd is not None and not Prices(access).known:
        raise PrerequisiteError(
            f"--max-cost is given, and the price of {access.model} is not known",
            cure="set AGENT_INPUT_PRICE and AGENT_OUTPUT_PRICE (USD per million tokens), or use --max-tokens",
        )
    return access


def limits_of(model: ModelAccess | None) -> dict[str, float]:
    """The budget of each attempt, as it is recorded."""
    budget = model.budget if model else Budget()
    limits = {"cost_usd": budget.cost_usd, "tokens": budget.tokens}
    return {name: value for name, value in limits.items() if value is not None}


def _protocols(settings: Models) -> tuple[Protocol, ...]:
    words = [word.strip() for word in settings.agent_api_protocols.split(",") if word.strip()]
    if unknown := set(words) - set(Protocol):
        known = ", ".join(Protocol)
        raise PrerequisiteError(
            f"AGENT_API_PROTOCOLS names {', '.join(sorted(unknown))}", cure=f"known are {known}; leave it out for chat"
        )
    return tuple(map(Protocol, words))


def _price(settings: Models) -> Price | None:
    into, out = settings.agent_input_price, settings.agent_output_price
    if into is None and out is None:
        return None
    if into is None or out is None:
        raise PrerequisiteError(
            "one of AGENT_INPUT_PRICE and AGENT_OUTPUT_PRICE is missing", cure="set both, in USD per million tokens"
        )
    return Price(input=into, output=out, cached=settings.agent_cached_price)


def check_key(settings: Models, name: str) -> None:
    """Raises PrerequisiteError where a model surely cannot be asked."""
    if settings.agent_api_base and ("/" not in name or settings.agent_api_protocols):
        return  # the server there gets the name as it is
    agent = Asker(
        who="model",
        key=settings.agent_api_key,
        api_base=settings.agent_api_base,
        key_variable="AGENT_API_KEY",
        base_variable="AGENT_API_BASE",
    )
    checked_key(name, agent, settings)


def _check_limits(budget: Budget) -> None:
    if any(limit is not None and not 0 < limit < math.inf for limit in (budget.cost_usd, budget.tokens)):
        raise PrerequisiteError("--max-cost and --max-tokens must be numbers above 0", cure="leave them out")
