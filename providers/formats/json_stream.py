"""Readers for streams of JSON objects: one per server-sent event, or one per line."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Protocol

from gateway_project.errors import GatewayError, ProviderError, ProviderOverloaded, UpstreamError
from gateway_project.json_types import JsonObject
from providers.formats.base import StreamReader, code_in, error_message, is_refusal, late_rejection, status_in
from providers.formats.dialect import WorkRequest
from providers.formats.dropped import MAX_DROPPED_KINDS
from providers.formats.json_values import read_json
from providers.formats.neutral.deltas import Delta, TextDelta, words_of
from providers.formats.neutral.reply import FinishReason
from providers.formats.sse import MAX_TEMPLATE_BYTES, ChunkTemplate, EventSplitter, data_of

BLOCK = 64 * 1024
# If every event differs in something else, no template ever matches.
MAX_TEMPLATES = 8


class Splitter(Protocol):
    """Splits a byte stream into whole events."""

    @property
    def at_event_boundary(self) -> bool: ...

    def feed(self, piece: bytes) -> list[bytes]: ...

    def end(self) -> bytes: ...


class JsonStreamReader(StreamReader):
    """Forwards events unchanged, or fills `deltas`. A format implements read() for one object."""

    def __init__(self, work: WorkRequest) -> None:
        super().__init__(work)
        self._splitter = self.splitter()
        self._template: ChunkTemplate | None = None  # of events that contain only text
        self._templates_learned = 0

    def splitter(self) -> Splitter:
        return EventSplitter()

    def data(self, event: bytes) -> bytes:
        """The JSON in an event, b"" if there is none."""
        return data_of(event)

    @abstractmethod
    def read(self, value: JsonObject) -> bytes | None:
        """Read one object: emit() its deltas, and set done, usage and the finish reasons.

        Returns bytes to forward in place of the event; None forwards the event itself.
        """

    def can_skip(self, event: bytes, data: bytes) -> bool:
        """Whether an event can be forwarded without being parsed."""
        return False

    def is_end_mark(self, data: bytes) -> bool:
        """Whether this is a terminal mark other than JSON."""
        return False

    def on_end_mark(self) -> None:
        """Called when such a mark arrives."""
        self.done = True

    def error_in_event(self, value: JsonObject) -> GatewayError | None:
        """The error that an object in the stream reports, if it does."""
        return stream_error(value) if value.get("error") else None

    def emit(self, delta: Delta) -> None:
        """Record a delta if the stream is translated."""
        if self.deltas is not None:
            self.deltas.append(delta)

    def drop(self, kind: str) -> None:
        """Record that content of this kind is dropped: no other shape can hold it."""
        if kind and self.deltas is not None and len(self.dropped_kinds) < MAX_DROPPED_KINDS:
            self.dropped_kinds[self._surrogates.finalise(kind)] = None

    def finish(self, reason: FinishReason, provider_reason: str) -> None:
        """Set the finish reasons: normalised, and as the provider named it."""
        self.finish_reason, self.provider_finish_reason = reason, self._surrogates.finalise(provider_reason)

    @property
    def template(self) -> ChunkTemplate | None:
        return self._template if self._template and self._splitter.at_event_boundary and not self.is_over else None

    def learn_template(self, event: bytes, text: tuple[int, int], padding: tuple[int, int] | None = None) -> None:
        """Make a template of this event; `text` and `padding` are the positions that vary."""
        if self._templates_learned < MAX_TEMPLATES and len(event) <= MAX_TEMPLATE_BYTES:
            self._template = ChunkTemplate(event, text, padding)
            self._templates_learned += 1

    def feed(self, piece: bytes) -> bytes:
        if self._template and (template := self.template) and template.matches(piece):
            return piece
        events = self._splitter.feed(piece)
        if len(events) == 1:
            return self._event(events[0])
        return b"".join([self._event(event) for event in events])

    def end(self, is_complete: bool) -> bytes:
        # The blank line after the last event may be missing; an event that was cut off is discarded.
        rest = self._splitter.end()
        data = self.data(rest + b"\n\n").strip()
        is_whole = self.is_end_mark(data) or isinstance(read_json(data), dict)
        return self._event(rest + b"\n\n") if is_whole else b""

    def text(self, events: bytes) -> str:
        return "".join([delta.text for delta in self._deltas_in(events) if isinstance(delta, TextDelta)])

    def generated_text(self, events: bytes) -> str:
        return "".join(map(words_of, self._deltas_in(events)))

    def _deltas_in(self, events: bytes) -> Iterator[Delta]:
        reader = type(self)(self.work)
        reader.deltas = []
        for start in range(0, len(events), BLOCK):
            reader.feed(events[start : start + BLOCK])
            yield from reader.take_deltas()

    def _event(self, event: bytes) -> bytes:
        if self.is_over:
            return b""
        if self._template is not None and self._template.matches(event):
            return event
        data = self.data(event)
        if not data or self.can_skip(event, data):
            return event
        if self.is_end_mark(data):
            self.on_end_mark()
            return event if self.error is None else b""
        value = self.parse_json(data)
        if not isinstance(value, dict):
            self.error = ProviderError("The provider sent a stream event that is not a JSON object.")
            return b""
        self.error = self.error_in_event(value)
        instead = self.read(value) if self.error is None else None
        if self.error is not None:
            return b""
        return event if instead is None else instead


class LineSplitter(EventSplitter):
    """Splits a byte stream into lines."""

    def feed(self, piece: bytes) -> list[bytes]:
        lines, newline, rest = piece.rpartition(b"\n")
        if not newline:
            self._rest += rest
            return []
        data = bytes(self._rest) + lines + newline
        self._rest = bytearray(rest)
        return data.splitlines(keepends=True)


class JsonLinesReader(JsonStreamReader):
    """Lines of JSON (application/x-ndjson)."""

    def splitter(self) -> Splitter:
        return LineSplitter()

    def data(self, event: bytes) -> bytes:
        return event.strip()


def stream_error(value: JsonObject) -> UpstreamError:
    """The error that a provider reports inside a stream; its `code` says whose fault it is."""
    words, status = error_message(value), status_in(value)
    if status in (429, 503, 529):
        return failure_midway(words, ProviderOverloaded, 429 if status == 429 else 503)
    return late_rejection(words, status, code_in(value)) if is_refusal(status) else failure_midway(words)


def failure_midway(
    words: str, kind: type[ProviderError] | type[ProviderOverloaded] = ProviderError, code: int | None = None
) -> UpstreamError:
    """The failure in the middle of an answer, with the provider's words."""
    message = "The provider failed in the middle of its answer"
    return kind(f"{message}: {words}", code=code, own_message=f"{message}.")
