"""What Anthropic's messages consist of, read into neutral parts; the tables that both directions need."""

from gateway_project.json_types import JsonObject
from providers.formats.cited_blocks import WEB
from providers.formats.json_values import as_dict, as_list, as_text, dumped
from providers.formats.neutral import Citation, Part, Reasoning, Text, ToolCall, Verbatim
from providers.formats.usage import Usage, count

SOURCE = "anthropic"
SHAPE = "anthropic-messages"  # the dialect of its clients
# A thought of somebody else's, as its proof stands in Anthropic's shape: no signature of Anthropic's has a colon.
FOREIGN = "gateway:"
# Which field of a citation holds the address of what is cited.
ADDRESSES = {"web_search_result_location": "url", "search_result_location": "source"}
# What is not in the table is reported as "other", never as "stop".
FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool",
    "refusal": "filter",
    "pause_turn": "pause",
}


def read_part(block: JsonObject) -> Part:
    """A block of an answer; one that no other shape knows goes through as it is."""
    read = READERS.get(as_text(block.get("type")))
    return read(block) if read else Verbatim(block, SOURCE)


def _text(block: JsonObject) -> Part:
    return Text(as_text(block.get("text")))


def _thinking(block: JsonObject) -> Part:
    return Reasoning(as_text(block.get("thinking")), as_text(block.get("signature")), source=SOURCE)


def _redacted(block: JsonObject) -> Part:
    return Reasoning(data=as_text(block.get("data")), source=SOURCE)


def _call(block: JsonObject) -> Part:
    arguments = dumped(as_dict(block.get("input"))).decode()
    return ToolCall(as_text(block.get("id")), as_text(block.get("name")), arguments)


READERS = {"text": _text, "thinking": _thinking, "redacted_thinking": _redacted, "tool_use": _call}


def pages_of(block: JsonObject) -> list[Citation | None]:
    """What a block cites."""
    return [cited(as_dict(location)) for location in as_list(block.get("citations"))]


def cited(location: JsonObject) -> Citation | None:
    """The page that a citation names; None for a place in a document."""
    url = as_text(location.get(ADDRESSES.get(as_text(location.get("type")), "")))
    page = Citation(url, as_text(location.get("title")), as_text(location.get("cited_text")))
    return page if url.startswith(WEB) else None


def citing(citation: Citation) -> JsonObject:
    """A page that the answer of another provider rests on, as a citation of a block that says so."""
    about = {"type": "web_search_result_location", "url": citation.url, "title": citation.title or None}
    return about | {"cited_text": citation.quote, "encrypted_index": FOREIGN}


def usage_of(value: object) -> Usage | None:
    """Usage in disjoint buckets, which Anthropic's own counts are: its input is what no cache had a part in."""
    if not isinstance(value, dict):
        return None
    input_tokens, output = count(value.get("input_tokens")), count(value.get("output_tokens"))
    if input_tokens is None and output is None:
        return None
    return Usage(
        input_tokens,
        count(value.get("cache_read_input_tokens")),
        count(value.get("cache_creation_input_tokens")),
        output,
        count(as_dict(value.get("output_tokens_details")).get("thinking_tokens")),
    )


def sealed(source: str, proof: str) -> str:
    """A signature that says whose it is, unless it is Anthropic's own: it comes back, and leads to its maker."""
    return proof if source == SOURCE else f"{FOREIGN}{source}:{proof}"


def opened(text: str) -> tuple[str, str]:
    """Source and proof out of what sealed() made."""
    if not text.startswith(FOREIGN):
        return SOURCE, text
    source, _, proof = text.removeprefix(FOREIGN).partition(":")
    return source, proof
