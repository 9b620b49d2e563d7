"""A whole answer of Mistral as a neutral reply: parts, finish reason. The usage has OpenAI's shape."""

from gateway_project.errors import ProviderError
from gateway_project.json_types import JsonObject
from providers.formats.json_values import as_dict, as_list, as_text
from providers.formats.mistral.request import NAME
from providers.formats.neutral.messages import Part, Reasoning, Text, ToolCall, Verbatim
from providers.formats.neutral.reply import FinishReason, Reply
from providers.formats.openai.reply import usage_of
from providers.formats.parts import normalise_reason, read_function_call

FINISH_REASONS = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL,
    "error": FinishReason.ERROR,
}


def read_reply(value: JsonObject) -> Reply:
    """The reply in an answer's body. Raises ProviderError for a body without one."""
    choices = as_list(value.get("choices"))
    choice = as_dict(choices[0]) if choices else {}
    messages = _assistant_messages(choice)
    if not messages:
        raise ProviderError("The provider answered 200 without a message.")
    reply = Reply(id=as_text(value.get("id")), model=as_text(value.get("model")))
    reply.usage = usage_of(value.get("usage"))
    reply.parts = [part for message in messages for part in read_content(message.get("content"))]
    calls = [call for call in as_list(messages[-1].get("tool_calls")) if isinstance(call, dict)]
    reply.parts += [tool_call(call, reply.id, number) for number, call in enumerate(calls)]
    reply.provider_finish_reason = as_text(choice.get("finish_reason"))
    reply.finish_reason = normalise_reason(FINISH_REASONS, reply.provider_finish_reason)
    return reply


def _assistant_messages(choice: JsonObject) -> list[JsonObject]:
    """The assistant's message; several if Mistral ran its own tools between them."""
    if isinstance(message := choice.get("message"), dict):
        return [message]
    messages = [as_dict(message) for message in as_list(choice.get("messages"))]
    return [message for message in messages if message.get("role") == "assistant"]


def read_content(content: object) -> list[Part]:
    """The parts of a message's content: a text or a list of chunks."""
    if isinstance(content, str):
        return [Text(content)] if content else []
    return [_read_chunk(chunk) for chunk in as_list(content) if isinstance(chunk, dict)]


def _read_chunk(chunk: JsonObject) -> Part:
    if chunk.get("type") == "text":
        return Text(as_text(chunk.get("text")))
    if chunk.get("type") == "thinking":
        pieces = as_list(chunk.get("thinking"))
        text = "".join(as_text(as_dict(piece).get("text")) for piece in pieces)
        return Reasoning(text, as_text(chunk.get("signature")), source=NAME)
    return Verbatim(chunk, NAME)


def call_id_of(call: JsonObject) -> str:
    """The id of a call; '' for none, which Mistral writes as "null"."""
    call_id = as_text(call.get("id"))
    return "" if call_id == "null" else call_id


def tool_call(call: JsonObject, reply_id: str, number: int) -> ToolCall:
    """A tool call; one without an id gets the same id each time that this answer is read."""
    return read_function_call(call, call_id_of(call), reply_id, str(number))
