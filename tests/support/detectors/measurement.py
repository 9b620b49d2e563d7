"""Precision and recall over the labelled sets.

`python -m tests.support.detectors.measurement` prints the tables.
"""

from collections import Counter

from gateway_project.work.guardrails.detectors import compile_detector
from gateway_project.work.guardrails.detectors.languages.detector import LANGUAGES
from tests.support.detectors.samples import labelled, sentences

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
LANGUAGE_HEADING = ["| Language | Sentences | Precision | Recall |", "|---|---|---|---|"]


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
    return f"| {type} | {kind} | {hits + missed} | {_share(hits, wrong)} | {_share(hits, missed)} |"


def _share(hits, others):
    return f"{hits / (hits + others):.0%}" if hits + others else "–"


def language_table():
    """The rows of docs/guardrails.md: each sentence is judged once for each language, which alone is allowed."""
    hits, wrong, missed = Counter(), Counter(), Counter()
    for allowed in LANGUAGES:
        detector = compile_detector("topic", {"allowedLanguages": [allowed]}).prose
        for language, sentence in sentences():
            is_other, is_reported = language not in ("", allowed), detector.scan(sentence) != []
            hits[language] += is_other and is_reported
            missed[language] += is_other and not is_reported
            wrong[language] += is_reported and not is_other
    counts = Counter(language for language, _ in sentences())
    rows = [(f"`{one}`", counts[one], hits[one], wrong[one], missed[one]) for one in LANGUAGES]
    rows.insert(0, ("all", counts.total(), hits.total(), wrong.total(), missed.total()))
    return [*LANGUAGE_HEADING, *(_language_row(*row) for row in rows)]


def _language_row(name, count, hits, wrong, missed):
    return f"| {name} | {count} | {_share(hits, wrong)} | {_share(hits, missed)} |"


if __name__ == "__main__":
    print("\n".join([*table(), "", *language_table()]))
