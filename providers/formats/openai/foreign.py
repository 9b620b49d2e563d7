"""Thoughts of other providers' models, which the gateway wrote into answers in OpenAI's shapes.

The client sends them back with its next request. OpenAI and servers like it refuse them.
"""

from gateway_project.json_types import JsonObject
from providers.formats.json_values import as_dict, as_list, as_text

# Begins the gateway's own `encrypted_content` in Responses.
SEAL = "svc1."
SEAL_SPELLING = b'"' + SEAL.encode()
DETAILS = "reasoning_details"
DETAILS_SPELLING = DETAILS.encode()
# The formats whose thoughts are written into chats. Servers of OpenAI's shape use other names.
FOREIGN = frozenset({"anthropic", "bedrock", "cohere", "gemini", "mistral", "ollama"})


def without_foreign(messages: object) -> object:
    """The messages of a chat without these thoughts."""
    return [_without_foreign_members(message) for message in messages] if isinstance(messages, list) else messages


def _without_foreign_members(message: object) -> object:
    fields = as_dict(message)
    formats = (as_text(as_dict(detail).get("format")) for detail in as_list(fields.get(DETAILS)))
    if FOREIGN.isdisjoint(formats):
        return message
    return {name: value for name, value in fields.items() if name not in (DETAILS, "reasoning_content")}


def without_sealed(items: object) -> object:
    """The input of Responses without these thoughts."""
    return [item for item in items if not _is_sealed(as_dict(item))] if isinstance(items, list) else items


def _is_sealed(item: JsonObject) -> bool:
    return item.get("type") == "reasoning" and as_text(item.get("encrypted_content")).startswith(SEAL)
