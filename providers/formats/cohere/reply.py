"""A whole answer of Cohere as a neutral reply: parts, usage, finish reason."""

from gateway_project.errors import ProviderError
from gateway_project.json_types import JsonObject
from providers.formats.cohere.request import NAME
from providers.formats.json_values import as_dict, as_list, as_text
from providers.formats.neutral.messages import Part, Reasoning, Text, ToolCall, Verbatim
from providers.formats.neutral.reply import FinishReason, Reply
from providers.formats.parts import normalise_reason, read_function_call
from providers.formats.usage import Usage, read_count

FINISH_REASONS = {
    "COMPLETE": FinishReason.STOP,
    "STOP_SEQUENCE": FinishReason.STOP,
    "MAX_TOKENS": FinishReason.LENGTH,
    "TOOL_CALL": FinishReason.TOOL,
    "ERROR": FinishReason.ERROR,
    "TIMEOUT": FinishReason.ERROR,
}


def read_reply(value: JsonObject) -> Reply:
    """The reply in an answer's body. Raises ProviderError for a body without one."""
    message = value.get("message")
    if not isinstance(message, dict):
        raise ProviderError("The provider answered 200 without a message.")
    reply = Reply(id=as_text(value.get("id")), usage=usage_of(value.get("usage")))
    if plan := as_text(message.get("tool_plan")):
        reply.parts.append(Reasoning(plan, source=NAME))
    reply.parts += _read_items(message.get("content"))
    reply.parts += [tool_call(call, reply.id, n) for n, call in enumerate(_objects(message.get("tool_calls")))]
    if citations := message.get("citations"):
        reply.parts.append(Verbatim({"citations": citations}, NAME))
    reply.provider_finish_reason = as_text(value.get("finish_reason"))
    reply.finish_reason = normalise_reason(FINISH_REASONS, reply.provider_finish_reason)
    return reply


def usage_of(value: object) -> Usage | None:
    """The tokens that the model processed. `billed_units` are fewer: they leave out Cohere's own preamble."""
    usage = as_dict(value)
    tokens = as_dict(usage.get("tokens"))
    prompt, output = token_count(tokens.get("input_tokens")), token_count(tokens.get("output_tokens"))
    if prompt is None and output is None:
        return None
    cached = token_count(usage.get("cached_tokens"))
    if cached is not None and prompt is not None:
        cached = None if cached > prompt else cached  # the part exceeds the whole: believe the whole
        prompt -= cached or 0
    return Usage(prompt, cached, None, output)


def token_count(value: object) -> int | None:
    """A number of tokens, which is a float in Cohere's API description."""
    return read_count(int(value) if isinstance(value, float) and value.is_integer() else value)


def _objects(value: object) -> list[JsonObject]:
    return [item for item in as_list(value) if isinstance(item, dict)]


def _read_items(items: object) -> list[Part]:
    return [
        Reasoning(as_text(item.get("thinking")), source=NAME)
        if item.get("type") == "thinking"
        else Text(as_text(item.get("text")))
        for item in _objects(items)
    ]


def tool_call(call: JsonObject, reply_id: str, number: int) -> ToolCall:
    """A tool call; one without an id gets the same id each time that this answer is read."""
    return read_function_call(call, as_text(call.get("id")), reply_id, str(number))
