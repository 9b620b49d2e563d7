"""The bundled table of models, made out of LiteLLM's table, and of the data of genai-prices where that knows more."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gateway_project.json_types import JsonObject
from providers.pricing.facts import NOTHING_KNOWN, ModelFacts, facts_in

MODES = {"chat": "text", "completion": "text", "responses": "text", "embedding": "embedding"}  # and what they write
READS = {
    "image": ("supports_vision", "supports_image_input", "supports_embedding_image_input"),
    "audio": ("supports_audio_input",),
    "video": ("supports_video_input",),
    "file": ("supports_pdf_input",),
}
WRITES = {"audio": ("supports_audio_output",)}
# LiteLLM's names of those that know their own models best.
MAKERS = {"openai", "anthropic", "gemini", "mistral", "cohere_chat", "cohere", "deepseek", "xai", "moonshot", "zai"}
NAME = re.compile(r"[a-z0-9][a-z0-9._:@/+-]{0,199}\Z")
ORDER = ("text", "image", "audio", "video", "file", "embedding")


def facts_of_models(table: Mapping[str, JsonObject], windows: Mapping[str, int]) -> dict[str, ModelFacts]:
    """The facts by name; what the lookup would find under a shorter name is left out.

    `windows` are context lengths by model id, which win: LiteLLM's bound of the input is less where the answer has
    room of its own.
    """
    facts: dict[str, ModelFacts] = {}
    for name, entry in sorted(_name_models(table), key=lambda pair: len(pair[0])):
        shorter = facts_in(facts, name)
        # Who resells a model may bound it more tightly, which says nothing of it elsewhere.
        is_resold = "/" in name and shorter != NOTHING_KNOWN
        if name not in facts and not is_resold and shorter != (values := _facts(name, entry, windows)):
            facts[name] = values
    return dict(sorted(facts.items()))


def written_facts(name: str, facts: ModelFacts) -> JsonObject:
    """An entry of the bundled table."""
    values = {
        "model": name,
        "contextLength": facts.context_length,
        "maxOutputTokens": facts.max_output_tokens,
        "input": list(facts.input_modalities),
        "output": list(facts.output_modalities),
    }
    return {name: value for name, value in values.items() if value}


def context_windows(providers: Iterable[Any]) -> dict[str, int]:
    """The context lengths in the data of genai-prices, by model id."""
    return {model.id.lower(): model.context_window for one in providers for model in one.models if model.context_window}


def _name_models(table: Mapping[str, JsonObject]) -> Iterator[tuple[str, JsonObject]]:
    """The models by the name that their provider has for them; those of their makers first."""
    for key, entry in sorted(table.items(), key=lambda item: item[1].get("litellm_provider") not in MAKERS):
        provider = str(entry.get("litellm_provider", ""))
        name = key.lower()
        if "/" in name and (name.startswith(f"{provider}/") or name.count("/") > 1):
            name = name.partition("/")[2]
        if entry.get("mode") in MODES and NAME.match(name):
            yield name, entry


def _facts(name: str, entry: JsonObject, windows: Mapping[str, int]) -> ModelFacts:
    reads = {"text", *entry.get("supported_modalities", ()), *_supported_modalities(entry, READS)}
    writes = {
        MODES[entry["mode"]],
        *entry.get("supported_output_modalities", ()),
        *_supported_modalities(entry, WRITES),
    }
    return ModelFacts(
        windows.get(name) or _number(entry, "max_input_tokens"),
        None if entry["mode"] == "embedding" else _number(entry, "max_output_tokens"),
        tuple(one for one in ORDER if one in reads),
        tuple(one for one in ORDER if one in writes and (entry["mode"] != "embedding" or one == "embedding")),
    )


def _supported_modalities(entry: JsonObject, names: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    return (kind for kind, flags in names.items() if any(entry.get(flag) is True for flag in flags))


def _number(entry: JsonObject, name: str) -> int | None:
    value = entry.get(name)
    return int(value) if isinstance(value, int | float) and value >= 1 else None
