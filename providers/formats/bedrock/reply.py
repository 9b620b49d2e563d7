"""A whole answer of Converse (ConverseResponse) as a neutral reply: parts, citations, usage, finish reason."""

from gateway_project.errors import ProviderError
from gateway_project.json_types import JsonObject
from providers.formats.bedrock.request import NAME
from providers.formats.cited_blocks import WEB, CitedBlocks
from providers.formats.json_values import as_dict, as_list, as_text, dump_value
from providers.formats.neutral.messages import Image, Part, Reasoning, Text, ToolCall, Verbatim
from providers.formats.neutral.reply import Citation, FinishReason, Reply
from providers.formats.parts import normalise_reason, text_of
from providers.formats.usage import Usage, read_count

FINISH_REASONS = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "tool_use": FinishReason.TOOL,
    "guardrail_intervened": FinishReason.FILTER,
    "content_filtered": FinishReason.FILTER,
    "malformed_model_output": FinishReason.ERROR,
    "malformed_tool_use": FinishReason.ERROR,
}


def read_reply(value: JsonObject) -> Reply:
    """The reply in an answer's body. Raises ProviderError for a body without one."""
    message = as_dict(value.get("output")).get("message")
    if not isinstance(message, dict):
        raise ProviderError("The provider answered 200 without a message.")
    reason = as_text(value.get("stopReason"))
    reply = Reply([], normalise_reason(FINISH_REASONS, reason), reason, usage_of(value.get("usage")))
    blocks = CitedBlocks(reply.dropped_kinds.append)
    for block in map(as_dict, as_list(message.get("content"))):
        reply.parts += (parts := _read_part(block))
        reply.citations += blocks.add_block(text_of(parts), _pages_of(as_dict(block.get("citationsContent"))))
    return reply


def usage_of(value: object) -> Usage | None:
    """Usage in disjoint buckets. Bedrock counts cached input separately. If the total shows that the input includes
    it, it is subtracted."""
    usage = as_dict(value)
    prompt, output = read_count(usage.get("inputTokens")), read_count(usage.get("outputTokens"))
    if prompt is None and output is None:
        return None
    read, write = read_count(usage.get("cacheReadInputTokens")), read_count(usage.get("cacheWriteInputTokens"))
    cached = (read or 0) + (write or 0)
    if prompt is not None and cached and usage.get("totalTokens") == prompt + (output or 0):
        if cached > prompt:  # the parts exceed the whole: believe the whole
            return Usage(prompt, output=output)
        prompt -= cached
    return Usage(prompt, read, write, output, cache_write_hour=_hour_tokens(usage))


def _hour_tokens(usage: JsonObject) -> int | None:
    """The tokens that were written into the cache for an hour (TokenUsage.cacheDetails)."""
    details = [detail for detail in map(as_dict, as_list(usage.get("cacheDetails"))) if detail.get("ttl") == "1h"]
    return sum(read_count(detail.get("inputTokens")) or 0 for detail in details) if details else None


def _read_part(block: JsonObject) -> list[Part]:
    if isinstance(text := block.get("text"), str):
        return [Text(text)]
    if call := as_dict(block.get("toolUse")):
        arguments = dump_value(as_dict(call.get("input"))).decode()
        return [ToolCall(as_text(call.get("toolUseId")), as_text(call.get("name")), arguments)]
    if thought := as_dict(block.get("reasoningContent")):
        return [_read_thought(thought)]
    if cited := as_dict(block.get("citationsContent")):
        return [Text(as_text(as_dict(piece).get("text"))) for piece in as_list(cited.get("content"))]
    if image := as_dict(block.get("image")):
        data = as_text(as_dict(image.get("source")).get("bytes"))
        return [Image(data=data, media_type=f"image/{as_text(image.get('format'))}")]
    return [Verbatim(block, NAME)]


def _pages_of(cited: JsonObject) -> list[Citation | None]:
    return [cited_page(as_dict(place)) for place in as_list(cited.get("citations"))]


def cited_page(place: JsonObject) -> Citation | None:
    """The web page of a citation; None for a citation of a document."""
    addresses = as_text(as_dict(as_dict(place.get("location")).get("web")).get("url")), as_text(place.get("source"))
    url = next((address for address in addresses if address.startswith(WEB)), "")
    quote = "".join(as_text(as_dict(piece).get("text")) for piece in as_list(place.get("sourceContent")))
    return Citation(url, as_text(place.get("title")), quote) if url else None


def _read_thought(thought: JsonObject) -> Reasoning:
    text = as_dict(thought.get("reasoningText"))
    data = as_text(thought.get("redactedContent"))
    return Reasoning(as_text(text.get("text")), as_text(text.get("signature")), data, NAME)
