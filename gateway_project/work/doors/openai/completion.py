"""OpenAI's text completions as clients write them: one prompt is read as a chat with one message."""

from gateway_project.errors import GatewayError
from gateway_project.json_types import JsonObject
from gateway_project.work.doors import fields
from gateway_project.work.doors.fields import invalid_field
from gateway_project.work.doors.openai.chat import PARAMETERS
from gateway_project.work.doors.openai.chat_response import finish_reason, usage_body
from gateway_project.work.doors.openai.door import error_event
from providers.formats.dialect import Dialect, StreamWriter, WorkRequest
from providers.formats.json_values import dump_value
from providers.formats.neutral.chat import Chat
from providers.formats.neutral.deltas import AnswerEnd, AnswerStart, Delta, TextDelta
from providers.formats.neutral.messages import Message, Text
from providers.formats.neutral.reply import Reply
from providers.formats.openai.stream import stream_text
from providers.formats.usage import Usage

READ = frozenset({"model", "prompt", "stream", "stream_options", *PARAMETERS})


class OpenAICompletion(Dialect):
    """`POST /completions`, and what /work reads as a completion."""

    name = "openai-completion"
    output_bounds = ("max_tokens",)

    def read_chat(self, body: JsonObject) -> Chat:
        chat = Chat([Message("user", [Text(_prompt(body.get("prompt")))])], source=self.name)
        fields.read_parameters(chat, body, PARAMETERS)
        chat.extra = fields.unknown_parameters(body, READ)
        return chat

    def write_reply(self, work: WorkRequest, reply: Reply) -> bytes:
        reason = finish_reason(reply.finish_reason, reply.provider_finish_reason)
        body = _envelope(work, reply.id, reply.model) | {"choices": [_choice(reply.text, reason)]}
        if reply.usage is not None:
            body["usage"] = usage_body(reply.usage)
        return dump_value(body)

    def writer(self, work: WorkRequest) -> StreamWriter:
        return CompletionWriter(work)

    def text(self, events: bytes) -> str:
        return stream_text(events)

    def error_event(self, work: WorkRequest, error: GatewayError) -> bytes:
        return error_event(error)


class CompletionWriter(StreamWriter):
    """Writes `text_completion` events; they hold text alone."""

    def __init__(self, work: WorkRequest) -> None:
        super().__init__(work)
        self._about = _envelope(work, "", "")

    def write(self, deltas: list[Delta]) -> bytes:
        return b"".join([self._event(delta) for delta in deltas])

    def end(self, usage: Usage | None) -> bytes:
        last = b""
        if self.work.wants_usage:
            last = _data(self._about | {"choices": [], "usage": usage_body(usage) if usage is not None else None})
        return last + b"data: [DONE]\n\n"

    def _event(self, delta: Delta) -> bytes:
        if isinstance(delta, AnswerStart):
            self._about = _envelope(self.work, delta.id, delta.model)
        elif isinstance(delta, TextDelta):
            return self._chunk(_choice(delta.text, None))
        elif isinstance(delta, AnswerEnd):
            return self._chunk(_choice("", finish_reason(delta.reason, delta.provider_reason)))
        return b""

    def _chunk(self, choice: JsonObject) -> bytes:
        usage = {"usage": None} if self.work.wants_usage else {}
        return _data(self._about | {"choices": [choice]} | usage)


def _prompt(value: object) -> str:
    if type(value) is list and len(value) == 1:
        value = value[0]
    if type(value) is not str:
        raise invalid_field("prompt", "one string: this provider does not take several prompts or token ids")
    return value


def _envelope(work: WorkRequest, reply_id: str, model: str) -> JsonObject:
    return {
        "id": reply_id or f"cmpl-{work.id}",
        "object": "text_completion",
        "created": work.created,
        "model": model or work.model,
    }


def _choice(text: str, reason: str | None) -> JsonObject:
    return {"text": text, "index": 0, "logprobs": None, "finish_reason": reason}


def _data(value: JsonObject) -> bytes:
    return b"data: " + dump_value(value) + b"\n\n"
