"""The labelled set: texts, and what is in them."""

import json
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parents[2] / "gateway_project/work/guardrails/detectors/labelled"


class Sample(NamedTuple):
    """A text with parts that are something; no parts: nothing may be found in it."""

    type: str
    text: str
    parts: list[tuple[str, str]]  # kind, part of the text


def labelled(type):
    """The samples of a type."""
    document = json.loads((FOLDER / f"{type}.json").read_text(encoding="utf-8"))
    return [Sample(type, one["text"], [(kind, part) for kind, part in one.get("parts", [])]) for one in document]


def sentences():
    """Sentences with their language; "" for what says too little to be judged."""
    document = json.loads((FOLDER / "languages.json").read_text(encoding="utf-8"))
    return [(language, sentence) for language, texts in document.items() for sentence in texts]


def every_sample():
    """Type and text of the samples in which something is."""
    return [(one.type, one.text) for type in ("secrets", "pii", "injection") for one in labelled(type) if one.parts]
