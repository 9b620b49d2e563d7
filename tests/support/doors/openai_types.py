"""OpenAI's own types, as its SDK has them; loaded by the tests that need them and not by all that are collected."""

from functools import cache
from typing import Any


def validated_event(event: object) -> Any:
    """An event of a stream of the Responses API. Raises pydantic's ValidationError."""
    return _event_adapter().validate_python(event)


def validate_response(response: object) -> None:
    """An answer of the Responses API. Raises pydantic's ValidationError."""
    from openai.types.responses import Response

    Response.model_validate(response)


@cache
def _event_adapter() -> Any:
    from openai.types.responses import ResponseStreamEvent
    from pydantic import TypeAdapter

    return TypeAdapter(ResponseStreamEvent)
