"""DRF's request, with support for chunked bodies."""

from io import BytesIO

from rest_framework.request import Request

from gateway_project.server.bodies import MAX_MANAGEMENT_BYTES, read_body


class ApiRequest(Request):
    """A request whose whole body, of at most `max_body_bytes`, is read on first access."""

    correlation_id: str  # the request id, which the middleware assigns
    max_body_bytes = MAX_MANAGEMENT_BYTES

    def receive(self) -> None:
        """Read the whole body, without looking at what it says. Raises PayloadTooLarge and ValidationError."""
        self.stream  # noqa: B018  its first access reads

    def authenticate_again(self) -> None:
        """Ask once more whose request it is. Raises AuthenticationFailed."""
        self._authenticate()  # type: ignore[attr-defined]  # the stub does not have it

    def _load_stream(self) -> None:
        # DRF takes a body without Content-Length, which a chunked one has not, for an empty one.
        body = read_body(self._request.META, self.max_body_bytes)
        self._request._body = body
        self._stream = BytesIO(body) if body else None  # type: ignore[assignment]  # None for an empty body, as in DRF
