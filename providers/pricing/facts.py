"""What the public table knows of models: how much they read and write, and what. By the provider's names of them."""

import json
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from gateway_project.json_types import JsonObject

BUNDLED = Path(__file__).parent / "data" / "models.json"
# What may stand around a name without making it another model: a region and a vendor, as Bedrock writes them, and a
# date or version.
LONGEST = 500  # of the names that are searched for; the time of the patterns grows with the square of the length
BEFORE = re.compile(r"(?:[a-z]+(?:-[a-z]+)?\.)+(?=[a-z])")
BEHIND = re.compile(r"(?:[-@:](?:latest|[0-9]{4}-?[0-9]{2}-?[0-9]{2}|v[0-9]+(?::[0-9]+)?))+\Z")


class ModelFacts(NamedTuple):
    """Numbers of tokens; None, and empty for modalities, where nobody said."""

    context_length: int | None = None  # of a request and its answer
    max_output_tokens: int | None = None
    input_modalities: tuple[str, ...] = ()
    output_modalities: tuple[str, ...] = ()


NOTHING_KNOWN = ModelFacts()


@lru_cache(maxsize=10_000)
def bundled_facts(model: str) -> ModelFacts:
    """What the bundled table says of a model, by the provider's name of it."""
    return facts_in(_table(), model) if len(model) <= LONGEST else NOTHING_KNOWN


def facts_in(table: dict[str, ModelFacts], model: str) -> ModelFacts:
    """The facts under the name itself, else under the name without what may stand around it."""
    return next((table[name] for name in spellings_of(model) if name in table), NOTHING_KNOWN)


def spellings_of(model: str) -> Iterator[str]:
    """The names under which a model may stand in the table, the closest first."""
    for name in (full_name := model.lower(), full_name.rpartition("/")[2]):
        yield name
        bare = BEFORE.sub("", name, count=1)
        yield bare
        yield BEHIND.sub("", name)
        yield BEHIND.sub("", bare)


@cache
def _table() -> dict[str, ModelFacts]:
    entries: list[JsonObject] = json.loads(BUNDLED.read_text(encoding="utf-8"))["models"]
    return {entry["model"]: _facts(entry) for entry in entries}


def _facts(entry: JsonObject) -> ModelFacts:
    return ModelFacts(
        entry.get("contextLength"),
        entry.get("maxOutputTokens"),
        tuple(entry.get("input", ())),
        tuple(entry.get("output", ())),
    )
