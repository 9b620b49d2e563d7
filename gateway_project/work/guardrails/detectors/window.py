"""Scans a text that comes in pieces, and passes on at once what can no longer belong to a match. Pure.

A piece's end is held back only while more text could make a match of it. Characters are looked at again only while
they are held, and as a long part grows, ever more rarely: each one a bounded number of times.
"""

from collections.abc import Sequence
from typing import NamedTuple

from gateway_project.work.guardrails.detectors.base import CONTEXT, MAX_SPAN, Detector, Match

SHORT = 512  # held characters up to which each piece is looked at as it comes; from there on, each sixteenth more

INVISIBLE = 64  # characters without width that may stand in a match


class Finding(NamedTuple):
    """A match of one of the detectors, by its place in their order; offsets in the text of its step."""

    detector: int
    match: Match


class Step(NamedTuple):
    """Text that is decided, with all matches in it; whole matches only."""

    text: str
    findings: list[Finding]


class Window:
    """One text of a stream and the detectors that look at it.

    The steps' texts together are the text. What a detector calls a match lies wholly within one step. Detectors that
    judge whole answers are asked at the end alone, and everything is held until then.
    """

    def __init__(self, detectors: Sequence[Detector]) -> None:
        self._detectors = tuple(detectors)
        self._longest = min(MAX_SPAN, max((one.longest for one in detectors), default=0))
        self._is_whole = any(one.judges_whole_answer for one in detectors)
        self._buffer = ""  # context that is passed on already, then what is held
        self._start = 0  # where the held part begins
        self._passed = 0  # characters that were passed on
        self._next_scan = 0  # length of the held part from which on it is looked at again

    @property
    def rest_length(self) -> int:
        """The number of characters that are held."""
        return len(self._buffer) - self._start

    @property
    def rest(self) -> str:
        """What is held."""
        return self._buffer[self._start :]

    def push(self, piece: str) -> Step:
        """Take the next piece; returns what is decided now."""
        self._buffer += piece
        if self._is_whole or self.rest_length < self._next_scan:
            return Step("", [])
        pending = min(
            (one.pending_start(self._buffer, self._start) for one in self._detectors), default=len(self._buffer)
        )
        findings = self._findings() if pending > self._start or self.rest_length > self._longest + INVISIBLE else []
        step = self._release(pending, findings)
        self._next_scan = self.rest_length + self.rest_length // 16 if self.rest_length > SHORT else 0
        return step

    def close(self) -> Step:
        """The text has ended; returns the rest."""
        return self._pass_on(len(self._buffer), self._findings())

    def _findings(self) -> list[Finding]:
        """All matches in the held part."""
        findings = [
            Finding(number, match)
            for number, detector in enumerate(self._detectors)
            for match in (*detector.scan(self._buffer, self._start), *self._excess(detector))
        ]
        return sorted(findings, key=lambda finding: finding.match)

    def _excess(self, detector: Detector) -> list[Match]:
        """What is beyond the length that a detector allows."""
        if detector.max_length is None or self._passed + self.rest_length <= detector.max_length:
            return []
        first = max(self._start, self._start + detector.max_length - self._passed)
        return [Match(first, len(self._buffer), "length")]

    def _release(self, pending: int, findings: list[Finding]) -> Step:
        """Pass on what lies before `pending`, and before a match that reaches beyond it."""
        end = pending
        for _, match in reversed(findings):
            if match.start < end < match.end and match.category != "length":
                end = match.start
        if len(self._buffer) - end > self._longest + INVISIBLE:
            return self._cut_match(end, findings)
        return self._pass_on(end, findings)

    def _cut_match(self, end: int, findings: list[Finding]) -> Step:
        """More may become a match than a match may have: it counts as one."""
        overlong = [
            Finding(number, Match(end, len(self._buffer), "overlong"))
            for number, detector in enumerate(self._detectors)
            if detector.pending_start(self._buffer, end) < len(self._buffer)
        ]
        return self._pass_on(len(self._buffer), [*findings, *overlong])

    def _pass_on(self, end: int, findings: list[Finding]) -> Step:
        start, text = self._start, self._buffer[self._start : end]
        decided = [
            Finding(number, Match(match.start - start, min(match.end, end) - start, match.category))
            for number, match in findings
            if match.start < end
        ]
        context = max(0, end - CONTEXT)
        self._buffer, self._start = self._buffer[context:], end - context
        self._passed += len(text)
        return Step(text, decided)
