"""The request as DRF hands it to views, with a body that may come in chunks."""

from io import BytesIO

from rest_framework.request import Request

from gateway_project.bodies import MOST_MANAGING_BYTES, read_body


class ApiRequest(Request):
    """A request whose body is read whole, within MOST_MANAGING_BYTES, when it is first asked for."""

    def _load_stream(self) -> None:
        # DRF takes a body without Content-Length, one that comes in chunks, for no body at all.
        body = self._request._body = read_body(self._request.META, MOST_MANAGING_BYTES)
        self._stream = BytesIO(body) if body else None
