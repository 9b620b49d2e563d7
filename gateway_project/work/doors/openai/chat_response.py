"""OpenAI's chat completions as they are answered, whole and as a stream.

Reasoning, which that API does not show, is written as `reasoning_content` (DeepSeek, LiteLLM, the AI SDK and most
coding agents read it) and with its proofs in `reasoning_details` (OpenRouter): a client that sends the message back
as it came carries them on. A signature of a call lies where Google's own OpenAI face has it: `extra_content`.
"""

from collections.abc import Callable
from typing import Any

from gateway_project.json_types import JsonObject
from providers.formats.dialect import StreamWriter, WorkRequest
from providers.formats.json_values import dump_value
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
)
from providers.formats.neutral.messages import Image, Reasoning, Refusal, Text, ToolCall
from providers.formats.neutral.reply import Citation, FinishReason, Reply
from providers.formats.openai.annotations import chat_annotation
from providers.formats.openai.request import image_url, write_call, write_thought
from providers.formats.usage import Usage

FINISH_REASONS = {
    FinishReason.STOP: "stop",
    FinishReason.LENGTH: "length",
    FinishReason.TOOL: "tool_calls",
    FinishReason.FILTER: "content_filter",
    FinishReason.ERROR: "error",  # as OpenRouter writes it
}


def write_reply_body(work: WorkRequest, reply: Reply) -> bytes:
    """A whole answer's body."""
    choice = {
        "index": 0,
        "message": _message(reply),
        "logprobs": None,
        "finish_reason": finish_reason(reply.finish_reason, reply.provider_finish_reason),
    }
    body = {
        "id": reply.id or f"chatcmpl-{work.id}",
        "object": "chat.completion",
        "created": work.created,
        "model": reply.model or work.model,
        "choices": [choice],
    }
    if reply.usage is not None:
        body["usage"] = usage_body(reply.usage)
    return dump_value(body)


def finish_reason(reason: FinishReason, provider_reason: str) -> str | None:
    """The reason in OpenAI's words; an unknown reason keeps the provider's word, and is never `stop`."""
    return FINISH_REASONS.get(reason) or provider_reason or reason or None


