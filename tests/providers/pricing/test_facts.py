"""What the bundled table knows of models, under whatever name a provider has for them."""

import json

import pytest

from providers.columns import Modality
from providers.pricing.bundling_facts import facts_of_models, written_facts
from providers.pricing.facts import BUNDLED, NOTHING_KNOWN, ModelFacts, bundled_facts, facts_in

pytestmark = pytest.mark.either_store


@pytest.mark.parametrize(
    "name",
    [
        "claude-opus-4-5",
        "Claude-Opus-4-5",
        "claude-opus-4-5-20251101",
        "claude-opus-4-5-latest",
        "anthropic/claude-opus-4-5",
        "anthropic.claude-opus-4-5-20251101-v1:0",
        "us.anthropic.claude-opus-4-5-20251101-v1:0",
        "claude-opus-4-5@20251101",
    ],
)
def test_a_model_is_known_by_every_name_of_it(name):
    facts = bundled_facts(name)
    assert (facts.context_length, facts.max_output_tokens) == (200_000, 64_000)
    assert "text" in facts.input_modalities
    assert facts.output_modalities == ("text",)


@pytest.mark.long
@pytest.mark.parametrize("name", ["fast", "", "gpt", "my-gpt-4o-of-the-house", "gpt-4o-2024", "/", "x" * 10_000])
def test_nothing_is_guessed(name):
    assert bundled_facts(name) == NOTHING_KNOWN


def test_a_dot_within_a_name_is_no_vendor():
    assert bundled_facts("gpt-4.1").context_length == 1_000_000


def test_a_name_that_is_too_long_for_a_model_is_not_searched_for():
    """Forms send any name, and it is refused only when the model is stored."""
    assert bundled_facts("x" * 1_000_000) == NOTHING_KNOWN


def test_the_bundled_table_is_sound():
    table = json.loads(BUNDLED.read_text())
    assert "MIT" in table["source"]
    assert len(table["models"]) > 1_000
    names = [entry["model"] for entry in table["models"]]
    assert len(set(names)) == len(names)
    for entry in table["models"]:
        assert entry["model"] == entry["model"].lower()
        assert {*entry["input"], *entry["output"]} <= set(Modality.values)
        assert all(entry.get(name, 1) >= 1 for name in ("contextLength", "maxOutputTokens"))


def entry(provider, mode="chat", reads=1_000, **options):
    return {"litellm_provider": provider, "mode": mode, "max_input_tokens": reads, "max_output_tokens": 10} | options


def test_the_table_is_made_of_what_the_makers_say():
    table = {
        "reseller/org/large": entry("reseller", reads=5),
        "cloud/large": entry("cloud", reads=7),
        "mistral/large": entry("mistral", reads=9, supports_vision=True),
        "large-2026-01-01": entry("mistral", reads=9, supports_vision=True),
        "embed": entry("openai", "embedding", max_output_tokens=None),
        "paint": entry("openai", "image_generation"),
        "sample spec": entry("one of"),
    }
    facts = facts_of_models(table, {"embed": 2_000})
    assert facts == {
        "embed": ModelFacts(2_000, None, ("text",), ("embedding",)),
        "large": ModelFacts(9, 10, ("text", "image"), ("text",)),
    }
    assert facts_in(facts, "org/large-2026-01-01") == facts["large"]
    assert written_facts("embed", facts["embed"]) == {
        "model": "embed", "contextLength": 2_000, "input": ["text"], "output": ["embedding"],
    }  # fmt: skip
