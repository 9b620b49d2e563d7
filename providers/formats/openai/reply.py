"""What OpenAI's chat completions answer, and whatever speaks them: messages and chunks read into the neutral form."""

from collections import defaultdict

from gateway_project.errors import ProviderError
from gateway_project.json_types import JsonObject
from providers.formats.json_values import as_dict, as_list, as_text, read_json
from providers.formats.neutral import (
    Began,
    CallBegan,
    CallDelta,
    Delta,
    Finished,
    Image,
    ImageDelta,
    Part,
    Reasoning,
    ReasoningDelta,
    Refusal,
    RefusalDelta,
    Reply,
    Text,
    TextDelta,
    ToolCall,
    words_of,
)
from providers.formats.openai.annotations import citations_in
from providers.formats.openai.calls import OpenCalls
from providers.formats.openai.request import THOUGHTS
from providers.formats.parts import arguments_text, derived_call_id, normalise_reason
from providers.formats.sse import data_of, events_in
from providers.formats.usage import Usage, count, money

# What is not in the table is reported as "other", never as "stop".
FINISH_REASONS = {
    "stop": "stop",
    "eos": "stop",  # Together
    "length": "length",
    "tool_calls": "tool",
    "function_call": "tool",
    "content_filter": "filter",
    "error": "error",  # OpenRouter
}
SOURCE = "openai"
AUDIO = "audio"


def read_reply(value: JsonObject) -> Reply:
    """The first choice of an answer. Raises ProviderError where there is none."""
    choice = first_choice(value)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise ProviderError("The provider answered 200 without a message.")
    parts = [*_thoughts(message), *_said(message), *_calls(message, as_text(value.get("id")))]
    provider_reason = as_text(choice.get("finish_reason"))
    return Reply(
        parts,
        finish_reason(provider_reason, called=any(isinstance(part, ToolCall) for part in parts)),
        provider_reason,
        usage_of(value.get("usage")),
        as_text(value.get("id")),
        as_text(value.get("model")),
        citations=citations_in(message.get("annotations")),
        dropped_kinds=[AUDIO] if message.get(AUDIO) else [],
    )


def read_completion(value: JsonObject) -> Reply:
    """The same of a text completion's answer."""
    choice = first_choice(value)
    if not isinstance(text := choice.get("text"), str):
        raise ProviderError("The provider answered 200 without text.")
    reason, usage = as_text(choice.get("finish_reason")), usage_of(value.get("usage"))
    about = as_text(value.get("id")), as_text(value.get("model"))
    return Reply([Text(text)], finish_reason(reason), reason, usage, *about)


def check_one_choice(value: JsonObject) -> None:
    """Raises ProviderError for several choices, of which a stream that is made of an answer would lose all but one."""
    if len(as_list(value.get("choices"))) > 1:
        raise ProviderError("The provider answered with several choices at once where a stream was asked for.")


def first_choice(value: JsonObject) -> JsonObject:
    """The first of an answer's choices. Raises ProviderError where there is none."""
    choices = value.get("choices")
    if not isinstance(choices, list) or not choices or not all(isinstance(choice, dict) for choice in choices):
        raise ProviderError("The provider answered 200 without choices.")
    choice: JsonObject = choices[0]
    return choice


def finish_reason(reason: str, *, called: bool = False) -> str:
    """The reason normalised; some servers say `stop` where the model has made calls."""
    return normalise_reason(FINISH_REASONS, reason, called=called)


def usage_of(value: object) -> Usage | None:
    """Usage in disjoint buckets: OpenAI counts cached input inside prompt_tokens."""
    if not isinstance(value, dict):
        return None
    prompt, output = count(value.get("prompt_tokens")), count(value.get("completion_tokens"))
    if prompt is None and output is None:
        return None
    inside = as_dict(value.get("prompt_tokens_details"))
    read, write = count(inside.get("cached_tokens")), count(inside.get("cache_write_tokens"))
    rest = None if prompt is None else prompt - (read or 0) - (write or 0)
    if rest is not None and rest < 0:  # the parts exceed the whole: believe the whole
        rest, read, write = prompt, None, None
    reasoning = count(as_dict(value.get("completion_tokens_details")).get("reasoning_tokens"))
    total = value.get("total_tokens")
    if reasoning and prompt is not None and output is not None and total == prompt + output + reasoning:
        output += reasoning  # xAI counts thoughts beside the answer, as the total tells
    return Usage(rest, read, write, output, reasoning, cost=money(value.get("cost")))  # OpenRouter's


def stream_text(events: bytes) -> str:
    """The text in a recorded stream."""
    values = (read_json(data_of(event)) for event in events_in(events))
    return "".join(_piece_text(value) for value in values if isinstance(value, dict))


def _piece_text(value: JsonObject) -> str:
    choices = as_list(value.get("choices"))
    first = as_dict(choices[0]) if choices else {}
    return text_in(as_dict(first.get("delta")).get("content")) or as_text(first.get("text"))


