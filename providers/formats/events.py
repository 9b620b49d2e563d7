"""Streams that consist of JSON objects, one a server-sent event or one a line."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from gateway_project.errors import GatewayError, ProviderError, ProviderOverloaded, UpstreamError
from providers.formats.base import StreamReader, WorkRequest, error_message
from providers.formats.documents import as_dict, read_json
from providers.formats.dropped import MOST_KINDS
from providers.formats.neutral import Delta, TextDelta, words_of
from providers.formats.sse import LONGEST_ALIKE, EventSplitter, Likeness, data_of

BLOCK = 64 * 1024
# Where every event has something else that is new, none is like another.
LIKENESSES_SOUGHT = 8


class JsonReader(StreamReader):
    """Hands events on as they came, or fills `deltas`; a format says in `read` what one object means."""

    def __init__(self, work: WorkRequest) -> None:
        super().__init__(work)
        self._splitter = self.splitter()
        self._quiet: Likeness | None = None  # of events that say nothing but a text
        self._sought = 0

    def splitter(self) -> EventSplitter:
        return EventSplitter()

    def data(self, event: bytes) -> bytes:
        """The JSON in an event, b"" where there is none."""
        return data_of(event)

    @abstractmethod
    def read(self, value: dict[str, Any]) -> bytes | None:
        """Take in one object: say() what it means, and set done, usage and the finish reasons.

        What is to be handed on in its event's place; None: the event.
        """

    def passes(self, event: bytes, data: bytes) -> bool:
        """Whether an event need not be read: nothing in it is of interest here."""
        return False

    def marks_end(self, data: bytes) -> bool:
        """Whether this is a terminal mark that is not JSON."""
        return False

    def complete(self) -> None:
        """Such a mark has come."""
        self.done = True

    def failure(self, value: dict[str, Any]) -> GatewayError | None:
        """The error that an object in the stream tells of."""
        return error_midway(value) if value.get("error") else None

    def say(self, delta: Delta) -> None:
        """Tell this to whoever translates the stream."""
        if self.deltas is not None:
            self.deltas.append(delta)

    def lose(self, kind: str) -> None:
        """There was something of a kind that no other shape has a place for."""
        if kind and self.deltas is not None and len(self.lost) < MOST_KINDS:
            self.lost[self._halves.whole(kind)] = None

    def finish(self, reason: str, provider_reason: str) -> None:
        """The model has stopped, for this reason."""
        self.finish_reason, self.provider_finish_reason = reason, self._halves.whole(provider_reason)

    @property
    def likeness(self) -> Likeness | None:
        return self._quiet if self._quiet and self._splitter.is_between and not self.is_over else None

    def seek_likeness(self, event: bytes, text: tuple[int, int], rest: tuple[int, int] | None = None) -> None:
        """In all likelihood the next events are like this one, but for what stands there."""
        if self._sought < LIKENESSES_SOUGHT and len(event) <= LONGEST_ALIKE:
            self._quiet = Likeness(event, text, rest)
            self._sought += 1

    def feed(self, piece: bytes) -> bytes:
        if self._quiet and (like := self.likeness) and like.has(piece):
            return piece
        events = self._splitter.feed(piece)
        if len(events) == 1:
            return self._event(events[0])
        return b"".join([self._event(event) for event in events])

    def end(self, settled: bool) -> bytes:
        # What ends the last event may be missing; an event that was cut in its middle is none.
        rest = self._splitter.end()
        data = self.data(rest + b"\n\n").strip()
        whole = self.marks_end(data) or isinstance(read_json(data), dict)
        return self._event(rest + b"\n\n") if whole else b""

    def text(self, events: bytes) -> str:
        return "".join([delta.text for delta in self._deltas_in(events) if isinstance(delta, TextDelta)])

    def produced(self, events: bytes) -> str:
        return "".join(map(words_of, self._deltas_in(events)))

    def _deltas_in(self, events: bytes) -> Iterator[Delta]:
        reader = type(self)(self.work)
        reader.deltas = []
        for start in range(0, len(events), BLOCK):
            reader.feed(events[start : start + BLOCK])
            yield from reader.told()

    def _event(self, event: bytes) -> bytes:
        if self.is_over:
            return b""
        data = self.data(event)
        if not data or self.passes(event, data):
            return event
        if self.marks_end(data):
            self.complete()
            return event if self.error is None else b""
        value = self.parsed(data)
        if not isinstance(value, dict):
            self.error = ProviderError("The provider sent a stream event that is not a JSON object.")
            return b""
        self.error = self.failure(value)
        instead = self.read(value) if self.error is None else None
        if self.error is not None:
            return b""
        return event if instead is None else instead


class LineSplitter(EventSplitter):
    """Cuts a stream of bytes into lines."""

    def feed(self, piece: bytes) -> list[bytes]:
        lines, newline, rest = piece.rpartition(b"\n")
        if not newline:
            self._rest += rest
            return []
        whole = bytes(self._rest) + lines + newline
        self._rest = bytearray(rest)
        return whole.splitlines(keepends=True)


class LineReader(JsonReader):
    """Lines of JSON (application/x-ndjson)."""

    def splitter(self) -> EventSplitter:
        return LineSplitter()

    def data(self, event: bytes) -> bytes:
        return event.strip()


def error_midway(value: dict[str, Any]) -> UpstreamError:
    """The error that a provider puts into a stream it has begun; its number says whether it is overloaded."""
    text = f"The provider failed in the middle of its answer: {error_message(value)}"
    error = as_dict(value.get("error"))
    code = error.get("code")
    if code in (429, 503, 529):
        return ProviderOverloaded(text, code=429 if code == 429 else 503)
    return ProviderError(text)
