"""The texts of one stream, each with the window through which its pieces go."""

import logging
from collections.abc import Iterator
from time import perf_counter

from gateway_project.errors import UnusableAnswer
from gateway_project.json_types import JsonObject
from gateway_project.work.guardrails.book import GuardrailSnapshot
from gateway_project.work.guardrails.detectors import Detector
from gateway_project.work.guardrails.detectors.redaction import Placeholders, Restorer, json_escape
from gateway_project.work.guardrails.detectors.window import Step, Window
from gateway_project.work.guardrails.escapes import Escapes
from gateway_project.work.guardrails.events import NOTHING, Ending, Scope, choice_of
from gateway_project.work.guardrails.searching import Search, Span
from gateway_project.work.guardrails.texts import Kind, Path

log = logging.getLogger("gateway.guardrails")

MAX_CHANNELS = 1000  # texts of an answer that are open at once
ChannelKey = tuple[Scope, Path, Kind]


class Channel:
    """One text: `take` gives what is decided of it after each piece, without what is redacted."""

    def __init__(self, search: Search | None, placeholders: Placeholders | None, path: Path, kind: Kind) -> None:
        self.path = path
        self.last: tuple[bytes, JsonObject] = (b"", {})  # the last event with a piece of it
        self.ends_now = False
        self._search = search
        self._restorer: Restorer | None = None
        if placeholders is not None:
            self._restorer = Restorer(placeholders, json_escape if kind is Kind.CALL_JSON else str)
        self._watchers: list[tuple[Detector, tuple[GuardrailSnapshot, ...]]] = []
        self._window: Window | None = None
        if search is not None:
            self._watchers = _able_detectors(search, kind)
            self._window = Window([detector for detector, _ in self._watchers])
        self._escapes = Escapes() if kind is Kind.CALL_JSON else None

    def take(self, piece: str) -> str:
        """The text that is decided after the next piece. Raises GuardrailBlocked."""
        text = self._decide_text(piece)
        return text + self.close() if self.ends_now else text

    def close(self) -> str:
        """The rest of the text at its end. Raises GuardrailBlocked."""
        return self._decide_text(None)

    def restore(self, text: str) -> str:
        """The decided text for the client, with the originals of placeholders."""
        if self._restorer is None:
            return text
        output = self._restorer.push(text)
        return output + self._restorer.close() if self.ends_now else output

    def close_restoring(self, text: str) -> str:
        """The same for the rest."""
        return text if self._restorer is None else self._restorer.push(text) + self._restorer.close()

    def _decide_text(self, piece: str | None) -> str:
        window, search = self._window, self._search
        if window is None or search is None:
            return piece or ""
        started_at = perf_counter()
        try:
            steps = self._steps(window, piece)
        except Exception:  # a fault of a detector is no fault of the answer: its guardrails say what happens
            log.exception("A guardrail cannot search a stream.")
            self._window = None
            for _, guardrails in self._watchers:
                search.note_failure(guardrails, 1)
            search.raise_if_blocked("answer")
            return window.rest + ("" if self._escapes is None else self._escapes.end())  # with this piece
        seconds = perf_counter() - started_at
        for _, guardrails in self._watchers:
            search.note_time(guardrails, seconds / len(self._watchers))
        return "".join([self._passed_on(search, step) for step in steps])

    def _steps(self, window: Window, piece: str | None) -> list[Step]:
        """What is decided after a piece, or (None) at the end."""
        escapes = self._escapes
        if piece is not None:
            return [window.push(piece if escapes is None else escapes.read(piece))]
        rest = "" if escapes is None else escapes.end()
        return [*([window.push(rest)] if rest else []), window.close()]

    def _passed_on(self, search: Search, step: Step) -> str:
        """A step without what is redacted; JSON of which nothing is redacted keeps its escapes."""
        text = self._without_findings(search, step) if step.findings else step.text
        if self._escapes is None:
            return text
        if text == step.text:
            return self._escapes.take_written(text)
        self._escapes.skip(step.text)
        return text

    def _without_findings(self, search: Search, step: Step) -> str:
        spans: list[Span] = []
        for number, match in step.findings:
            spans += search.note(self._watchers[number][1], [match], step.text)
        search.raise_if_blocked("answer")
        return search.remove_spans(step.text, spans) if spans else step.text


class Channels:
    """The texts that are open in a stream."""

    def __init__(self, search: Search | None, placeholders: Placeholders | None) -> None:
        self._search, self._placeholders = search, placeholders
        self._open: dict[ChannelKey, Channel] = {}
        self._event: tuple[bytes, JsonObject] = (b"", {})
        self._ending = NOTHING
        self.has_texts = False  # whether there was any
        self._taken: set[ChannelKey] = set()  # of the present event

    def begin_event(self, event: bytes, value: JsonObject, ending: Ending) -> None:
        """The pieces that come next are those of this event."""
        self._event, self._ending = (event, value), ending
        self._taken.clear()

    def of(self, scope: Scope, path: Path, kind: Kind) -> Channel:
        """The channel of a text of the present event; reasoning may stand in the place of the answer."""
        key = (scope, path, kind)
        channel = self._open.get(key)
        if channel is None:
            if len(self._open) >= MAX_CHANNELS:
                raise UnusableAnswer(f"Guardrails search at most {MAX_CHANNELS:,} texts of an answer at once.")
            self.has_texts = True
            channel = self._open[key] = Channel(self._search, self._placeholders, path, kind)
        if key not in self._taken:
            self._taken.add(key)
            channel.last = self._event
            channel.ends_now = self._ending is not NOTHING and self._ending.ends(scope, choice_of(path))
        return channel

    def end(self, ending: Ending) -> Iterator[tuple[Channel, str, str]]:
        """End these channels; each without a piece in the present event with its rest: redacted, and for the client."""
        if ending is NOTHING:
            return iter(())
        ended = [key for key in self._open if ending.ends(key[0], choice_of(key[1]))]
        rests: list[tuple[Channel, str, str]] = []
        for key in ended:
            channel = self._open[key]
            if key not in self._taken or not channel.ends_now:
                safe = channel.close()
                rests.append((channel, safe, channel.close_restoring(safe)))
                del self._open[key]
        return iter(rests)

    def end_taken(self) -> None:
        """Forget the channels that the present event has ended with a piece of them."""
        for key in self._taken:
            if (channel := self._open.get(key)) is not None and channel.ends_now:
                del self._open[key]

    def restore_text(self, text: str, kind: Kind) -> str:
        """A whole text with the originals of placeholders."""
        if self._placeholders is None:
            return text
        return self._placeholders.restore(text, json_escape if kind is Kind.CALL_JSON else str)


def _able_detectors(search: Search, kind: Kind) -> list[tuple[Detector, tuple[GuardrailSnapshot, ...]]]:
    """The detectors for a text, without those that can search nothing: their guardrails say what happens."""
    watchers = list(search.detectors_for(kind))
    for detector, guardrails in watchers:
        if detector.is_broken:
            search.note_failure(guardrails, 1)
    search.raise_if_blocked("answer")
    return [watcher for watcher in watchers if not watcher[0].is_broken]