def stream_produced(events: bytes) -> str:
    """All that a model wrote in a recorded stream of chunks, or of pieces of a text, as each of its choices."""
    readers: defaultdict[str, ChunkReader] = defaultdict(ChunkReader)
    texts: list[str] = []
    for value in (as_dict(read_json(data_of(event))) for event in events_in(events)):
        for choice in map(as_dict, as_list(value.get("choices"))):
            texts += map(words_of, readers[str(choice.get("index"))].read({"choices": [choice | {"index": 0}]}))
            texts.append(as_text(choice.get("text")))
    return "".join(texts)


def text_in(content: object) -> str:
    """The words of a content: a string, or what is text in a list of parts."""
    if isinstance(content, str):
        return content
    parts = [as_dict(part) for part in as_list(content)]
    return "".join(as_text(part.get("text")) for part in parts if part.get("type") == "text")


# --- Whole messages ---


def _said(message: JsonObject) -> list[Part]:
    parts: list[Part] = []
    if message.get("content") is not None:
        parts.append(Text(text_in(message["content"])))
    elif spoken := transcript_in(message):
        parts.append(Text(spoken))
    if refusal := as_text(message.get("refusal")):
        parts.append(Refusal(refusal))
    return [*parts, *_images(message)]


def transcript_in(message: JsonObject) -> str:
    """What is said in the sound that an answer is, or a piece of one."""
    return as_text(as_dict(message.get(AUDIO)).get("transcript"))


def _images(message: JsonObject) -> list[Image]:
    """OpenRouter's."""
    image_urls = (as_dict(as_dict(image).get("image_url")) for image in as_list(message.get("images")))
    return [_image(url) for value in image_urls if (url := as_text(value.get("url")))]


def _image(url: str) -> Image:
    about, comma, data = url.partition(";base64,")
    return Image(data=data, media_type=about.removeprefix("data:")) if comma else Image(url)


def _thoughts(message: JsonObject) -> list[Part]:
    if details := [as_dict(detail) for detail in as_list(message.get("reasoning_details"))]:
        return [_thought(detail) for detail in details]
    texts = ((source, as_text(message.get(name))) for source, name in THOUGHTS.items())
    return next(([Reasoning(text, source=source)] for source, text in texts if text), [])


def _thought(detail: JsonObject) -> Reasoning:
    return Reasoning(
        as_text(detail.get("text")) or as_text(detail.get("summary")),
        as_text(detail.get("signature")),
        as_text(detail.get("data")),
        as_text(detail.get("format")) or SOURCE,
        as_text(detail.get("id")),
    )


def _calls(message: JsonObject, reply_id: str) -> list[Part]:
    calls = [as_dict(call) for call in as_list(message.get("tool_calls"))]
    return [_call(call, derived_call_id(reply_id, str(number))) for number, call in enumerate(calls)]


def _call(call: JsonObject, spare_id: str) -> ToolCall:
    function = as_dict(call.get("function"))
    return ToolCall(
        as_text(call.get("id")) or spare_id,
        as_text(function.get("name")),
        arguments_text(function.get("arguments")),
        signature_of(call),
    )


def signature_of(call: JsonObject) -> str:
    """The signature of a call, where Google's own OpenAI face has it."""
    return as_text(as_dict(as_dict(call.get("extra_content")).get("google")).get("thought_signature"))


# --- Chunks ---


class ChunkReader:
    """Makes deltas of the chunks of one stream."""

    def __init__(self) -> None:
        self._begun = self._finished = False
        self._id = ""
        self._calls = OpenCalls()
        self._thought: object = None  # which of several thoughts it was that came last
        self.has_sound = False

    def read(self, value: JsonObject) -> list[Delta]:
        """What a chunk says of the first choice."""
        deltas: list[Delta] = []
        if not self._begun and (value.get("id") or value.get("choices")):  # Azure's first chunk is of nobody's answer
            self._begun, self._id = True, as_text(value.get("id"))
            deltas.append(Began(self._id, as_text(value.get("model"))))
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
        deltas += [ImageDelta(image) for image in _images(delta)]
        deltas += citations_in(delta.get("annotations"))
        for piece in as_list(delta.get("tool_calls")):
            self._read_call(as_dict(piece), deltas)
        reason = as_text(choice.get("finish_reason"))
        if reason and not self._finished:
            self._finished = True
            deltas.append(Finished(finish_reason(reason, called=bool(self._calls)), reason))

    def _read_sound(self, delta: JsonObject, deltas: list[Delta]) -> None:
        """The words that are said in it; no other shape has a place for the sound."""
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
        thought, which = _thought(detail), (detail.get("type"), detail.get("index"))
        begins, self._thought = self._thought not in (None, which), which
        deltas.append(ReasoningDelta(thought.text, thought.signature, thought.data, thought.source, begins))

    def _read_call(self, piece: JsonObject, deltas: list[Delta]) -> None:
        function = as_dict(piece.get("function"))
        call, name = self._calls.call_of(piece, self._id), as_text(function.get("name"))
        arguments = arguments_text(function.get("arguments"))
        if not call.begun and name:
            call.begun = True
            deltas.append(CallBegan(call.number, call.id, name, signature_of(piece)))
            arguments = "".join([*call.waiting, arguments])
        if not call.begun:
            call.waiting.append(arguments)
        elif arguments:
            deltas.append(CallDelta(call.number, arguments))
