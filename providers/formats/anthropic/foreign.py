"""Thoughts and citations of other models, in Anthropic's shape.

The client sends them back with its next request. A mark names the format that made them. Only that one gets them back.
"""

from gateway_project.json_types import JsonObject
from providers.formats.anthropic.request import NAME
from providers.formats.json_values import as_dict, as_list, as_text
from providers.formats.neutral.reply import Citation

# Begins a marked signature. Anthropic's own signatures contain no colon.
FOREIGN = "gateway:"


def without_foreign(message: object) -> object:
    """The turn without thoughts and citations of other models, which Anthropic refuses; None if nothing is left."""
    turn = as_dict(message)
    content = turn.get("content")
    if not isinstance(content, list):
        return message
    own = [rest for block in content if (rest := _without_foreign(block)) is not None]
    return {**turn, "content": own} if own else None


def _without_foreign(block: object) -> object:
    fields = as_dict(block)
    locations = as_list(fields.get("citations"))
    if _is_foreign(fields):
        return None
    own = [location for location in locations if as_dict(location).get("encrypted_index") != FOREIGN]
    if len(own) == len(locations):
        return block
    return {**fields, "citations": own or None} if fields.get("text") else None


def _is_foreign(block: JsonObject) -> bool:
    field = {"thinking": "signature", "redacted_thinking": "data"}.get(as_text(block.get("type")), "")
    return as_text(block.get(field)).startswith(FOREIGN)


def foreign_citation(citation: Citation) -> JsonObject:
    """A citation of another provider's answer, in the shape in which Anthropic cites a web page."""
    about = {"type": "web_search_result_location", "url": citation.url, "title": citation.title or None}
    return about | {"cited_text": citation.quote, "encrypted_index": FOREIGN}


def mark_signature(source: str, signature: str) -> str:
    """The signature with a mark of the format that made it; Anthropic's own stays as it is."""
    return signature if source == NAME else f"{FOREIGN}{source}:{signature}"


def read_signature(text: str) -> tuple[str, str]:
    """The format that made a signature, and its own text: the reverse of mark_signature()."""
    if not text.startswith(FOREIGN):
        return NAME, text
    source, _, signature = text.removeprefix(FOREIGN).partition(":")
    return source, signature
