"""What OpenAI keeps of responses: its ids in requests and responses (openai-python 3.52, November 2026)."""

from collections.abc import Iterator

from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from providers.formats.json_values import as_dict, as_list
from providers.formats.kept_state import Kind, Reference

READ_HERE = frozenset({"previous_response_id", "conversation", "input", "tools", "store", "prompt"})
# Items that are complete without what the provider keeps under their id.
INLINE = {
    "message": "content",
    "function_call": "arguments",
    "function_call_output": "output",
    "custom_tool_call": "input",
    "custom_tool_call_output": "output",
}
# Items that need one of these fields, unless the provider keeps them.
CONTENT_FIELDS = {"reasoning": ("encrypted_content", "content"), "image_generation_call": ("result",)}
ITEM_REFERENCE = "item_reference"


def references_in(body: JsonObject) -> tuple[Reference, ...]:
    """The ids in a request. Raises ValidationError for an invalid id, and for a field with an ambiguous name."""
    for name in body:
        if name not in READ_HERE and name.casefold() in READ_HERE:
            text = f"The field {name} differs from {name.casefold()} only in upper and lower case."
            raise ValidationError(text, field=name)
    return (*_conversations(body), *_items(body), *_containers(body))


def names_item(item: JsonObject) -> bool:
    """Whether an item of the input means nothing without what the provider keeps under its id."""
    return item.get("id") is not None and _kind_of(item) is Kind.ITEM


def keeps_state(body: JsonObject) -> bool:
    """Whether the provider keeps the response (default: yes)."""
    return body.get("store") is not False or body.get("conversation") is not None


def ids_in(response: JsonObject) -> Iterator[str]:
    """The ids of a response, of its items and of the containers that its code ran in."""
    yield from _texts(response.get("id"))
    for item in as_list(response.get("output")):
        yield from ids_of_item(as_dict(item))


def ids_of_item(item: JsonObject) -> Iterator[str]:
    """The ids of one item of a response and of its container."""
    environment = as_dict(item.get("environment"))
    yield from _texts(item.get("id"), item.get("container_id"), environment.get("container_id"))


def _texts(*values: object) -> Iterator[str]:
    yield from (value for value in values if isinstance(value, str) and value)


def _conversations(body: JsonObject) -> Iterator[Reference]:
    if (previous := body.get("previous_response_id")) is not None:
        yield _reference(Kind.RESPONSE, previous, "previous_response_id")
    if (conversation := body.get("conversation")) is not None:
        identifier = conversation.get("id") if isinstance(conversation, dict) else conversation
        yield _reference(Kind.CONVERSATION, identifier, "conversation")
    if (prompt := body.get("prompt")) is not None:
        yield _reference(Kind.PROMPT, as_dict(prompt).get("id"), "prompt.id")


def _items(body: JsonObject) -> Iterator[Reference]:
    for number, value in enumerate(as_list(body.get("input"))):
        item = as_dict(value)
        if (identifier := item.get("id")) is not None and (kind := _kind_of(item)) is not None:
            yield _reference(kind, identifier, f"input[{number}].id")
        if (container := item.get("container_id")) is not None:
            yield _reference(Kind.CONTAINER, container, f"input[{number}].container_id")


def _kind_of(item: JsonObject) -> Kind | None:
    """What the id of an item refers to; None if the provider keeps nothing under it."""
    name = item.get("type") or ("message" if "role" in item else ITEM_REFERENCE)  # its type may be left out
    if name == ITEM_REFERENCE:
        return Kind.ITEM
    if item.get(INLINE.get(name, "")) is not None:
        return None
    return Kind.RESENT_ITEM if name not in CONTENT_FIELDS or any(map(item.get, CONTENT_FIELDS[name])) else Kind.ITEM


def _containers(body: JsonObject) -> Iterator[Reference]:
    for number, value in enumerate(as_list(body.get("tools"))):
        tool = as_dict(value)
        if isinstance(container := tool.get("container"), str):  # an object asks for a new one
            yield _reference(Kind.CONTAINER, container, f"tools[{number}].container")
        if (container := as_dict(tool.get("environment")).get("container_id")) is not None:
            yield _reference(Kind.CONTAINER, container, f"tools[{number}].environment.container_id")


def _reference(kind: Kind, identifier: object, field: str) -> Reference:
    if not isinstance(identifier, str) or not identifier:
        raise ValidationError(f"{field} must be the id of what it refers to, a non-empty string.", field=field)
    return Reference(kind, identifier, field)
