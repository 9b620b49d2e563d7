"""A whole answer of Ollama as a neutral reply: parts, usage, finish reason."""

from gateway_project.errors import ProviderError
from gateway_project.json_types import JsonObject
from providers.formats.json_values import as_list, as_text
from providers.formats.neutral.messages import Reasoning, Text, ToolCall
from providers.formats.neutral.reply import FinishReason, Reply
from providers.formats.ollama.request import NAME
from providers.formats.parts import normalise_reason, read_function_call
from providers.formats.usage import Usage, count_or_zero, read_count

FINISH_REASONS = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH, "load": FinishReason.PAUSE}


def read_reply(value: JsonObject) -> Reply:
    """The reply in an answer's body. Raises ProviderError for a body without one."""
    message = value.get("message")
    if not isinstance(message, dict):
        raise ProviderError("The provider answered 200 without a message.")
    reply = Reply(model=as_text(value.get("model")), usage=usage_of(value))
    if thought := as_text(message.get("thinking")):
        reply.parts.append(Reasoning(thought, source=NAME))
    if text := as_text(message.get("content")):
        reply.parts.append(Text(text))
    calls = [tool_call(call, value, number) for number, call in enumerate(calls_of(message))]
    reply.parts += calls
    reply.provider_finish_reason = as_text(value.get("done_reason"))
    reply.finish_reason = normalise_reason(FINISH_REASONS, reply.provider_finish_reason, called=bool(calls))
    return reply


def usage_of(value: JsonObject) -> Usage | None:
    """The usage. `prompt_eval_count` leaves out tokens in the server's cache, and is missing if it is 0."""
    prompt, output = read_count(value.get("prompt_eval_count")), read_count(value.get("eval_count"))
    if prompt is None and output is None:
        return None
    return Usage(count_or_zero(value.get("prompt_eval_count")), output=output)


def calls_of(message: JsonObject) -> list[JsonObject]:
    """The tool calls of a message."""
    calls = as_list(message.get("tool_calls"))
    return [call for call in calls if isinstance(call, dict) and isinstance(call.get("function"), dict)]


def tool_call(call: JsonObject, value: JsonObject, number: int) -> ToolCall:
    """A tool call; one without an id gets the same id each time that this answer is read."""
    return read_function_call(call, as_text(call.get("id")), as_text(value.get("created_at")), str(number))
