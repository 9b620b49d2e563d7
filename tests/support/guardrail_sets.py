"""Precision and recall of a guardrail's type on a set of texts that somebody else has labelled.

`make guardrail-measure SET=<path>`. A set is lines of text, JSON (texts, or objects with a text and a label, also one
a line) or CSV. Where a set has no labels, `--all` says what all of its texts are.
"""

import argparse
import csv
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from gateway_project.work.guardrails.detectors import LOCAL_TYPES, compile_detector

TEXTS = ("text", "prompt", "user_input", "content", "instruction", "sentence")
LABELS = ("label", "labels", "is_injection", "injection", "class", "type")
POSITIVE = ("1", "true", "yes", "injection", "prompt injection", "jailbreak", "malicious", "unsafe", "attack")
NEGATIVE = ("0", "false", "no", "benign", "legitimate", "safe", "normal", "regular")
HEADING = ["| Set | With | Without | Precision | Recall | Wrongly found |", "|---|---|---|---|---|---|"]


class UnreadableSet(Exception):
    """A set that has no texts, or whose labels say nothing."""


class Labelled(NamedTuple):
    """A text, and whether the guardrail is to find something in it."""

    text: str
    is_positive: bool


class Measures(NamedTuple):
    """How many texts with and without something there are, and in how many of each something is found."""

    positives: int
    negatives: int
    hits: int
    false_alarms: int

    def row(self, name: str) -> str:
        """The figures as a row of a table."""
        precision = _share(self.hits, self.hits + self.false_alarms) if self.positives and self.negatives else "–"
        recall, alarms = _share(self.hits, self.positives), _share(self.false_alarms, self.negatives)
        return f"| {name} | {self.positives:,} | {self.negatives:,} | {precision} | {recall} | {alarms} |"


def measure(samples: Iterable[Labelled], type: str, parameters: Mapping[str, object]) -> Measures:
    """Search each text of a set."""
    detector = compile_detector(type, parameters)
    counts = Counter((sample.is_positive, bool(detector.scan(sample.text))) for sample in samples)
    positives, negatives = (counts[value, True] + counts[value, False] for value in (True, False))
    return Measures(positives, negatives, counts[True, True], counts[False, True])


def read_set(path: Path, *, every: bool | None = None, text: str = "", label: str = "") -> list[Labelled]:
    """The texts of a set, each once. `every` says what all are, `text` and `label` name the members to read."""
    texts = (text,) if text else TEXTS
    labels = (label,) if label else LABELS
    samples = dict.fromkeys(_labelled(row, every, texts, labels) for row in _rows(path))
    if not samples:
        raise UnreadableSet(f"{path} has no texts.")
    return list(samples)


def _rows(path: Path) -> Iterator[object]:
    """The texts and objects of a set."""
    content = path.read_text(encoding="utf-8-sig")
    if path.suffix in (".csv", ".tsv"):
        csv.field_size_limit(sys.maxsize)
        yield from csv.DictReader(content.splitlines(keepends=True), delimiter="\t" if path.suffix == ".tsv" else ",")
    elif path.suffix == ".jsonl":
        yield from map(json.loads, filter(str.strip, content.splitlines()))
    elif path.suffix == ".json":
        yield from _items(json.loads(content))
    else:
        yield from filter(str.strip, content.splitlines())


def _items(document: object) -> Iterator[object]:
    """The items of an array, or of the arrays of an object."""
    if isinstance(document, dict):
        for member in document.values():
            yield from _items(member)
    elif isinstance(document, list):
        yield from document


def _labelled(row: object, every: bool | None, texts: Iterable[str], labels: Iterable[str]) -> Labelled:
    members = {"text": row} if isinstance(row, str) else row
    if not isinstance(members, dict):
        raise UnreadableSet(f"{row!r:.100} is neither a text nor an object.")
    text = next((members[name] for name in (*texts, "text") if isinstance(members.get(name), str)), None)
    if text is None:
        raise UnreadableSet(f"An item has none of {', '.join(texts)}: it has {', '.join(map(str, members))}.")
    return Labelled(text, _is_positive(members, labels) if every is None else every)


def _is_positive(members: Mapping[str, object], labels: Iterable[str]) -> bool:
    value = next((str(members[name]).strip().lower() for name in labels if name in members), "")
    if value not in (*POSITIVE, *NEGATIVE):
        raise UnreadableSet(f"The label {value!r} says nothing: known are {', '.join((*POSITIVE, *NEGATIVE))}.")
    return value in POSITIVE


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "–"


def main(arguments: list[str]) -> int:
    """Print the figures of a set."""
    parser = argparse.ArgumentParser(prog="guardrail-measure")
    parser.add_argument("path", type=Path)
    parser.add_argument("--all", choices=("positive", "negative"), help="what all texts are, where there are no labels")
    parser.add_argument("--text", default="", help="the member with the text")
    parser.add_argument("--label", default="", help="the member with the label")
    parser.add_argument("--type", choices=LOCAL_TYPES, default="injection")
    parser.add_argument("--parameters", type=json.loads, default={}, help="as JSON")
    options = parser.parse_args(arguments)
    every = None if options.all is None else options.all == "positive"
    try:
        samples = read_set(options.path, every=every, text=options.text, label=options.label)
    except (OSError, ValueError, UnreadableSet) as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join([*HEADING, measure(samples, options.type, options.parameters).row(options.path.name)]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
