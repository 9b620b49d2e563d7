"""Samples of what guardrails match, for those that keep some. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from gateway_project.work.guardrails.book import GuardrailSnapshot
from gateway_project.work.guardrails.detectors import Match
from gateway_project.work.log.secret_masking import without_secrets

MAX_SAMPLES = 5  # of one guardrail, of a request or of its answer
MAX_MATCH, AROUND = 200, 40  # characters of a match, and before and after it
LOOK_AROUND = 4096  # characters in which credentials are looked for that the sample shows a part of


class Sample(NamedTuple):
    """A match with a little text around it."""

    guardrail: GuardrailSnapshot
    category: str
    before: str
    match: str
    after: str


def add_samples(samples: list[Sample], guardrail: GuardrailSnapshot, matches: Sequence[Match], text: str) -> None:
    """Add those of the matches that there is room for, each text once; credentials are masked, as in the log."""
    room = MAX_SAMPLES - sum(sample.guardrail.id == guardrail.id for sample in samples)
    for start, end, category in matches[:room]:
        sample = Sample(guardrail, category, *_parts(text, start, end))
        if sample not in samples:
            samples.append(sample)


def _parts(text: str, start: int, end: int) -> tuple[str, str, str]:
    """What is before the match, the match, and what is after it."""
    first = max(0, start - LOOK_AROUND)
    masked = without_secrets(text[first : end + LOOK_AROUND])
    begin, stop = start - first, end - first
    return (
        masked[max(0, begin - AROUND) : begin],
        masked[begin : min(stop, begin + MAX_MATCH)],
        masked[stop : stop + AROUND],
    )
