"""What goes back to a client, before it is anybody's response object."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from http.client import responses
from typing import TYPE_CHECKING, Any

import orjson

from gateway_project.errors import GatewayError

if TYPE_CHECKING:
    from django.http import HttpResponseBase

REASONS = {int(status): f"{int(status)} {reason}" for status, reason in responses.items()}


@dataclass(slots=True)
class Delivery:
    """Status, headers and a body: bytes, or chunks that are sent as they come (then it must be closed)."""

    status: int
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes | Iterable[bytes] = b""

    def to_wsgi(self, start_response) -> Iterable[bytes]:
        """Hand it to a WSGI server."""
        start_response(REASONS.get(self.status, f"{self.status} Unknown"), self.headers)
        return [self.body] if type(self.body) is bytes else self.body

    def to_django(self) -> "HttpResponseBase":
        """The same as Django's response."""
        from django.http import HttpResponse, StreamingHttpResponse  # not for the server, which knows this module too

        kind = HttpResponse if type(self.body) is bytes else StreamingHttpResponse
        return kind(self.body, status=self.status, headers=dict(self.headers))


def whole(
    status: int, content_type: str, body: bytes, request_id: str = "", headers: Iterable[tuple[str, str]] = ()
) -> Delivery:
    """An answer that is there to its end, with these headers beside those that say what it is."""
    told = [("Content-Type", content_type), ("Content-Length", str(len(body))), *headers]
    if request_id:
        told.append(("X-Svc-Request-ID", request_id))
    return Delivery(status, told, body)


def of_error(error: GatewayError, request_id: str = "", document: dict[str, Any] | None = None) -> Delivery:
    """The document that an error is sent as, with the error's headers: the three fields, unless it is given."""
    body = orjson.dumps(error.body() if document is None else document)
    return whole(error.code, "application/json", body, request_id, error.headers.items())
