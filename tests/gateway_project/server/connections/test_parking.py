"""When a request is parked, and when a thread goes on with it."""

import socket
from collections.abc import Iterator

import pytest
from gunicorn.config import Config
from gunicorn.workers.gthread import TConn

from gateway_project.errors import ServiceUnavailable
from gateway_project.server.connections.parking import (
    READY_BYTES,
    NonBlockingReader,
    ParkedParser,
    SlowBody,
    is_ready,
    late_reader,
    may_be_parked,
)
from gateway_project.server.http1.messages import is_consumed

pytestmark = pytest.mark.embedded

LONG = 10 * READY_BYTES


@pytest.fixture
def pair() -> Iterator[tuple[TConn, socket.socket]]:
    """The server's connection, and the client's socket."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        conn = TConn(Config(), ours, ("127.0.0.1", 1), ("127.0.0.1", 2))
        yield conn, theirs


def request_of(pair, *lines, body=b""):
    conn, client = pair
    head = "\r\n".join(["POST /work HTTP/1.1", "Host: localhost", *lines, "\r\n"]).encode()
    client.sendall(head)
    conn.init()
    request = next(conn.parser)
    client.sendall(body)
    return request


@pytest.mark.parametrize(
    ("lines", "body", "may", "ready"),
    [
        (("Content-Length: 5",), b"12345", False, True),
        (("Content-Length: 5",), b"1234", True, False),
        ((), b"", False, True),
        ((f"Content-Length: {LONG}",), b"x" * (READY_BYTES - 1), True, False),
        ((f"Content-Length: {LONG}",), b"x" * READY_BYTES, True, True),
        (("Transfer-Encoding: chunked",), b"5\r\n12345\r\n", True, False),
        (("Transfer-Encoding: chunked",), b"5\r\n12345\r\n0\r\n\r\n", True, True),
    ],
)
def test_a_request_waits_in_the_poller_until_its_body_is_here(pair, lines, body, may, ready):
    request = request_of(pair, *lines, body=body)
    assert may_be_parked(request, pair[0]) is may
    assert is_ready(request, pair[0]) is ready


def test_a_parked_request_is_served_once_more_and_its_body_read(pair):
    conn, client = pair
    request = request_of(pair, "Content-Length: 5", body=b"12")
    conn.parser = ParkedParser(conn, request, since=7.0)
    client.sendall(b"345")
    assert next(conn.parser) is request
    assert is_ready(request, conn)
    ends = []
    body = SlowBody(request.body, lambda: ends.append(is_consumed(request.body)))
    assert body.read(3) == b"123"
    assert ends in ([], [True])
    assert body.read() == b"45"
    assert ends[-1] is True


def test_a_client_that_waits_for_permission_gets_it_before_its_request_is_parked(pair):
    conn, client = pair
    request = request_of(pair, "Content-Length: 5", "Expect: 100-continue")
    ParkedParser(conn, request, since=0.0)
    assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"


def test_of_a_late_body_what_is_here_is_read_and_one_without_a_thread_is_refused(pair):
    conn, client = pair
    request = request_of(pair, f"Content-Length: {LONG}", body=b"12")
    reader = late_reader(request, conn)
    assert type(reader) is NonBlockingReader
    assert reader.recv(100) == b"12"
    with pytest.raises(BlockingIOError):
        reader.recv(100)
    client.sendall(b"x" * READY_BYTES)
    with pytest.raises(ServiceUnavailable, match="still arriving"):
        late_reader(request, conn).recv(100)
    conn.parser.unreader.sock = reader
    assert not may_be_parked(request, conn)
