"""What goes out in one piece, and what is said when it cannot."""

import socket
import time
from types import SimpleNamespace

import pytest
from gunicorn.config import Config
from gunicorn.http.parser import RequestParser
from gunicorn.http.wsgi import FileWrapper

from gateway_project.server.http1.messages import MAX_JOINED_BODY_BYTES, JoinedResponse, finish_body
from gateway_project.server.sockets import SlowReaders


class Socket:
    """Remembers each piece that it was given at once."""

    def __init__(self):
        self.sent = []

    def send(self, data, flags):
        self.sent.append(bytes(data))
        return len(data)


def response(*headers, method="POST", status="200 OK", on_answer=None):
    request = SimpleNamespace(method=method, version=(1, 1), should_close=lambda: False, on_answer=on_answer)
    JoinedResponse.readers = SlowReaders(places=1, client_seconds=1, bytes_per_second=1)
    response = JoinedResponse(request, Socket(), Config())
    response.start_response(status, list(headers))
    return response


def test_before_the_first_byte_is_sent_the_request_is_told():
    pieces = []
    row = response(("Content-Length", "10"), on_answer=lambda: pieces.append(list(row.sock.sent)))
    row.write(b"hello")
    row.write(b"hello")
    row.close()
    assert pieces == [[]]
    assert len(row.sock.sent) == 2


def test_head_and_body_go_out_together():
    row = response(("Content-Length", "5"), ("X-Svc-Cache", "HIT"))
    row.write(b"hello")
    row.close()
    (whole,) = row.sock.sent
    assert whole.startswith(b"HTTP/1.1 200 OK\r\n")
    assert whole.endswith(b"\r\nX-Svc-Cache: HIT\r\n\r\nhello")


def test_a_stream_begins_with_its_first_chunk_and_ends_with_its_mark():
    row = response(("Content-Type", "text/event-stream"))
    row.write(b"")  # says nothing: the head waits with it
    assert (row.sock.sent, row.headers_sent) == ([], False)
    row.write(b"x" * 20)
    row.write(b"more")
    row.close()
    first, *rest = row.sock.sent
    assert first.endswith(
        b"\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n14\r\n" + b"x" * 20 + b"\r\n"
    )
    assert rest == [b"4\r\nmore\r\n", b"0\r\n\r\n"]


@pytest.mark.parametrize(
    ("method", "status", "length"), [("HEAD", "200 OK", "5"), ("GET", "304 Not Modified", ""), ("GET", "200 OK", "0")]
)
def test_what_has_no_body_has_a_head(method, status, length):
    row = response(*[("Content-Length", length)] * bool(length), method=method, status=status)
    row.write(b"")
    row.close()
    assert [piece.partition(b"\r\n")[0] for piece in row.sock.sent] == [f"HTTP/1.1 {status}".encode()]
    assert row.sock.sent[0].endswith(b"\r\n\r\n")
    row.close()
    assert len(row.sock.sent) == 1


def test_a_long_body_is_not_copied():
    body = b"x" * (MAX_JOINED_BODY_BYTES + 1)
    count = response(("Content-Length", str(len(body))))
    count.write(body)
    count.close()
    assert count.sock.sent[0].endswith(b"\r\n\r\n")
    assert count.sock.sent[1:] == [body]


def test_a_file_comes_behind_its_head(tmp_path):
    path = tmp_path / "page.css"
    path.write_bytes(b"body {}")
    row = response(("Content-Length", "7"), method="GET")
    with path.open("rb") as file:
        row.write_file(FileWrapper(file))
        row.close()
    (whole,) = row.sock.sent
    assert whole.endswith(b"\r\n\r\nbody {}")


def test_nothing_is_sent_before_the_body_begins():
    """So that what fails by then can still be answered with an error."""
    row = response(("Content-Length", "5"))
    row.send_headers()
    assert (row.sock.sent, row.headers_sent) == ([], False)


class CountedSocket(socket.socket):
    """Counts how often its time-out was set, each time a system call."""

    changes = 0

    def settimeout(self, seconds):
        self.changes += 1
        super().settimeout(seconds)


CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    "payload", [b"\r\n", b"Content-Length: 5\r\n\r\nhello", CHUNKED], ids=["none", "whole", "chunked"]
)
@pytest.mark.parametrize("is_read", [True, False])
def test_only_a_body_with_an_unread_rest_is_discarded(payload, is_read):
    theirs, plain = socket.socketpair()
    ours = CountedSocket(fileno=plain.detach())
    with ours, theirs:
        theirs.sendall(
            b"POST /work HTTP/1.1\r\nHost: localhost\r\n" + payload + b"GET /next HTTP/1.1\r\nHost: localhost\r\n\r\n"
        )
        parser = RequestParser(Config(), ours, ("127.0.0.1", 1))
        body = next(parser).body
        if is_read:
            while body.read(1024):
                pass
        has_rest = payload != b"\r\n" and not is_read
        assert finish_body(parser, time.monotonic() + 5)
        assert bool(ours.changes) == has_rest
        assert next(parser).path == "/next"


def test_a_body_that_failed_ends_its_connection():
    theirs, ours = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"POST /work HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n")
        parser = RequestParser(Config(), ours, ("127.0.0.1", 1))
        body = next(parser).body
        with pytest.raises(Exception, match="nonsense"):
            body.read(1024)
        assert not finish_body(parser, time.monotonic() + 5)
