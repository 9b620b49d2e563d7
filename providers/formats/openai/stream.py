"""OpenAI's stream of chat completions and completions: chunks, then `[DONE]`."""

import re
from collections import defaultdict

from gateway_project.errors import ProviderError
from gateway_project.json_types import JsonObject
from providers.formats.dialect import WorkRequest
from providers.formats.json_stream import JsonStreamReader
from providers.formats.json_values import as_dict, as_list, as_text, dump_value, read_json
from providers.formats.neutral.deltas import (
    AnswerEnd,
    AnswerStart,
    CallDelta,
    CallStart,
    Delta,
    ImageDelta,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    words_of,
)
from providers.formats.openai.annotations import citations_in
from providers.formats.openai.calls import CallIndexes, OpenCalls
from providers.formats.openai.reply import (
    AUDIO,
    finish_reason,
    images_in,
    read_thought,
    signature_of,
    text_in,
    transcript_in,
    usage_of,
)
from providers.formats.openai.request import THOUGHTS
from providers.formats.parts import arguments_text
from providers.formats.sse import PLAIN, data_of, events_in, is_one_line

DONE = b"[DONE]"
# Most chunks contain nothing that is read here. Those with these spellings pass unparsed.
NOTHING_FINISHED = (b'"finish_reason":null', b'"finish_reason": null')
CALLS = re.compile(rb'"tool_calls"\s*:\s*\[\s*\{')
# One piece that continues a call by its index. Nearly all pieces from OpenAI itself look like this.
CONTINUED = re.compile(
    rb'"tool_calls": ?\[\{"index": ?\d{1,9}, ?"function": ?\{"arguments": ?"[^"\\]*(?:\\.[^"\\]*)*"\}\}\]'
)
NO_USAGE = (b'"usage":null', b'"usage": null')
CONTENT = re.compile(rb'"(?:reasoning_)?content": ?"((?!")%b)"' % PLAIN.pattern)
# Where nearly all chunks with a text have it.
OPENS_WITH_TEXT = re.compile(rb'"delta": ?\{(?:"role": ?"assistant", ?)?"content": ?"(?!")')
# Random letters that hide the length of the text (stream_options.include_obfuscation; default: on).
OBFUSCATION = re.compile(rb'"obfuscation": ?"(%b)"' % PLAIN.pattern)


class OpenAIReader(JsonStreamReader):
    """Forwards events unchanged, but the usage only to clients that asked for it."""

    def __init__(self, work: WorkRequest) -> None:
        super().__init__(work)
        self._wants_usage = work.wants_usage
        self._chunks = ChunkReader()
        self._called = False
        self._call_indexes = CallIndexes() if work.via_door else None  # /work gets the provider's own indexes
        self._chosen = False  # whether a choice has arrived

    def text(self, events: bytes) -> str:
        return stream_text(events)

    def generated_text(self, events: bytes) -> str:
        return stream_produced(events)

    def has_text(self, events: bytes) -> bool:
        return OPENS_WITH_TEXT.search(events) is not None or super().has_text(events)

    def is_end_mark(self, data: bytes) -> bool:
        return data.startswith(DONE)

    def on_end_mark(self) -> None:
        self.done = True
        if not self._chosen:
            self.error = ProviderError("The provider's stream ended without an answer.")

    def can_skip(self, event: bytes, data: bytes) -> bool:
        has_calls = b'"tool_calls"' in data and CALLS.search(data) is not None
        self._called = self._called or has_calls
        if self.deltas is not None or not _says_nothing(data) or (has_calls and self._may_lack_index(data)):
            return False
        self._chosen = True
        # No template of calls: the index in it would pass also once the indexes of calls have to be corrected.
        if not has_calls and is_one_line(event) and (text := CONTENT.search(event)):
            letters = OBFUSCATION.search(event, text.end())
            self.learn_template(event, text.span(1), letters.span(1) if letters else None)
        return True

    def _may_lack_index(self, data: bytes) -> bool:
        indexes = self._call_indexes
        return indexes is not None and (indexes.has_changed or CONTINUED.search(data) is None)

    def read(self, value: JsonObject) -> bytes | None:
        if self.deltas is not None:
            self.deltas += self._chunks.read(value)
            if self._chunks.has_sound:
                self.drop(AUDIO)
        choices = as_list(value.get("choices"))
        self._chosen = self._chosen or bool(choices)
        for choice in choices:
            if isinstance(choice, dict) and (reason := as_text(choice.get("finish_reason"))):
                self.finish(finish_reason(reason, called=self._called), reason)
        is_changed = self._call_indexes is not None and self.deltas is None and self._call_indexes.complete(value)
        usage = usage_of(value.get("usage"))
        if usage is not None:
            self.usage = usage
            if not self._wants_usage:
                return _without_usage(value)
        return _event(value) if is_changed else None


