"""Bedrock's ConverseStream: frames (event_stream.py) with a JSON object each."""

from gateway_project.errors import GatewayError, ProviderError, ProviderOverloaded
from gateway_project.json_types import JsonObject
from providers.formats.base import late_rejection
from providers.formats.bedrock.event_stream import Frame, FrameSplitter, InvalidFrame, read_frame, write_frame
from providers.formats.bedrock.reply import FINISH_REASONS, cited_page, usage_of
from providers.formats.bedrock.request import NAME
from providers.formats.cited_blocks import CitedBlocks
from providers.formats.dialect import WorkRequest
from providers.formats.json_stream import JsonStreamReader, failure_midway
from providers.formats.json_values import as_dict, as_text, dump_value
from providers.formats.neutral.deltas import AnswerEnd, AnswerStart, CallDelta, CallStart, ReasoningDelta, TextDelta
from providers.formats.parts import normalise_reason

# Exceptions in a stream that mean overload, and the status of each.
OVERLOADS = {"throttlingException": 429, "serviceUnavailableException": 503}
INVALID = "validationException"  # says that the request is wrong
EVENT, EXCEPTION = "event", "exception"


class BedrockReader(JsonStreamReader):
    """Reads the frames: `messageStop` completes the answer, and `metadata` after it has the usage."""

    def __init__(self, work: WorkRequest) -> None:
        self._frames = FrameSplitter()
        super().__init__(work)
        self._frame = Frame({}, b"")
        self._stopped = False
        self._calls: dict[int, int] = {}  # the number of each call, by the index of its block
        self._thought: object = -1  # the block of the last thought
        self._blocks = CitedBlocks(self.drop)

    def splitter(self) -> FrameSplitter:
        return self._frames

    def feed(self, piece: bytes) -> bytes:
        handed_on = super().feed(piece)
        if self._frames.problem and not self.done and self.error is None:
            self.error = _invalid_frame(self._frames.problem)
        return handed_on

    def _event(self, event: bytes) -> bytes:
        try:
            return super()._event(event)
        except InvalidFrame as error:
            self.error = _invalid_frame(error)
            return b""

    def end(self, is_complete: bool) -> bytes:
        self.done = self.done or self._stopped  # complete even if the usage is missing
        return b""

    def native_error(self, error: GatewayError) -> bytes:
        status = error.code
        kind = next((name for name, code in OVERLOADS.items() if code == status), "internalServerException")
        headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": EXCEPTION}
        return write_frame(headers, dump_value(error.body()))

    def data(self, event: bytes) -> bytes:
        self._frame = frame = read_frame(event)
        return frame.payload or b"{}"

    def error_in_event(self, value: JsonObject) -> GatewayError | None:
        headers = self._frame.headers
        if headers.get(":message-type", EVENT) == EVENT:
            return None
        kind = headers.get(":exception-type") or headers.get(":error-code", "")
        reason = as_text(value.get("message")) or headers.get(":error-message", "") or kind
        if kind == INVALID:
            return late_rejection(reason)
        overload = OVERLOADS.get(kind)
        return failure_midway(reason) if overload is None else failure_midway(reason, ProviderOverloaded, overload)

    def read(self, value: JsonObject) -> None:
        if read := EVENTS.get(self._frame.headers.get(":event-type", "")):
            read(self, value)

    def _message_started(self, value: JsonObject) -> None:
        self.emit(AnswerStart())

    def _block_started(self, value: JsonObject) -> None:
        call, index = as_dict(as_dict(value.get("start")).get("toolUse")), value.get("contentBlockIndex")
        if call and isinstance(index, int):
            number = self._calls[index] = len(self._calls)
            self.emit(CallStart(number, as_text(call.get("toolUseId")), as_text(call.get("name"))))
        else:
            self.drop(next(iter(as_dict(value.get("start"))), ""))

    def _block_continued(self, value: JsonObject) -> None:
        delta, index = as_dict(value.get("delta")), value.get("contentBlockIndex")
        if text := as_text(delta.get("text")):
            self.emit(TextDelta(text))
            self._blocks.add_text(text)
        elif arguments := as_text(as_dict(delta.get("toolUse")).get("input")):
            if isinstance(index, int) and index in self._calls:
                self.emit(CallDelta(self._calls[index], arguments))
        elif thought := as_dict(delta.get("reasoningContent")):
            begins, self._thought = index != self._thought, index
            words, signature = as_text(thought.get("text")), as_text(thought.get("signature"))
            self.emit(ReasoningDelta(words, signature, as_text(thought.get("redactedContent")), NAME, begins))
        elif place := as_dict(delta.get("citation")):
            self._blocks.add_citation(cited_page(place))

    def _block_stopped(self, value: JsonObject) -> None:
        for citation in self._blocks.end_block():
            self.emit(citation)

    def _message_stopped(self, value: JsonObject) -> None:
        reason = as_text(value.get("stopReason"))
        self._stopped = True
        self.finish(normalise_reason(FINISH_REASONS, reason), reason)
        self.emit(AnswerEnd(self.finish_reason, reason))

    def _read_metadata(self, value: JsonObject) -> None:
        self.usage = usage_of(value.get("usage"))
        self.done = self._stopped


EVENTS = {
    "messageStart": BedrockReader._message_started,
    "contentBlockStart": BedrockReader._block_started,
    "contentBlockDelta": BedrockReader._block_continued,
    "contentBlockStop": BedrockReader._block_stopped,
    "messageStop": BedrockReader._message_stopped,
    "metadata": BedrockReader._read_metadata,
}


def _invalid_frame(why: object) -> ProviderError:
    return ProviderError(f"The provider sent an invalid frame: {why}.")
