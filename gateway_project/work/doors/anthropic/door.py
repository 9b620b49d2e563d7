"""Anthropic's door: errors, listings, and where the key is (anthropic-sdk-python 2.11, November 2026)."""

import re
from collections.abc import Iterable
from urllib.parse import parse_qs
from wsgiref.types import WSGIEnvironment

from gateway_project.errors import GatewayError, ProviderOverloaded, ProviderRejected, ValidationError
from gateway_project.json_types import JsonObject
from gateway_project.server.http_delivery import Delivery
from gateway_project.work.doors.base import ClientDoor, Model
from providers.formats.json_values import dump_value

OVERLOADED = 529
# Any other status below 500 is an invalid request, any other one from 500 on an API error.
TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    OVERLOADED: "overloaded_error",
}
TOO_LONG = "prompt is too long"  # by these words its clients know that they have to shorten the conversation
BEGINNING = "1970-01-01T00:00:00Z"
PAGE, LONGEST_PAGE = 20, 1000
LIMIT = re.compile(r"[0-9]{1,9}")


class AnthropicDoor(ClientDoor):
    """Keys are in `x-api-key` or bearer tokens; an error is `{"type": "error", "error": {type, message}}`."""

    ecosystem = "Anthropic"
    api = "Anthropic-compatible API"
    request_id_header = "request-id"

    def credential(self, headers: WSGIEnvironment) -> str:
        key: str = headers.get("HTTP_X_API_KEY", "")
        return super().credential(headers) or key

    def error_body(self, error: GatewayError, request_id: str) -> JsonObject:
        return error_body(error, request_id)

    def refusal(self, error: GatewayError, request_id: str, attempts: int = 0) -> Delivery:
        delivery = super().refusal(error, request_id, attempts)
        delivery.status = status_of(error)
        return delivery

    def list_models(self, models: Iterable[Model], query: str) -> JsonObject:
        """One page, as `limit`, `after_id` and `before_id` of the query say."""
        all_models, limit = list(models), _limit(query)
        begin, end = _span([model.name for model in all_models], limit, parse_qs(query))
        page = all_models[begin:end]
        return {
            "data": [self.model(model) for model in page],
            "has_more": begin > 0 if "before_id" in parse_qs(query) else end < len(all_models),
            "first_id": page[0].name if page else None,
            "last_id": page[-1].name if page else None,
        }

    def model(self, model: Model) -> JsonObject:
        about = {"id": model.name, "type": "model", "display_name": model.name}
        bounds = {"max_input_tokens": model.facts.context_length, "max_tokens": model.facts.max_output_tokens}
        limits = {name: value for name, value in bounds.items() if value}
        return about | {"created_at": BEGINNING, "lifecycle": "active"} | limits | model.describe_facts()


def error_body(error: GatewayError, request_id: str) -> JsonObject:
    """An error as Anthropic writes it."""
    status = status_of(error)
    kind = TYPES.get(status) or ("invalid_request_error" if status < 500 else "api_error")
    details: JsonObject = {"type": kind, "message": _message(error)}
    if error.reason:
        details["details"] = {"error_code": error.reason}
    return {"type": "error", "error": details, "request_id": request_id}


def _message(error: GatewayError) -> str:
    """The message; for a conversation that is too long, with the words that Anthropic's clients look for."""
    phrase = error.context_length_phrase if isinstance(error, ProviderRejected) else ""
    return f"{TOO_LONG}: {error.message}" if phrase not in ("", TOO_LONG) else error.message


def error_event(error: GatewayError, request_id: str) -> bytes:
    """The same in the middle of a stream: the SDKs raise on it."""
    return b"event: error\ndata: " + dump_value(error_body(error, request_id)) + b"\n\n"


def status_of(error: GatewayError) -> int:
    """The error's status; for an overloaded provider the one that only Anthropic uses."""
    return OVERLOADED if isinstance(error, ProviderOverloaded) and error.code == 503 else error.code


def _limit(query: str) -> int:
    limit = parse_qs(query).get("limit", [str(PAGE)])[-1]
    if not LIMIT.fullmatch(limit) or not 1 <= int(limit) <= LONGEST_PAGE:
        raise ValidationError(f"limit must be a whole number from 1 to {LONGEST_PAGE}.", field="limit")
    return int(limit)


def _span(names: list[str], limit: int, parameters: dict[str, list[str]]) -> tuple[int, int]:
    """Where the page begins and ends: before or after the name that the client sent, if it exists."""
    before, after = parameters.get("before_id", [""])[-1], parameters.get("after_id", [""])[-1]
    if before:
        end = names.index(before) if before in names else len(names)
        return max(end - limit, 0), end
    begin = names.index(after) + 1 if after in names else 0
    return begin, begin + limit
