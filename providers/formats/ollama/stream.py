"""Ollama's stream: lines with a JSON object each."""

from gateway_project.json_types import JsonObject
from providers.formats.dialect import WorkRequest
from providers.formats.json_stream import JsonLinesReader
from providers.formats.json_values import as_dict, as_text
from providers.formats.neutral.deltas import AnswerEnd, AnswerStart, CallDelta, CallStart, ReasoningDelta, TextDelta
from providers.formats.neutral.messages import ToolCall
from providers.formats.ollama.reply import FINISH_REASONS, calls_of, tool_call, usage_of
from providers.formats.ollama.request import NAME
from providers.formats.parts import normalise_reason


class OllamaReader(JsonLinesReader):
    """Reads the lines; the last one has `"done": true`. A tool call comes whole."""

    def __init__(self, work: WorkRequest) -> None:
        super().__init__(work)
        self._begun = False
        self._calls = 0

    def read(self, value: JsonObject) -> None:
        if not self._begun:
            self._begun = True
            self.emit(AnswerStart(model=as_text(value.get("model"))))
        message = as_dict(value.get("message"))
        if thought := as_text(message.get("thinking")):
            self.emit(ReasoningDelta(thought, source=NAME))
        if text := as_text(message.get("content")):
            self.emit(TextDelta(text))
        for call in calls_of(message):
            self._read_call(tool_call(call, value, self._calls))
        if value.get("done") is True:
            self._read_end(value)

    def _read_call(self, call: ToolCall) -> None:
        # Counted here, since parallel calls may all have the index 0.
        self.emit(CallStart(self._calls, call.id, call.name))
        self.emit(CallDelta(self._calls, call.arguments))
        self._calls += 1

    def _read_end(self, value: JsonObject) -> None:
        reason = as_text(value.get("done_reason"))
        self.finish(normalise_reason(FINISH_REASONS, reason, called=self._calls > 0), reason)
        self.emit(AnswerEnd(self.finish_reason, reason))
        self.usage = usage_of(value)
        self.done = True
