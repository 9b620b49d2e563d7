"""Cohere's stream: events with a `type`, of which `message-end` is the last."""

from collections.abc import Callable

from gateway_project.errors import GatewayError
from gateway_project.json_types import JsonObject
from providers.formats.cohere.reply import FINISH_REASONS, tool_call, usage_of
from providers.formats.cohere.request import NAME
from providers.formats.dialect import WorkRequest
from providers.formats.json_stream import JsonStreamReader, stream_error
from providers.formats.json_values import as_dict, as_text
from providers.formats.neutral.deltas import AnswerEnd, AnswerStart, CallDelta, CallStart, ReasoningDelta, TextDelta
from providers.formats.parts import normalise_reason


class CohereReader(JsonStreamReader):
    """Reads the events; `message-end` completes the answer."""

    def __init__(self, work: WorkRequest) -> None:
        super().__init__(work)
        self._calls: dict[int | None, int] = {}  # the number of each call, by Cohere's index

    def read(self, value: JsonObject) -> None:
        kind, delta = as_text(value.get("type")), as_dict(value.get("delta"))
        if kind == "message-start":
            self.emit(AnswerStart(as_text(value.get("id"))))
        elif kind == "message-end":
            self._read_end(delta)
        elif kind == "citation-start":
            self.drop("citations")
        elif read := READERS.get(kind):
            index = value.get("index")
            read(self, as_dict(delta.get("message")), index if isinstance(index, int) else None)

    def error_in_event(self, value: JsonObject) -> GatewayError | None:
        delta = as_dict(value.get("delta")) if value.get("type") == "message-end" else {}
        reason = delta.get("error") or value.get("error")
        if not reason:
            return None
        error = stream_error({"error": reason})
        error.usage = usage_of(delta.get("usage"))
        return error

    def _read_content(self, message: JsonObject, index: int | None) -> None:
        content = as_dict(message.get("content"))
        if thought := as_text(content.get("thinking")):
            self.emit(ReasoningDelta(thought, source=NAME))
        if text := as_text(content.get("text")):
            self.emit(TextDelta(text))

    def _read_plan(self, message: JsonObject, index: int | None) -> None:
        self.emit(ReasoningDelta(as_text(message.get("tool_plan")), source=NAME))

    def _read_call_start(self, message: JsonObject, index: int | None) -> None:
        number = self._calls[index] = len(self._calls)
        call = tool_call(as_dict(message.get("tool_calls")), "", number)
        self.emit(CallStart(number, call.id, call.name))
        if call.arguments:
            self.emit(CallDelta(number, call.arguments))

    def _read_call_delta(self, message: JsonObject, index: int | None) -> None:
        function = as_dict(as_dict(message.get("tool_calls")).get("function"))
        if index in self._calls:
            self.emit(CallDelta(self._calls[index], as_text(function.get("arguments"))))

    def _read_end(self, delta: JsonObject) -> None:
        reason = as_text(delta.get("finish_reason"))
        self.finish(normalise_reason(FINISH_REASONS, reason), reason)
        self.emit(AnswerEnd(self.finish_reason, reason))
        self.usage = usage_of(delta.get("usage"))
        self.done = True


READERS: dict[str, Callable[[CohereReader, JsonObject, int | None], None]] = {
    "content-start": CohereReader._read_content,
    "content-delta": CohereReader._read_content,
    "tool-plan-delta": CohereReader._read_plan,
    "tool-call-start": CohereReader._read_call_start,
    "tool-call-delta": CohereReader._read_call_delta,
}
