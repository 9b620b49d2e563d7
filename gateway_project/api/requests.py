"""DRF's request, with support for chunked bodies."""

from io import BytesIO

from rest_framework.request import Request

from gateway_project.server.bodies import MAX_MANAGEMENT_BYTES, read_body


class ApiRequest(Request):
    """A request whose whole body, of at most MAX_MANAGEMENT_BYTES, is read on first access."""

    def _load_stream(self) -> None:
        # DRF takes a body without Content-Length, which a chunked one has not, for an empty one.
        body = self._request._body = read_body(self._request.META, MAX_MANAGEMENT_BYTES)
        self._stream = BytesIO(body) if body else None
