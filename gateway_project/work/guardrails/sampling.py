"""Samples of what guardrails match, for those that keep some. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from gateway_project.work.guardrails.book import GuardrailSnapshot
from gateway_project.work.guardrails.detectors import Match

MAX_SAMPLES = 5  # of one guardrail, of a request or of its answer
MAX_MATCH, AROUND = 200, 40  # characters of a match, and before and after it


class Sample(NamedTuple):
    """A match with a little text around it."""

    guardrail: GuardrailSnapshot
    category: str
    before: str
    match: str
    after: str


def add_samples(samples: list[Sample], guardrail: GuardrailSnapshot, matches: Sequence[Match], text: str) -> None:
    """Add those of the matches that there is room for, each text once."""
    room = MAX_SAMPLES - sum(sample.guardrail.id == guardrail.id for sample in samples)
    for start, end, category in matches[:room]:
        before, after = text[max(0, start - AROUND) : start], text[end : end + AROUND]
        sample = Sample(guardrail, category, before, text[start : min(end, start + MAX_MATCH)], after)
        if sample not in samples:
            samples.append(sample)
