"""Mistral's stream: chunks like OpenAI's."""

from gateway_project.errors import GatewayError
from gateway_project.json_types import JsonObject
from providers.formats.dialect import WorkRequest
from providers.formats.json_stream import JsonStreamReader, stream_error
from providers.formats.json_values import as_dict, as_list, as_text
from providers.formats.mistral.reply import FINISH_REASONS, call_id_of, read_content, tool_call
from providers.formats.mistral.request import NAME
from providers.formats.neutral.deltas import AnswerEnd, AnswerStart, CallDelta, CallStart, ReasoningDelta, TextDelta
from providers.formats.neutral.messages import Reasoning, Text, Verbatim
from providers.formats.openai.reply import usage_of
from providers.formats.openai.stream import DONE
from providers.formats.parts import normalise_reason


class MistralReader(JsonStreamReader):
    """Reads the chunks; the last one has the usage."""

    def __init__(self, work: WorkRequest) -> None:
        super().__init__(work)
        self._id: str | None = None
        self._calls = 0
        self._numbers: dict[str | int, int] = {}  # the number of each call, by its id and, for the latest, by its index

    def is_end_mark(self, data: bytes) -> bool:
        return data.startswith(DONE)

    def error_in_event(self, value: JsonObject) -> GatewayError | None:
        return stream_error(value) if value.get("error") or value.get("object") == "error" else None

    def read(self, value: JsonObject) -> None:
        if self._id is None:
            self._id = as_text(value.get("id"))
            self.emit(AnswerStart(self._id, as_text(value.get("model"))))
        self.usage = usage_of(value.get("usage")) or self.usage
        for choice in as_list(value.get("choices")):
            if isinstance(choice, dict) and not choice.get("index"):  # only the first choice is read
                self._read_choice(choice)

    def _read_choice(self, choice: JsonObject) -> None:
        delta = as_dict(choice.get("delta"))
        for part in read_content(delta.get("content")):
            if isinstance(part, Text):
                self.emit(TextDelta(part.text))
            elif isinstance(part, Reasoning):
                self.emit(ReasoningDelta(part.text, part.signature, source=NAME))
            elif isinstance(part, Verbatim):
                self.drop(part.kind)
        for call in as_list(delta.get("tool_calls")):
            if isinstance(call, dict):
                self._read_call(call)
        if reason := as_text(choice.get("finish_reason")):
            self.finish(normalise_reason(FINISH_REASONS, reason), reason)
            self.emit(AnswerEnd(self.finish_reason, reason))

    def _read_call(self, piece: JsonObject) -> None:
        call, index = tool_call(piece, self._id or "", self._calls), piece.get("index")
        index = index if isinstance(index, int) else 0
        call_id = call_id_of(piece)
        number = self._numbers.get(call_id or index)
        if number is None or (call.name and not call_id):  # a piece that continues a call has no name
            number = self._numbers[call.id] = self._numbers[index] = self._calls
            self._calls += 1
            self.emit(CallStart(number, call.id, call.name))
        if call.arguments:
            self.emit(CallDelta(number, call.arguments))
