"""A whole answer of Anthropic (Message) as a neutral reply: parts, citations, usage, finish reason."""

from gateway_project.errors import ProviderError
from gateway_project.json_types import JsonObject
from providers.formats.anthropic.request import NAME
from providers.formats.cited_blocks import WEB, CitedBlocks
from providers.formats.json_values import as_dict, as_list, as_text, dump_value
from providers.formats.neutral.messages import Part, Reasoning, Refusal, Text, ToolCall, Verbatim
from providers.formats.neutral.reply import Citation, FinishReason, Reply
from providers.formats.parts import normalise_reason
from providers.formats.usage import Usage, read_count

# The field that holds the address, by the type of citation.
ADDRESSES = {"web_search_result_location": "url", "search_result_location": "source"}
# Any other reason is reported as "other", never as "stop".
FINISH_REASONS = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "tool_use": FinishReason.TOOL,
    "refusal": FinishReason.FILTER,
    "pause_turn": FinishReason.PAUSE,
}
# Of usage.iterations: summaries of the conversation and answers of an advisor. The totals beside them leave these out.
LEFT_OUT = ("compaction", "advisor_message")


def read_reply(value: JsonObject) -> Reply:
    """The reply in an answer's body. Raises ProviderError for a body without one."""
    content = value.get("content")
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise ProviderError("The provider answered 200 without a message.")
    reason = value.get("stop_reason")
    reason = reason if isinstance(reason, str) else ""
    stop_sequence = value.get("stop_sequence")
    reply = Reply(
        finish_reason=normalise_reason(FINISH_REASONS, reason),
        provider_finish_reason=reason,
        usage=usage_of(value.get("usage")),
        id=as_text(value.get("id")),
        model=as_text(value.get("model")),
        stop_sequence=stop_sequence if isinstance(stop_sequence, str) else None,
    )
    blocks = CitedBlocks(reply.dropped_kinds.append)
    for block in content:
        reply.parts.append(part := read_part(block))
        if isinstance(part, Text):
            reply.citations += blocks.add_block(part.text, pages_of(block))
    if why := refusal_text(value, reason):
        reply.parts.append(Refusal(why))
    return reply


def refusal_text(stopped: JsonObject, reason: str) -> str:
    """Anthropic's explanation of a refusal; '' without a refusal or an explanation."""
    is_refusal = FINISH_REASONS.get(reason) is FinishReason.FILTER
    return as_text(as_dict(stopped.get("stop_details")).get("explanation")) if is_refusal else ""


def read_part(block: JsonObject) -> Part:
    """A block of an answer as a part; Verbatim for a type that the neutral form cannot express."""
    read = READERS.get(as_text(block.get("type")))
    return read(block) if read else Verbatim(block, NAME)


def _text(block: JsonObject) -> Part:
    return Text(as_text(block.get("text")))


def _thinking(block: JsonObject) -> Part:
    return Reasoning(as_text(block.get("thinking")), as_text(block.get("signature")), source=NAME)


def _redacted_thinking(block: JsonObject) -> Part:
    return Reasoning(data=as_text(block.get("data")), source=NAME)


def _call(block: JsonObject) -> Part:
    arguments = dump_value(as_dict(block.get("input"))).decode()
    return ToolCall(as_text(block.get("id")), as_text(block.get("name")), arguments)


READERS = {"text": _text, "thinking": _thinking, "redacted_thinking": _redacted_thinking, "tool_use": _call}


def pages_of(block: JsonObject) -> list[Citation | None]:
    """The citations of a block; None for one that is not of a web page."""
    return [cited_page(as_dict(location)) for location in as_list(block.get("citations"))]


def cited_page(location: JsonObject) -> Citation | None:
    """The web page of a citation; None for a citation of a document."""
    url = as_text(location.get(ADDRESSES.get(as_text(location.get("type")), "")))
    page = Citation(url, as_text(location.get("title")), as_text(location.get("cited_text")))
    return page if url.startswith(WEB) else None


def usage_of(value: object) -> Usage | None:
    """Usage in disjoint buckets, as Anthropic counts it: `input_tokens` leave out the cache."""
    if not isinstance(value, dict):
        return None
    input_tokens, output = _total(value, "input_tokens"), _total(value, "output_tokens")
    if input_tokens is None and output is None:
        return None
    return Usage(
        input_tokens,
        _total(value, "cache_read_input_tokens"),
        _total(value, "cache_creation_input_tokens"),
        output,
        read_count(as_dict(value.get("output_tokens_details")).get("thinking_tokens")),
        _total(value, "ephemeral_1h_input_tokens", "cache_creation"),
    )


def _total(usage: JsonObject, name: str, member: str = "") -> int | None:
    """A count with those of the iterations that it leaves out; None if nothing reports it.

    `member` is the object in which it stands, in the usage and in each iteration.
    """
    iterations = [one for one in as_list(usage.get("iterations")) if as_dict(one).get("type") in LEFT_OUT]
    places = [as_dict(one.get(member)) if member else one for one in (usage, *iterations)]
    counts = [tokens for place in places if (tokens := read_count(place.get(name))) is not None]
    return sum(counts) if counts else None
