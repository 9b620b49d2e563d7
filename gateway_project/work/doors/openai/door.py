"""OpenAI's door: errors, listings, and where the key is (openai-openapi and openai-python, August 2026)."""

import re
from collections.abc import Iterable
from wsgiref.types import WSGIEnvironment

from gateway_project.errors import GatewayError
from gateway_project.json_types import JsonObject
from gateway_project.work.doors.base import ClientDoor, Model
from providers.formats.json_values import dump_value

# Codes that clients know; the code of any other error is its name.
CODES = {
    "AuthenticationFailed": "invalid_api_key",
    "RateLimited": "rate_limit_exceeded",
    "QuotaExceeded": "insufficient_quota",
    "ProviderOverloaded": "rate_limit_exceeded",
    "ProviderNotSelected": "model_not_found",
}
WORD_BEGINS = re.compile(r"(?<=[a-z])(?=[A-Z])")


class OpenAIDoor(ClientDoor):
    """Keys are bearer tokens; an error is `{"error": {message, type, param, code}}`."""

    ecosystem = "OpenAI"
    api = "OpenAI-compatible API"
    request_id_header = "x-request-id"

    def error_body(self, error: GatewayError, request_id: str) -> JsonObject:
        return error_body(error)

    def list_models(self, models: Iterable[Model], query: str) -> JsonObject:
        return {"object": "list", "data": [self.model(model) for model in models]}

    def model(self, model: Model) -> JsonObject:
        about = {"id": model.name, "object": "model", "created": 0, "owned_by": model.provider}
        return about | model.describe_facts()


class AzureDoor(OpenAIDoor):
    """The same for clients of Azure OpenAI, whose keys are in the header `api-key`."""

    ecosystem = "Azure OpenAI"

    def credential(self, headers: WSGIEnvironment) -> str:
        key: str = headers.get("HTTP_API_KEY", "")
        return super().credential(headers) or key


def error_body(error: GatewayError) -> JsonObject:
    """An error as OpenAI writes it; it keeps the provider's own code, since clients act upon it."""
    code = error.reason or code_of(error)
    return {"error": {"message": error.message, "type": _type(error), "param": error.field or None, "code": code}}


def error_event(error: GatewayError) -> bytes:
    """The same in the middle of a stream: the SDKs raise on it."""
    return b"data: " + dump_value(error_body(error)) + b"\n\n"


def code_of(error: GatewayError) -> str:
    """The error's code, such as `rule_denied`."""
    name = error.exception
    return CODES.get(name) or WORD_BEGINS.sub("_", name).lower()


def _type(error: GatewayError) -> str:
    if error.exception == "QuotaExceeded":
        return "insufficient_quota"
    if error.code == 429:
        return "rate_limit_error"
    return "server_error" if error.code >= 500 else "invalid_request_error"
