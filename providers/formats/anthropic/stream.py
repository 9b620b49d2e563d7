"""Anthropic's stream: named events, of which `message_stop` is the last."""

import re

from gateway_project.errors import GatewayError, ProviderOverloaded
from gateway_project.json_types import JsonObject
from providers.formats.anthropic.kept_state import ids_in
from providers.formats.anthropic.reply import FINISH_REASONS, cited_page, pages_of, refusal_text, usage_of
from providers.formats.anthropic.request import NAME
from providers.formats.base import error_message, late_rejection
from providers.formats.cited_blocks import CitedBlocks
from providers.formats.dialect import WorkRequest
from providers.formats.json_stream import JsonStreamReader, failure_midway
from providers.formats.json_values import as_dict, as_text, dump_value
from providers.formats.neutral.deltas import (
    AnswerEnd,
    AnswerStart,
    CallDelta,
    CallStart,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
)
from providers.formats.parts import normalise_reason
from providers.formats.sse import PLAIN

# An event with text only; Anthropic pads it with blanks to hide the length of the text.
WORDS = re.compile(
    rb'event: content_block_delta\ndata: \{[^\n]*?"(?:text|thinking)": ?"(%b)"\}( *)\}\n\n' % PLAIN.pattern
)

# The types of errors that say that the request is wrong, and the status of each.
REFUSALS = {"invalid_request_error": 400, "not_found_error": 404, "request_too_large": 413}


class AnthropicReader(JsonStreamReader):
    """Named events, of which `message_stop` is the last."""

    def __init__(self, work: WorkRequest) -> None:
        super().__init__(work)
        self._calls: dict[int, int] = {}  # the number of each call, by the index of its block
        self._begins = False  # a thought has begun, and none of its text has come yet
        self._usage: JsonObject = {}  # counts are totals: the last of each counts
        self._blocks = CitedBlocks(self.drop)

    def _event(self, event: bytes) -> bytes:
        # Most events contain nothing that is read here. If the stream is not translated, they pass unparsed.
        if self.deltas is not None or not event.startswith((b"event: content_block_", b"event: ping")):
            return super()._event(event)
        if text := WORDS.fullmatch(event):
            self.learn_template(event, text.span(1), text.span(2))
        return b"" if self.is_over else event

    def error_in_event(self, value: JsonObject) -> GatewayError | None:
        if value.get("type") != "error":
            return super().error_in_event(value)
        kind = as_text(as_dict(value.get("error")).get("type"))
        words = error_message(value)
        if kind in ("overloaded_error", "rate_limit_error"):
            return failure_midway(words, ProviderOverloaded, 429 if kind == "rate_limit_error" else 503)
        return late_rejection(words, REFUSALS[kind]) if kind in REFUSALS else failure_midway(words)

    def read(self, value: JsonObject) -> None:
        if read := EVENTS.get(as_text(value.get("type"))):
            read(self, value)

    def _message_started(self, value: JsonObject) -> None:
        message = as_dict(value.get("message"))
        self.emit(AnswerStart(as_text(message.get("id")), as_text(message.get("model"))))
        self.state_ids.update(dict.fromkeys(ids_in(self.work.body, message)))
        # The output is counted at the end: the count at the start is not of the answer.
        self._count({**as_dict(message.get("usage")), "output_tokens": None})

    def _block_started(self, value: JsonObject) -> None:
        block = as_dict(value.get("content_block"))
        kind, index = block.get("type"), value.get("index")
        self._cite()  # some servers send no content_block_stop
        if kind == "text":
            self._read_text(as_text(block.get("text")))
            for page in pages_of(block):
                self._blocks.add_citation(page)
        elif kind == "thinking":
            self._begins = True
            self._thought(as_text(block.get("thinking")), as_text(block.get("signature")))
        elif kind == "redacted_thinking":
            self.emit(ReasoningDelta(data=as_text(block.get("data")), source=NAME, begins=True))
        elif kind == "tool_use" and isinstance(index, int):
            number = self._calls[index] = len(self._calls)
            self.emit(CallStart(number, as_text(block.get("id")), as_text(block.get("name"))))
            if arguments := block.get("input"):  # some servers send the arguments whole
                self.emit(CallDelta(number, dump_value(arguments).decode()))
        else:
            self.drop(as_text(kind))

    def _block_continued(self, value: JsonObject) -> None:
        delta = as_dict(value.get("delta"))
        kind = delta.get("type")
        if kind == "text_delta":
            self._read_text(as_text(delta.get("text")))
        elif kind == "input_json_delta":
            index, arguments = value.get("index"), as_text(delta.get("partial_json"))
            if arguments and isinstance(index, int) and index in self._calls:
                self.emit(CallDelta(self._calls[index], arguments))
        elif kind == "thinking_delta":
            self._thought(as_text(delta.get("thinking")), "")
        elif kind == "signature_delta":
            self._thought("", as_text(delta.get("signature")))
        elif kind == "citations_delta":
            self._blocks.add_citation(cited_page(as_dict(delta.get("citation"))))

    def _block_stopped(self, value: JsonObject) -> None:
        self._cite()

    def _message_continued(self, value: JsonObject) -> None:
        self._cite()
        delta = as_dict(value.get("delta"))
        self._count(as_dict(value.get("usage")))
        self.state_ids.update(dict.fromkeys(ids_in({}, delta)))
        reason = as_text(delta.get("stop_reason"))
        if why := refusal_text(delta, reason):
            self.emit(RefusalDelta(why))
        if reason:
            self.finish(normalise_reason(FINISH_REASONS, reason), reason)
            self.emit(AnswerEnd(self.finish_reason, reason, as_text(delta.get("stop_sequence")) or None))

    def _message_stopped(self, value: JsonObject) -> None:
        self.done = True

    def _read_text(self, text: str) -> None:
        if text:
            self.emit(TextDelta(text))
            self._blocks.add_text(text)

    def _cite(self) -> None:
        for citation in self._blocks.end_block():
            self.emit(citation)

    def _thought(self, text: str, signature: str) -> None:
        if text or signature:
            self.emit(ReasoningDelta(text, signature, source=NAME, begins=self._begins))
            self._begins = False

    def _count(self, usage: JsonObject) -> None:
        self._usage.update({name: value for name, value in usage.items() if value is not None})
        self.usage = usage_of(self._usage) or self.usage


EVENTS = {
    "message_start": AnthropicReader._message_started,
    "content_block_start": AnthropicReader._block_started,
    "content_block_delta": AnthropicReader._block_continued,
    "content_block_stop": AnthropicReader._block_stopped,
    "message_delta": AnthropicReader._message_continued,
    "message_stop": AnthropicReader._message_stopped,
}