def _without_usage(value: JsonObject) -> bytes:
    """The chunk without the usage; b"" if it has nothing else."""
    if not value.get("choices"):
        return b""
    del value["usage"]
    return _event(value)


def _event(value: JsonObject) -> bytes:
    return b"data: " + dump_value(value) + b"\n\n"


def _says_nothing(data: bytes) -> bool:
    if b'"error"' in data:
        return False
    quiet = b'"usage"' not in data or NO_USAGE[0] in data or NO_USAGE[1] in data
    return quiet and (NOTHING_FINISHED[0] in data or NOTHING_FINISHED[1] in data) and data.endswith(b"}")


def stream_text(events: bytes) -> str:
    """The answer's text in a recorded stream."""
    values = (read_json(data_of(event)) for event in events_in(events))
    return "".join(_piece_text(value) for value in values if isinstance(value, dict))


def _piece_text(value: JsonObject) -> str:
    choices = as_list(value.get("choices"))
    first = as_dict(choices[0]) if choices else {}
    return text_in(as_dict(first.get("delta")).get("content")) or as_text(first.get("text"))


def stream_produced(events: bytes) -> str:
    """Everything that the model generated in a recorded stream, in all choices."""
    readers: defaultdict[str, ChunkReader] = defaultdict(ChunkReader)
    texts: list[str] = []
    for value in (as_dict(read_json(data_of(event))) for event in events_in(events)):
        for choice in map(as_dict, as_list(value.get("choices"))):
            texts += map(words_of, readers[str(choice.get("index"))].read({"choices": [choice | {"index": 0}]}))
            texts.append(as_text(choice.get("text")))
    return "".join(texts)


class ChunkReader:
    """Reads the chunks of one stream into deltas."""

    def __init__(self) -> None:
        self._begun = self._finished = False
        self._id = ""
        self._calls = OpenCalls()
        self._thought: object = None  # type and index of the last thought
        self.has_sound = False

    def read(self, value: JsonObject) -> list[Delta]:
        """The deltas in a chunk, for the first choice."""
        deltas: list[Delta] = []
        if not self._begun and (value.get("id") or value.get("choices")):  # Azure's first chunk belongs to no answer
            self._begun, self._id = True, as_text(value.get("id"))
            deltas.append(AnswerStart(self._id, as_text(value.get("model"))))
        for choice in as_list(value.get("choices")):
            if isinstance(choice, dict) and not choice.get("index"):
                self._read_choice(choice, deltas)
        return deltas

    def _read_choice(self, choice: JsonObject, deltas: list[Delta]) -> None:
        delta = as_dict(choice.get("delta"))
        self._read_thoughts(delta, deltas)
        if text := text_in(delta.get("content")):
            deltas.append(TextDelta(text))
        elif AUDIO in delta:
            self._read_sound(delta, deltas)
        if refusal := as_text(delta.get("refusal")):
            deltas.append(RefusalDelta(refusal))
        deltas += [ImageDelta(image) for image in images_in(delta)]
        deltas += citations_in(delta.get("annotations"))
        for piece in as_list(delta.get("tool_calls")):
            self._read_call(as_dict(piece), deltas)
        reason = as_text(choice.get("finish_reason"))
        if reason and not self._finished:
            self._finished = True
            deltas.append(AnswerEnd(finish_reason(reason, called=bool(self._calls)), reason))

    def _read_sound(self, delta: JsonObject, deltas: list[Delta]) -> None:
        """The transcript; other shapes cannot express the sound."""
        self.has_sound = True
        if spoken := transcript_in(delta):
            deltas.append(TextDelta(spoken))

    def _read_thoughts(self, delta: JsonObject, deltas: list[Delta]) -> None:
        if details := as_list(delta.get("reasoning_details")):
            for detail in map(as_dict, details):
                self._read_detail(detail, deltas)
            return
        for source, name in THOUGHTS.items():
            if text := as_text(delta.get(name)):
                deltas.append(ReasoningDelta(text, source=source))
                return

    def _read_detail(self, detail: JsonObject, deltas: list[Delta]) -> None:
        thought, position = read_thought(detail), (detail.get("type"), detail.get("index"))
        begins, self._thought = self._thought not in (None, position), position
        deltas.append(ReasoningDelta(thought.text, thought.signature, thought.data, thought.source, begins))

    def _read_call(self, piece: JsonObject, deltas: list[Delta]) -> None:
        function = as_dict(piece.get("function"))
        call, name = self._calls.call_of(piece, self._id), as_text(function.get("name"))
        arguments = arguments_text(function.get("arguments"))
        if not call.is_announced and name:
            call.is_announced = True
            deltas.append(CallStart(call.number, call.id, name, signature_of(piece)))
            arguments = "".join([*call.waiting, arguments])
        if not call.is_announced:
            call.waiting.append(arguments)
        elif arguments:
            deltas.append(CallDelta(call.number, arguments))
