"""A stream on its way to one client: what guardrails look for is found however it is cut into pieces.

Every text of a stream has a channel: the pieces of one message, one block, or the arguments of one call. A channel
passes on at once what can no longer belong to a match, within the events that the pieces came in. What is held when a
channel ends goes out with its last event, or in an event of its own before the one that ends it.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from time import monotonic

from django.conf import settings

from gateway_project.errors import GuardrailBlocked
from gateway_project.json_types import JsonObject
from gateway_project.work.guardrails.channels import Channel, Channels
from gateway_project.work.guardrails.detectors.redaction import Placeholders
from gateway_project.work.guardrails.events import (
    EVERYTHING,
    Ending,
    Scope,
    ending_of,
    has_stray_lines,
    is_part,
    is_repetition,
    line_data,
    scope_of,
    with_data,
    with_line_data,
)
from gateway_project.work.guardrails.searching import Search
from gateway_project.work.guardrails.texts import Kind, Path, Visit, of_whole_texts, rewrite_texts, without_logprobs
from providers.formats.json_values import dump_value, read_json
from providers.formats.sse import EventSplitter, data_of

DONE = b"[DONE]"
# Of the start of a call and of a message, which must not be said twice.
FIRST_PIECE_MEMBERS = frozenset({"id", "type", "name", "role"})


class StreamGuard:
    """Watches the chunks of one stream for one client.

    `read` returns what the model has generated in recorded bytes. It serves streams that are neither events nor lines
    of JSON: these are held until their end, and what would be redacted in them is blocked. `ask` asks services about
    all that was generated, and may raise GuardrailBlocked; if it `decides`, nothing is passed on before it returns.
    """

    def __init__(
        self,
        search: Search | None,
        placeholders: Placeholders | None,
        content_type: str,
        read: Callable[[bytes], str],
        *,
        is_changed: bool,
        ask: Callable[[str], None] | None = None,
        decides: bool = True,
    ) -> None:
        self._ask, self._holds = ask, ask is not None and decides
        self._chunks: list[bytes] = []  # of the whole stream, for `ask`
        self._search, self._placeholders, self._read, self._is_changed = search, placeholders, read, is_changed
        media_type = content_type.partition(";")[0].strip().lower()
        self._holds_lines = media_type in ("application/x-ndjson", "application/json", "application/jsonl")
        self._is_readable = self._holds_lines or media_type == "text/event-stream"
        self._visit_whole = None if search is None else of_whole_texts(search.visit)
        self._splitter = EventSplitter()
        self._held = bytearray()  # what is no whole line yet, or all of a stream that is not readable
        self._channels = Channels(search, placeholders)
        self._logged: list[bytes] = []
        self._kept = 0
        self.size = 0  # of what may be logged, in bytes
        self._unsent = b""
        self._passed_at = monotonic()
        self._inserted = 0  # events that the provider has not numbered

    @property
    def asks_services(self) -> bool:
        """Whether the end may take long."""
        return self._ask is not None

    @property
    def logged(self) -> bytes:
        """The stream as the log keeps it: without what guardrails have taken out, placeholders in their place."""
        return b"".join(self._logged)

    def guard(
        self, chunks: Iterator[bytes | None], has_ended: Callable[[], bool] = lambda: True
    ) -> Iterator[bytes | None]:
        """The chunks for the client, one for each; at last what is held, if the stream has ended.

        None is a heartbeat, also while everything is held for long. Raises GuardrailBlocked.
        """
        for chunk in chunks:
            data = self.feed(chunk) if chunk else chunk
            yield None if chunk and not data and self.is_silent() else data
        if has_ended() and (rest := self.end()):
            yield rest

    def is_silent(self) -> bool:
        """Whether so much is held for so long that the client needs a heartbeat."""
        if monotonic() - self._passed_at < settings.GATEWAY_HEARTBEAT:
            return False
        self._passed_at = monotonic()
        return True

    def feed(self, chunk: bytes) -> bytes:
        """What the client gets for a chunk. Raises GuardrailBlocked."""
        if self._ask is not None:
            self._chunks.append(chunk)
        if self._holds:
            return b"" if self._is_changed else chunk
        return self._feed_chunk(chunk)

    def _feed_chunk(self, chunk: bytes) -> bytes:
        if not self._is_readable:
            self._held += chunk
            return b"" if self._is_changed else chunk
        output = self._join_parts(part for event in self._events(chunk) for part in self._event(event))
        return output if self._is_changed else chunk

    def take_unsent(self) -> bytes:
        """What came in one chunk with what is blocked, and before it."""
        unsent, self._unsent = self._unsent, b""
        return unsent

    def _join_parts(self, parts: Iterator[bytes]) -> bytes:
        joined: list[bytes] = []
        try:
            joined.extend(parts)
        except GuardrailBlocked:
            self._unsent = b"".join(joined)
            raise
        return b"".join(joined)

    def end(self) -> bytes:
        """What the client gets at the end of the stream. Raises GuardrailBlocked."""
        before = b""
        if self._ask is not None:
            data, self._chunks = b"".join(self._chunks), []
            self._ask(self._read(data))
            before = self._feed_chunk(data) if self._holds else b""
        return (before if self._is_changed else b"") + self._end()

    def leave(self) -> None:
        """Ask about the chunks so far of a stream that ends early, unless it was held: then nobody has got them."""
        data, self._chunks = b"".join(self._chunks), []
        if self._ask is not None and data and not self._holds:
            with suppress(GuardrailBlocked):  # another guardrail has already blocked the stream
                self._ask(self._read(data))

    def _end(self) -> bytes:
        if not self._is_readable:
            return self._end_unreadable()
        rest = bytes(self._held) if self._holds_lines else self._splitter.end()
        self._held.clear()
        output = self._join_parts(chain(self._event(rest) if rest else (), self._flush(EVERYTHING)))
        return output if self._is_changed else b""

    def _events(self, chunk: bytes) -> list[bytes]:
        if not self._holds_lines:
            return self._splitter.feed(chunk)
        self._held += chunk
        *lines, rest = self._held.split(b"\n")
        self._held = bytearray(rest)
        return [bytes(line) + b"\n" for line in lines]

    def _event(self, event: bytes) -> Iterator[bytes]:
        if self._holds_lines:
            return self._data(event, line_data(event))
        if has_stray_lines(event):
            return chain.from_iterable(self._data(line, line_data(line)) for line in event.splitlines(keepends=True))
        return self._data(event, data_of(event))

    def _data(self, event: bytes, data: bytes) -> Iterator[bytes]:
        """The event, or line, with these data for the client."""
        if data == DONE:
            yield from self._flush(EVERYTHING)
        value = read_json(data) if data and data != DONE else None
        if isinstance(value, dict):
            yield from self._object(event, value)
        else:
            safe = output = event
            if data and data != DONE and self._search is not None:
                text = data.decode(errors="replace")
                if (new := self._search.visit(text, Kind.MIXED_PART)) != text:
                    safe = output = self._write_event(event, new.encode())
                self._search.raise_if_blocked("answer")
            yield self._pass_on(safe, output)

    def _object(self, event: bytes, value: JsonObject) -> Iterator[bytes]:
        """The event for the client; before it those with what is held of the channels that it ends."""
        ending, scope = ending_of(value), scope_of(value)
        channels, visit_whole = self._channels, self._visit_whole
        channels.begin_event(event, value, ending)

        def visit(text: str, kind: Kind, path: Path) -> str:
            if is_part(value, kind, path):
                return channels.of(scope, path, kind).take(text)
            # An empty text is the beginning of one that comes in pieces.
            return text if visit_whole is None or not text else visit_whole(text, kind, path)

        safe_value = self._rewritten(value, visit)
        if not self._is_changed:
            channels.end(ending)
            channels.end_taken()
            return
        if b"logprobs" in event:
            safe_value = without_logprobs(safe_value)
        if self._inserted and isinstance(number := value.get("sequence_number"), int):
            safe_value = {**safe_value, "sequence_number": number + self._inserted}
        yield from self._flush(ending)
        output_value = (
            safe_value if self._placeholders is None else rewrite_texts(safe_value, self._restore(value, scope))
        )
        channels.end_taken()
        yield self._pass_on(
            event if safe_value is value else self._write_event(event, dump_value(safe_value)),
            event if output_value is value else self._write_event(event, dump_value(output_value)),
        )

    def _rewritten(self, value: JsonObject, visit: Visit) -> JsonObject:
        """The event as it is safe; what it only says once more is not counted again. Raises GuardrailBlocked."""
        search = self._search
        counts = search.counts() if search is not None and self._channels.has_texts and is_repetition(value) else None
        safe_value: JsonObject = rewrite_texts(value, visit)
        if search is not None:
            search.raise_if_blocked("answer")
            if counts is not None:
                search.set_counts(counts)
        return safe_value

    def _restore(self, original: JsonObject, scope: Scope) -> Visit:
        channels = self._channels

        def visit(text: str, kind: Kind, path: Path) -> str:
            if is_part(original, kind, path):
                return channels.of(scope, path, kind).restore(text)
            return channels.restore_text(text, kind)

        return visit

    def _flush(self, ending: Ending) -> Iterator[bytes]:
        """Events with what is held of the channels that end, unless the present event has it."""
        for channel, safe, output in self._channels.end(ending):
            if (safe or output) and self._is_changed:
                yield self._pass_on(self._continue_event(channel, safe), self._continue_event(channel, output))
                self._inserted += 1

    def _continue_event(self, channel: Channel, text: str) -> bytes:
        """Another event such as the channel's last one, with this text alone."""
        event, value = channel.last
        number = value.get("sequence_number")
        value = {**value, "sequence_number": number + self._inserted + 1} if isinstance(number, int) else value

        def visit(_: str, kind: Kind, path: Path) -> str:
            return text if path == channel.path else "" if is_part(value, kind, path) else _

        return self._write_event(event, dump_value(rewrite_texts(without_beginnings(value), visit)))

    def _write_event(self, event: bytes, data: bytes) -> bytes:
        is_line = self._holds_lines or has_stray_lines(event)
        return with_line_data(event, data) if is_line else with_data(event, data)

    def _pass_on(self, safe: bytes, output: bytes) -> bytes:
        self.size += len(safe)
        self._passed_at = monotonic()
        if self._is_changed and self._kept < settings.GATEWAY_LOG_PAYLOAD_MAX_BYTES:
            self._logged.append(safe)
            self._kept += len(safe)
        return output

    def _end_unreadable(self) -> bytes:
        data = bytes(self._held)
        self._held.clear()
        if self._search is not None:
            text = self._read(data)
            if self._search.visit(text, Kind.MIXED) != text:
                self._search.refuse_redaction()
            self._search.raise_if_blocked("answer")
        return self._pass_on(data, data) if self._is_changed else b""


def without_beginnings(value: object) -> object:
    """A piece without the names, ids and roles that its first event has said; clients would join them."""
    if not isinstance(value, dict):
        return value
    result = dict(value)
    if isinstance(choices := value.get("choices"), list):
        result["choices"] = [_without_beginning(choice) for choice in choices]
    if "usage" in result:
        result["usage"] = None
    return result


def _without_beginning(choice: object) -> object:
    if not isinstance(choice, dict) or not isinstance(delta := choice.get("delta"), dict):
        return choice
    delta = {name: item for name, item in delta.items() if name != "role"}
    if isinstance(calls := delta.get("tool_calls"), list):
        delta["tool_calls"] = [_continued_call(call) for call in calls]
    return {**choice, "delta": delta}


def _continued_call(call: object) -> object:
    if not isinstance(call, dict):
        return call
    call = {name: item for name, item in call.items() if name not in FIRST_PIECE_MEMBERS}
    if isinstance(function := call.get("function"), dict):
        call["function"] = {name: item for name, item in function.items() if name not in FIRST_PIECE_MEMBERS}
    return call
