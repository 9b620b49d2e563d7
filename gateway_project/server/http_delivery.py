"""The response to a client, independent of the server interface: WSGI or Django."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from http.client import responses
from typing import TYPE_CHECKING
from wsgiref.types import StartResponse

import orjson

from gateway_project.errors import GatewayError
from gateway_project.json_types import JsonObject

if TYPE_CHECKING:
    from django.http import HttpResponseBase

# Browsers take the media type as it is stated: no answer becomes a page.
NO_SNIFFING = ("X-Content-Type-Options", "nosniff")
REASONS = {int(status): f"{int(status)} {reason}" for status, reason in responses.items()}


@dataclass(slots=True)
class Delivery:
    """Status, headers and a body: bytes, or an iterable of chunks, which must be closed."""

    status: int
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes | Iterable[bytes] = b""

    def to_wsgi(self, start_response: StartResponse) -> Iterable[bytes]:
        """Start the response of a WSGI server, and return its body."""
        start_response(REASONS.get(self.status, f"{self.status} Unknown"), self.headers)
        return [self.body] if isinstance(self.body, bytes) else self.body

    def to_django(self) -> "HttpResponseBase":
        """The same as Django's response."""
        from django.http import HttpResponse, StreamingHttpResponse  # imported here: gunicorn's master has no Django

        kind = HttpResponse if isinstance(self.body, bytes) else StreamingHttpResponse
        return kind(self.body, status=self.status, headers=dict(self.headers))


def complete_response(
    status: int, content_type: str, body: bytes, request_id: str = "", headers: Iterable[tuple[str, str]] = ()
) -> Delivery:
    """A response with a complete body: these headers are added to those that every response has."""
    all_headers = [("Content-Type", content_type), ("Content-Length", str(len(body))), NO_SNIFFING, *headers]
    if request_id:
        all_headers.append(("X-Svc-Request-ID", request_id))
    return Delivery(status, all_headers, body)


def error_response(error: GatewayError, request_id: str = "", document: JsonObject | None = None) -> Delivery:
    """The error's document and headers; `document` replaces the error's own."""
    body = orjson.dumps(error.document() if document is None else document)
    return complete_response(error.code, "application/json", body, request_id, error.headers.items())
