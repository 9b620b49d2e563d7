"""Gemini's stream: each event is a GenerateContentResponse with the next piece of the answer."""

from gateway_project.json_types import JsonObject
from providers.formats.dialect import WorkRequest
from providers.formats.gemini.grounding import GROUNDING, StreamedGrounding
from providers.formats.gemini.reply import (
    FINISH_REASONS,
    block_reason,
    candidate_of,
    image_of,
    parts_of,
    tool_call,
    usage_of,
)
from providers.formats.gemini.request import NAME
from providers.formats.json_stream import JsonStreamReader
from providers.formats.json_values import as_text
from providers.formats.neutral.deltas import (
    AnswerEnd,
    AnswerStart,
    CallDelta,
    CallStart,
    ImageDelta,
    ReasoningDelta,
    TextDelta,
)
from providers.formats.neutral.messages import Verbatim
from providers.formats.neutral.reply import FinishReason
from providers.formats.parts import normalise_reason


class GeminiReader(JsonStreamReader):
    """Reads the events. There is no end mark: the connection ends after an event with a finish reason."""

    def __init__(self, work: WorkRequest) -> None:
        super().__init__(work)
        self._id = ""
        self._begun = False
        self._parts = self._calls = 0
        self._signed = False
        self._grounding = StreamedGrounding()

    def read(self, value: JsonObject) -> None:
        if not self._begun:
            self._begun, self._id = True, as_text(value.get("responseId"))
            self.emit(AnswerStart(self._id, as_text(value.get("modelVersion"))))
        self.usage = usage_of(value.get("usageMetadata")) or self.usage
        candidate = candidate_of(value)
        if candidate is None:
            if reason := block_reason(value):
                self.finish(FinishReason.FILTER, reason)
            return
        parts = parts_of(candidate)
        if self.deltas is not None:  # only translated streams need citations
            self._emit_citations(parts, candidate.get(GROUNDING))
        for part in parts:
            self._read_part(part)
        if reason := as_text(candidate.get("finishReason")):
            self.finish(normalise_reason(FINISH_REASONS, reason, called=self._calls > 0), reason)

    def end(self, is_complete: bool) -> bytes:
        rest = super().end(is_complete)
        if self.error is None and self.finish_reason:
            # Read at the end, since some models send a finish reason with every piece.
            for citation in self._grounding.due(over=True):
                self.emit(citation)
            self.emit(AnswerEnd(self.finish_reason, self.provider_finish_reason))
            self.done = True
        return rest

    def _emit_citations(self, parts: list[JsonObject], grounding: object) -> None:
        """Emit citations before the parts of this event, because a part may end the text that they apply to."""
        for part in filter(_is_answer, parts):
            self._grounding.add_text(part["text"])
        for kind in self._grounding.read(grounding):
            self.drop(kind)
        for citation in self._grounding.due():
            self.emit(citation)

    def _read_part(self, part: JsonObject) -> None:
        text, signature = part.get("text"), as_text(part.get("thoughtSignature"))
        if part.get("thought") is True:
            # A signature ends a thought: what follows is the next thought.
            self.emit(ReasoningDelta(as_text(part.get("text")), signature, source=NAME, begins=self._signed))
            self._signed = bool(signature)
        elif isinstance(text, str):
            if text:
                self.emit(TextDelta(text))
            self._sign(signature)
        elif isinstance(part.get("functionCall"), dict):
            call = tool_call(part, self._id, self._parts)
            self.emit(CallStart(self._calls, call.id, call.name, call.signature))
            self.emit(CallDelta(self._calls, call.arguments))
            self._calls += 1
        elif image := image_of(part):
            self.emit(ImageDelta(image))
            self._sign(signature)
        else:
            self.drop(Verbatim(part, NAME).kind)
        self._parts += 1

    def _sign(self, signature: str) -> None:
        """Emit the signature of the previous part as a thought without text."""
        if signature:
            self.emit(ReasoningDelta(signature=signature, source=NAME, begins=True))
            self._signed = True


def _is_answer(part: JsonObject) -> bool:
    return isinstance(part.get("text"), str) and part.get("thought") is not True
