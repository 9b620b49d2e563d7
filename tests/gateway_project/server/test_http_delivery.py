"""What goes back to a client, as WSGI and as Django's response."""

import json

import pytest

from gateway_project.errors import AuthenticationFailed, ProviderRejected, RateLimited, ServiceUnavailable
from gateway_project.server.http_delivery import Delivery, error_response


def wsgi(delivery):
    """Status line, headers and body as a WSGI server gets them."""
    results = []
    body = b"".join(delivery.to_wsgi(lambda *start: results.append(start)))
    assert len(results) == 1
    return *results[0], body


def test_a_body_goes_out_with_its_status_and_headers():
    delivery = Delivery(200, [("Content-Type", "text/plain"), ("Content-Length", "5")], b"hello")
    assert wsgi(delivery) == ("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")], b"hello")


@pytest.mark.parametrize(("status", "line"), [(404, "404 Not Found"), (529, "529 Unknown"), (599, "599 Unknown")])
def test_every_status_has_a_line(status, line):
    assert wsgi(Delivery(status))[0] == line


def test_a_stream_is_handed_on_as_it_is_and_can_be_closed():
    closed = []

    def chunks():
        try:
            yield b"a"
            yield b"b"
        finally:
            closed.append(True)

    body = Delivery(200, [], chunks()).to_wsgi(lambda *start: None)
    assert next(iter(body)) == b"a"
    body.close()
    assert closed == [True]


def test_djangos_response_says_the_same():
    response = Delivery(418, [("X-Svc-Request-ID", "r1"), ("Content-Type", "text/plain")], b"tea").to_django()
    assert (response.status_code, response.content, response["X-Svc-Request-ID"]) == (418, b"tea", "r1")
    assert response["Content-Type"] == "text/plain"


def test_djangos_response_streams_what_is_a_stream():
    response = Delivery(200, [("Content-Type", "text/event-stream")], iter([b"a", b"b"])).to_django()
    assert response.streaming
    assert b"".join(response) == b"ab"


@pytest.mark.parametrize(
    ("error", "headers"),
    [
        (AuthenticationFailed(), {"WWW-Authenticate": "Bearer"}),
        (RateLimited("Too many.", retry_after=7.2), {"Retry-After": "8"}),
        (ServiceUnavailable(), {"Retry-After": "1"}),
        (ProviderRejected("Täglich", code=422), {}),
    ],
)
def test_an_error_is_a_document_with_its_headers(error, headers):
    status, request, body = wsgi(error_response(error, "r1"))
    values = dict(request)
    assert int(status[:3]) == error.code
    assert json.loads(body) == error.document()
    assert values.items() >= (headers | {"Content-Type": "application/json", "X-Svc-Request-ID": "r1"}).items()
    assert values["Content-Length"] == str(len(body))


def test_an_error_without_a_request_has_no_request_id():
    assert "X-Svc-Request-ID" not in dict(error_response(ServiceUnavailable()).headers)
