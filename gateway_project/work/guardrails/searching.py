"""Searches texts with guardrails: the matches, and the text without them. Knows no request and no wire format."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import NamedTuple, Protocol

from gateway_project.errors import GuardrailBlocked
from gateway_project.json_types import JsonObject
from gateway_project.work.guardrails.book import BLOCK, MONITOR, REDACT, GuardrailSnapshot, Side
from gateway_project.work.guardrails.detectors import Detector, Match
from gateway_project.work.guardrails.detectors.redaction import Placeholders, redact_matches
from gateway_project.work.guardrails.sampling import Sample, add_samples
from gateway_project.work.guardrails.texts import (
    ANSWER_KINDS,
    CALL_KINDS,
    MIXED_KINDS,
    WHOLE_ANSWER_KINDS,
    Kind,
    Path,
    has_token_ids,
)

log = logging.getLogger("gateway.guardrails")

PROMPT = (None, "input")  # of a request; an event of an answer may have the text of a call there

# Categories.
UNAVAILABLE, UNREADABLE, TOO_LONG, MODEL, TOOL = "unavailable", "unreadable", "length", "model", "tool"
PASSED, FAILED = "passed", "failed"
RESULTS = {BLOCK: "blocked", REDACT: "redacted", MONITOR: "monitored"}


class Span(NamedTuple):
    """A part of a text that goes: `rank` is the place of its guardrail in the order."""

    start: int
    end: int
    rank: int
    category: str


class Part(NamedTuple):
    """A part of a text that goes, which overlaps no other; `first` is the span of the first guardrail in it."""

    start: int
    end: int
    first: Span
    is_reversible: bool


@dataclass(slots=True)
class Tally:
    """The result of one guardrail so far: the matches by category, and the time it took."""

    guardrail: GuardrailSnapshot
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    has_failed: bool = False
    is_refusal: bool = False  # something that cannot be taken out is among the matches
    repaired: bool | None = None  # whether the second answer is valid; None: nobody asked for one

    @property
    def blocks(self) -> bool:
        """Whether the request or the answer is refused because of it."""
        action = self.guardrail.action
        return (action == BLOCK and bool(self.counts)) or (action == REDACT and self.is_refusal)

    @property
    def result(self) -> str:
        """blocked, redacted, monitored, failed or passed."""
        if self.blocks:
            return RESULTS[BLOCK]
        if self.counts:
            return RESULTS[self.guardrail.action]
        return FAILED if self.has_failed else PASSED


class PendingVerdict(Protocol):
    """A verdict that is not known yet and changes nothing: that of a guardrail that only records."""

    @property
    def are_there(self) -> bool: ...

    def note(self) -> None: ...


class Search:
    """One direction of one request: searches its texts, one after the other, and adds up the matches."""

    def __init__(self, side: Side, placeholders: Placeholders | None = None, *, is_of_answer: bool = True) -> None:
        self.side, self.placeholders, self._is_of_answer = side, placeholders, is_of_answer
        self.tallies = {guardrail.id: Tally(guardrail) for guardrail in side.guardrails}
        self.samples: list[Sample] = []
        self.late: list[PendingVerdict] = []
        self._ranks = {guardrail.id: rank for rank, guardrail in enumerate(side.guardrails)}

    @property
    def blocking(self) -> Tally | None:
        """The first guardrail that blocks, if one does."""
        return next((one for one in self.tallies.values() if one.blocks), None)

    def raise_if_blocked(self, what: str) -> None:
        """Raise the error that says which guardrail blocks what, and never what stands there."""
        if (tally := self.blocking) is not None:
            raise blocked_error(tally.guardrail.name, next(iter(tally.counts)), what)

    def note_model(self, name: str) -> None:
        """Search the name of the model that is asked for."""
        for detector, guardrails in self.side.by_detector:
            if detector.models is not None and detector.models.scan(name):
                self.note_refusal(guardrails, MODEL)

    def note_unreadable(self, body: JsonObject) -> None:
        """Note token ids in a request: no guardrail can search them, nor take anything out of them."""
        if has_token_ids(body):
            self.note_refusal([one for one in self.side.guardrails if _reads_texts(one)], UNREADABLE)

    def visit(self, text: str, kind: Kind, path: Path = None) -> str:
        """The text without what is redacted; a function for texts.rewrite()."""
        if kind is Kind.TOOL:
            self._note_tool(text)
            return text
        if kind is Kind.CALL_TEXT and path == PROMPT and not self._is_of_answer:
            kind = Kind.TEXT  # whatever type the request says that it has
        spans: list[Span] = []
        for detector, guardrails in self.detectors_for(kind):
            spans += self._scan(detector, guardrails, text)
        return self.remove_spans(text, spans) if spans else text

    def detectors_for(self, kind: Kind) -> Iterator[tuple[Detector, tuple[GuardrailSnapshot, ...]]]:
        """The detectors for texts of a kind; those that judge whole answers are for these alone."""
        for detector, guardrails in self.side.by_detector:
            if self._searches(detector, kind):
                yield detector, guardrails
            if detector.calls is not None and kind in CALL_KINDS:
                yield detector.calls, guardrails
            if detector.prose is not None and (kind in ANSWER_KINDS or (kind is Kind.TEXT and not self._is_of_answer)):
                yield detector.prose, guardrails

    def _searches(self, detector: Detector, kind: Kind) -> bool:
        if detector.judges_whole_answer:
            return self._is_of_answer and kind in WHOLE_ANSWER_KINDS
        if kind in MIXED_KINDS:
            return True
        return detector.searches_calls if kind in CALL_KINDS else detector.searches_texts

    def _note_tool(self, name: str) -> None:
        for detector, guardrails in self.side.by_detector:
            if detector.tools is not None and detector.tools.scan(name):
                self.note_refusal(guardrails, TOOL)

    def note_refusal(self, guardrails: Sequence[GuardrailSnapshot], category: str) -> None:
        """Note something that cannot be taken out: a guardrail that redacts blocks it."""
        for guardrail in guardrails:
            tally = self.tallies[guardrail.id]
            tally.counts[category] += 1
            tally.is_refusal = True

    def _scan(self, detector: Detector, guardrails: Sequence[GuardrailSnapshot], text: str) -> list[Span]:
        started_at = perf_counter()
        try:
            matches = detector.scan(text)
        except Exception:  # a fault of a detector is no fault of the request: its guardrails say what happens
            log.exception("The guardrail %s cannot search a text.", guardrails[0].name)
            return self.note_failure(guardrails, len(text))
        finally:
            self.note_time(guardrails, perf_counter() - started_at)
        if detector.max_length is not None and len(text) > detector.max_length:
            matches = [*matches, Match(detector.max_length, len(text), TOO_LONG)]
        return self.note(guardrails, matches, text) if matches else []

    def counts(self) -> dict[int, Counter[str]]:
        """The matches of each guardrail so far, to be set again."""
        return {number: tally.counts.copy() for number, tally in self.tallies.items()}

    def set_counts(self, counts: dict[int, Counter[str]]) -> None:
        """Forget the matches that were counted since."""
        for number, tally in self.tallies.items():
            tally.counts = counts[number]

    def refuse_redaction(self) -> None:
        """Block what would be redacted: nothing can be taken out of this answer."""
        for tally in self.tallies.values():
            tally.is_refusal = tally.is_refusal or bool(tally.counts)

    def note_late(self) -> None:
        """Wait for verdicts that are still missing, and note them. Raises nothing: the entry has to be written."""
        late, self.late = self.late, []
        for answers in late:
            try:
                answers.note()
            except Exception:
                log.exception("The results of guardrail services for a request cannot be stored.")

    def note_time(self, guardrails: Sequence[GuardrailSnapshot], seconds: float) -> None:
        """Add the time of a detector up, for each of its guardrails."""
        for guardrail in guardrails:
            self.tallies[guardrail.id].seconds += seconds

    def note(self, guardrails: Sequence[GuardrailSnapshot], matches: Sequence[Match], text: str = "") -> list[Span]:
        """Count the matches of the guardrails' detector in a text; returns the parts to redact."""
        spans: list[Span] = []
        for guardrail in guardrails:
            counts, rank = self.tallies[guardrail.id].counts, self._ranks[guardrail.id]
            if guardrail.sample_days and text:
                add_samples(self.samples, guardrail, matches, text)
            for start, end, category in matches:
                counts[category] += 1
                if guardrail.action != MONITOR:
                    spans.append(Span(start, end, rank, category))
        return spans

    def note_failure(self, guardrails: Sequence[GuardrailSnapshot], length: int) -> list[Span]:
        """The same for a text of this length that the detector could not search."""
        closed = [one for one in guardrails if one.fails_closed]
        for guardrail in guardrails:
            self.tallies[guardrail.id].has_failed = True
        return self.note(closed, [Match(0, length, UNAVAILABLE)])

    def remove_spans(self, text: str, spans: Sequence[Span]) -> str:
        """The text with a mask or a placeholder for each part that goes; parts that overlap go as one."""
        parts = merge_spans(spans, self._is_reversible)
        reversible = {(part.start, part.end): part.is_reversible for part in parts}
        matches = [Match(part.start, part.end, part.first.category) for part in parts]
        if self.placeholders is None or not any(reversible.values()):
            return redact_matches(text, matches)
        pieces, position = [], 0
        for match in matches:
            original = text[match.start : match.end]
            if reversible[match.start, match.end]:
                pieces += [text[position : match.start], self.placeholders.placeholder(match.category, original)]
            else:
                pieces += [
                    text[position : match.start],
                    redact_matches(original, [Match(0, len(original), match.category)]),
                ]
            position = match.end
        return "".join([*pieces, text[position:]])

    def _is_reversible(self, span: Span) -> bool:
        guardrail = self.side.guardrails[span.rank]
        return guardrail.placeholders and guardrail.action == REDACT


def _reads_texts(guardrail: GuardrailSnapshot) -> bool:
    """Whether it looks for anything in the texts of requests, or has a service do so."""
    detector = guardrail.detector
    searches_texts = detector.searches_texts or detector.prose is not None
    return guardrail.service is not None or (searches_texts and not detector.judges_whole_answer)


def blocked_error(name: str, category: str, what: str) -> GuardrailBlocked:
    """The error of a guardrail that blocks the request or the answer."""
    return GuardrailBlocked(f"The guardrail {name!r} blocked the {what}: {category}.", reason="guardrail_blocked")


def merge_spans(spans: Sequence[Span], is_reversible: Callable[[Span], bool]) -> list[Part]:
    """Parts that do not overlap, in order of the text; one is reversible if all of its spans are."""
    result: list[Part] = []
    for span in sorted(spans, key=lambda one: (one.start, -one.end)):
        reversible = is_reversible(span)
        if result and span.start < result[-1].end:
            last = result[-1]
            first = min(last.first, span, key=lambda one: (one.rank, one.start))
            result[-1] = Part(last.start, max(last.end, span.end), first, last.is_reversible and reversible)
        elif span.end > span.start:
            result.append(Part(span.start, span.end, span, reversible))
    return result
