"""Whose a model is, by its name: from the table that comes with LiteLLM, else from LiteLLM."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from sregym.errors import PrerequisiteError
from sregym.llm import Asker, checked_key, provider_of
from sregym.settings import Models

REPO = Path(__file__).parents[2]
MODELS = Models.model_construct(anthropic_api_key=None, openai_api_key=SecretStr("k"), gemini_api_key=None)


def asker(api_base: str | None = None, key: SecretStr | None = None) -> Asker:
    return Asker(who="model", key=key, api_base=api_base, key_variable="THE_KEY", base_variable="THE_BASE")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that LiteLLM was asked about; it knows none."""
    names: list[str] = []
    monkeypatch.setattr("sregym.llm._by_litellm", lambda name, _: names.append(name))
    return names


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("gpt-5", "openai"),
        ("openai/of-tomorrow", "openai"),
        ("claude-sonnet-4-6", "anthropic"),
        ("anthropic/of-tomorrow", "anthropic"),
        ("gemini/of-tomorrow", "gemini"),
        ("mistral/large", "mistral"),
        ("local/anything", "local"),
    ],
)
def test_most_names_need_no_litellm(asked: list[str], name: str, provider: str) -> None:
    assert provider_of(name) == provider
    assert not asked


@pytest.mark.parametrize("name", ["foo", "opnai/gpt-5", "sample_spec", "text-embedding-3-small"])
def test_litellm_is_asked_about_the_rest(asked: list[str], name: str) -> None:
    assert provider_of(name) is None
    assert asked == [name]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("opnai/gpt-5", "did you mean openai/gpt-5?"),
        ("gpt5", "did you mean openai/gpt-5?"),
        ("claude-sonet-4-6", "did you mean anthropic/claude-sonnet-4-6?"),
        ("foo", "names are PROVIDER/MODEL"),
    ],
)
def test_a_mistyped_name_is_told_what_may_have_been_meant(asked: list[str], name: str, near: str) -> None:
    with pytest.raises(PrerequisiteError) as refused:
        checked_key(name, asker(), MODELS)
    assert refused.value.cure.startswith(near)
    assert asked


def test_keys_are_the_askers_own_else_the_providers() -> None:
    own = SecretStr("own")
    assert checked_key("gpt-5", asker(), MODELS) == SecretStr("k")
    assert checked_key("gpt-5", asker(key=own), MODELS) == own
    assert checked_key("claude-sonnet-4-6", asker(api_base="http://127.0.0.1:1"), MODELS) is None
    assert checked_key("mistral/large", asker(), MODELS) is None


@pytest.mark.timeout(180)
def test_litellm_knows_a_provider_that_the_table_has_no_model_of() -> None:
    """In a child process: LiteLLM takes seconds to import and starts things of its own."""
    told = "from sregym.llm import provider_of; print([provider_of(n) for n in ('hosted_vllm/x', 'foo', 'opnai/x')])"
    done = subprocess.run([sys.executable, "-c", told], cwd=REPO, capture_output=True, text=True, check=True)
    assert done.stdout == "['hosted_vllm', None, None]\n"
