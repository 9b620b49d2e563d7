"""Precision and recall over the labelled set.

`python -m tests.gateway_project.work.guardrails.detectors.measurement` prints the table.
"""

from collections import Counter

from gateway_project.work.guardrails.detectors import compile_detector
from tests.gateway_project.work.guardrails.detectors.samples import labelled

# What the types are measured with that find nothing without parameters.
CITY = {"type": "string"}
PARAMETERS = {
    "pattern": {"patterns": [r"project[\s-]+(?:alpha|omega)", r"\bticket-\d{6}\b", r"\bconfidential\b"]},
    "words": {"words": ["cobalt", "red fox", "straße", "#secret"]},
    "topic": {"urls": False, "images": False, "hosts": ["example.com", "*.example.com"], "scripts": ["Latin"]},
    "json": {
        "schema": {
            "type": "object",
            "properties": {"city": CITY, "people": {"type": "integer", "minimum": 0}},
            "required": ["city"],
            "additionalProperties": False,
        }
    },
}
TYPES = ("secrets", "pii", "pattern", "words", "topic", "json", "injection")
HEADING = ["| Type | Kind | Samples | Precision | Recall |", "|---|---|---|---|---|"]


def table():
    """The rows of docs/guardrails.md."""
    return [*HEADING, *(row for type in TYPES for row in _rows(type))]


def _rows(type):
    hits, wrong, missed = Counter(), Counter(), Counter()
    detector = compile_detector(type, PARAMETERS.get(type, {}))
    for sample in labelled(type):
        actual, expected = _kinds(detector, sample), Counter(kind for kind, _ in sample.parts)
        hits += actual & expected
        wrong += actual - expected
        missed += expected - actual
    rows = [_row(type, f"`{kind}`", hits[kind], wrong[kind], missed[kind]) for kind in sorted(hits | wrong | missed)]
    if type == "injection":
        rows = []
    return [
        _row(f"`{type}`", "all", hits.total(), wrong.total(), missed.total()),
        *(row.replace(type, "", 1) for row in rows),
    ]


def _kinds(detector, sample):
    """What is reported. A part counts as a hit if a match of its kind covers it; injections count once a text."""
    matches = detector.scan(sample.text)
    if sample.type == "injection":
        return Counter({"injection": 1} if matches else {})
    return Counter(
        kind if (kind, part) in sample.parts or not _is_labelled(kind, sample) else f"{kind} in part"
        for start, end, kind in matches
        for part in [sample.text[start:end]]
    )


def _is_labelled(kind, sample):
    return any(kind == one for one, _ in sample.parts)


def _row(type, kind, hits, wrong, missed):
    precision = f"{hits / (hits + wrong):.0%}" if hits + wrong else "–"
    recall = f"{hits / (hits + missed):.0%}" if hits + missed else "–"
    return f"| {type} | {kind} | {hits + missed} | {precision} | {recall} |"


if __name__ == "__main__":
    print("\n".join(table()))