def usage_body(usage: Usage) -> JsonObject:
    """Tokens as OpenAI counts them: tokens that were read from or written to a cache are part of the prompt."""
    prompt, output = usage.all_input, usage.output or 0
    body: JsonObject = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
    details = {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write}
    if any(value is not None for value in details.values()):
        body["prompt_tokens_details"] = {name: value for name, value in details.items() if value is not None}
    if usage.reasoning is not None:
        body["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning}
    return body


def _message(reply: Reply) -> JsonObject:
    calls = [part for part in reply.parts if isinstance(part, ToolCall)]
    thoughts = [part for part in reply.parts if isinstance(part, Reasoning)]
    refusal = "".join(part.text for part in reply.parts if isinstance(part, Refusal))
    silent = (calls or refusal) and not any(isinstance(part, Text) for part in reply.parts)
    message: JsonObject = {
        "role": "assistant",
        "content": None if silent else reply.text,
        "refusal": refusal or None,
    }
    if thoughts:
        message["reasoning_content"] = "".join(thought.text for thought in thoughts)
        message["reasoning_details"] = [write_thought(thought, number) for number, thought in enumerate(thoughts)]
    if images := [_image_part(part) for part in reply.parts if isinstance(part, Image)]:
        message["images"] = images
    if calls:
        message["tool_calls"] = [write_call(call) for call in calls]
    if reply.citations:
        message["annotations"] = [chat_annotation(citation) for citation in reply.citations]
    return message


def _image_part(image: Image) -> JsonObject:
    """A picture of the model, in OpenRouter's shape."""
    return {"type": "image_url", "image_url": {"url": image_url(image)}}


class ChatWriter(StreamWriter):
    """Writes `chat.completion.chunk` events; the role comes with the first that says something.

    Until then nothing is written, so that another provider can still take over from one that fails.
    """

    def __init__(self, work: WorkRequest) -> None:
        super().__init__(work)
        self._id, self._model = f"chatcmpl-{work.id}", work.model
        self._head = b""
        self._tail = b',"usage":null}\n\n' if work.wants_usage else b"}\n\n"
        self._thoughts = self._images = self._citations = 0
        self._without_arguments: set[int] = set()

    def write(self, deltas: list[Delta]) -> bytes:
        return b"".join([WRITERS[type(delta)](self, delta) for delta in deltas])

    def end(self, usage: Usage | None) -> bytes:
        head = self._head or self._make_head()
        last = b""
        if self.work.wants_usage:
            body = dump_value(usage_body(usage)) if usage is not None else b"null"
            last = b'%b"choices":[],"usage":%b}\n\n' % (head, body)
        return last + b"data: [DONE]\n\n"

    def _answer_start(self, delta: AnswerStart) -> bytes:
        self._id, self._model = delta.id or self._id, delta.model or self._model
        return b""

    def _text(self, delta: TextDelta) -> bytes:
        return self._chunk({"content": delta.text})

    def _reasoning(self, delta: ReasoningDelta) -> bytes:
        begins = delta.begins or not self._thoughts
        self._thoughts += begins
        piece: JsonObject = {"reasoning_content": delta.text} if delta.text else {}
        detail = write_thought(delta, self._thoughts - 1)
        if not begins:
            del detail["format"]  # OpenAI's SDK joins what the pieces of one index say, field by field
        return self._chunk(piece | {"reasoning_details": [detail]})

    def _refusal(self, delta: RefusalDelta) -> bytes:
        return self._chunk({"refusal": delta.text})

    def _image(self, delta: ImageDelta) -> bytes:
        # OpenAI's SDK joins lists by the index of their items, and fails on a second piece without one.
        image = _image_part(delta.image) | {"index": self._images}
        self._images += 1
        return self._chunk({"images": [image]})

    def _citation(self, delta: Citation) -> bytes:
        annotation = chat_annotation(delta) | {"index": self._citations}  # for the same reason
        self._citations += 1
        return self._chunk({"annotations": [annotation]})

    def _call_start(self, delta: CallStart) -> bytes:
        self._without_arguments.add(delta.index)
        call = write_call(ToolCall(delta.id, delta.name, "", delta.signature), nothing="")
        return self._chunk({"tool_calls": [{"index": delta.index, **call}]})

    def _call_delta(self, delta: CallDelta) -> bytes:
        if delta.arguments:
            self._without_arguments.discard(delta.index)
        return self._chunk({"tool_calls": [{"index": delta.index, "function": {"arguments": delta.arguments}}]})

    def _answer_end(self, delta: AnswerEnd) -> bytes:
        # Clients parse the joined arguments, and an empty text is not JSON.
        empty = b"".join([self._call_delta(CallDelta(index, "{}")) for index in sorted(self._without_arguments)])
        return empty + self._chunk({}, finish_reason(delta.reason, delta.provider_reason))

    def _chunk(self, delta: JsonObject, reason: str | None = None) -> bytes:
        if not self._head:
            self._head = self._make_head()
            delta = {"role": "assistant"} | ({} if delta else {"content": ""}) | delta
        return b'%b"choices":[{"index":0,"delta":%b,"logprobs":null,"finish_reason":%b}]%b' % (
            self._head,
            dump_value(delta),
            b"null" if reason is None else dump_value(reason),
            self._tail,
        )

    def _make_head(self) -> bytes:
        """The beginning of all chunks, up to their choices."""
        about = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self.work.created,
            "model": self._model,
        }
        return b"data: " + dump_value(about)[:-1] + b","


WRITERS: dict[type, Callable[[ChatWriter, Any], bytes]] = {
    AnswerStart: ChatWriter._answer_start,
    TextDelta: ChatWriter._text,
    ReasoningDelta: ChatWriter._reasoning,
    RefusalDelta: ChatWriter._refusal,
    ImageDelta: ChatWriter._image,
    Citation: ChatWriter._citation,
    CallStart: ChatWriter._call_start,
    CallDelta: ChatWriter._call_delta,
    AnswerEnd: ChatWriter._answer_end,
}
