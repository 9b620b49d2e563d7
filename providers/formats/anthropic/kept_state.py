"""What Anthropic stores: threads, and containers in which code runs (anthropic-sdk-python 2.11, November 2026)."""

from collections.abc import Iterator

from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from providers.formats.json_values import as_dict, as_list, as_text
from providers.formats.kept_state import Kind, Reference

RUNS_CODE = "code_execution"


def references_in(body: JsonObject) -> Iterator[Reference]:
    """The ids in a request. Raises ValidationError for an invalid id."""
    previous = as_dict(body.get("thread")).get("previous_message_id")
    container = body.get("container")
    if isinstance(container, dict):
        container = container.get("id")
    if previous is not None:
        yield _reference(Kind.THREAD, previous, "thread.previous_message_id")
    if container is not None:
        yield _reference(Kind.CONTAINER, container, "container")


def keeps_state(body: JsonObject) -> bool:
    """Whether the answer has ids of what is kept for its user alone."""
    tools = (as_text(as_dict(tool).get("type")) for tool in as_list(body.get("tools")))
    has_state = body.get("thread") is not None or body.get("container") is not None
    return has_state or any(tool.startswith(RUNS_CODE) for tool in tools)


def ids_in(body: JsonObject, message: JsonObject) -> Iterator[str]:
    """The ids of what is kept, in an answer to this request: of the message in a thread, and of the container."""
    ids = [message.get("id")] if body.get("thread") is not None else []
    ids.append(as_dict(message.get("container")).get("id"))
    yield from (identifier for identifier in ids if isinstance(identifier, str) and identifier)


def _reference(kind: Kind, identifier: object, field: str) -> Reference:
    if not isinstance(identifier, str) or not identifier:
        raise ValidationError(f"{field} must be the id of what it refers to, a non-empty string.", field=field)
    return Reference(kind, identifier, field)
