"""What a language model's name says: whose it is, and whether it can be asked at all.

Names are LiteLLM's. The price table that comes with it tells most of them apart; LiteLLM itself, which takes seconds
to load, is asked only about the rest.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from sregym.errors import DefinitionError, PrerequisiteError
from sregym.settings import Models, keep_litellm_offline

LOCAL = "local"
"""The provider that is a server of one's own."""
KEYS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY", "gemini": "GEMINI_API_KEY"}
"""Providers whose keys are in the settings. The others' are LiteLLM's business: some need none, or several."""
_TABLE = "model_prices_and_context_window_backup.json"
_ANSWERING = frozenset({"chat", "completion", "responses"})
_NEAR = 0.75


@dataclass(frozen=True, kw_only=True)
class Asker:
    """Who is to ask a model: what messages call it, and what its own settings are."""

    who: str
    key: SecretStr | None
    api_base: str | None
    key_variable: str
    base_variable: str
    instead: str = ""
    """A name that needs neither key nor provider, where there is one."""


def checked_key(name: str, asker: Asker, models: Models) -> SecretStr | None:
    """The key for a model; None where it needs none, or LiteLLM finds it by itself.

    Raises PrerequisiteError where the model surely cannot be asked: nobody serves it, or its key or address is missing.
    """
    provider = provider_of(name, api_base=asker.api_base)
    if provider is None:
        raise _unknown(name, asker)
    if provider == LOCAL:
        if not asker.api_base:
            cure = f"set {asker.base_variable} to its server's URL"
            raise PrerequisiteError(f"the {asker.who} {name} has no address", cure=cure)
        return asker.key or SecretStr("none")
    key = asker.key or models.own_key(provider)
    if key is None and provider in KEYS and not asker.api_base:
        instead = f", or use {asker.instead} instead" if asker.instead else ""
        cure = f"set {KEYS[provider]} or {asker.key_variable}{instead}"
        raise PrerequisiteError(f"the {asker.who} {name} has no key", cure=cure)
    return key


def provider_of(name: str, *, api_base: str | None = None) -> str | None:
    """LiteLLM's name of a model's provider; None where there is none of that name."""
    prefix, slash, rest = name.partition("/")
    if slash and prefix in (LOCAL, *_providers()):
        return prefix if rest else None
    entry = price_table().get(name, {})
    return str(entry["litellm_provider"]) if entry.get("mode") in _ANSWERING else _by_litellm(name, api_base)


@cache
def price_table() -> dict[str, Any]:
    """LiteLLM's table, without LiteLLM."""
    spec = find_spec("litellm")
    if spec is None or spec.origin is None:
        raise DefinitionError("LiteLLM is not installed")
    table: dict[str, Any] = json.loads((Path(spec.origin).parent / _TABLE).read_text(encoding="utf-8"))
    return table


@cache
def _providers() -> frozenset[str]:
    """Those that names certainly may begin with."""
    of_entries = ((name, str(entry.get("litellm_provider"))) for name, entry in price_table().items())
    return frozenset(KEYS) | {provider for name, provider in of_entries if name.startswith(f"{provider}/")}


def _by_litellm(name: str, api_base: str | None) -> str | None:
    keep_litellm_offline()
    import litellm
    import openai  # LiteLLM's exceptions are all derived from this client's

    litellm.suppress_debug_info = True  # it prints advice on standard output otherwise
    try:
        return str(litellm.get_llm_provider(name, api_base=api_base)[1])
    except openai.BadRequestError:
        return None


def _unknown(name: str, asker: Asker) -> PrerequisiteError:
    near = _nearest(name, asker)
    form = f"names are PROVIDER/MODEL, such as openai/gpt-5, or local/MODEL for a server at {asker.base_variable}"
    return PrerequisiteError(
        f"no provider is known for the {asker.who} {name!r}", cure=f"did you mean {near}? {form}" if near else form
    )


def _nearest(name: str, asker: Asker) -> str | None:
    """A name that may have been meant, with its provider, whether or not that was written."""
    meant = {asker.instead: asker.instead} if asker.instead else {}
    entries = [(key, str(e.get("litellm_provider"))) for key, e in price_table().items() if e.get("mode") in _ANSWERING]
    for key, provider in sorted(entries, key=lambda entry: entry[1] not in KEYS):
        whole = key if key.startswith(f"{provider}/") else f"{provider}/{key}"
        if whole == key or provider in KEYS:
            meant.setdefault(whole, whole)
            meant.setdefault(whole.partition("/")[2], whole)
    near = get_close_matches(name, meant, n=1, cutoff=_NEAR)
    return meant[near[0]] if near else None
