"""gunicorn's request and response, corrected where they surprise clients or cost too much.

Like the worker they override gunicorn's internals: the version is pinned, and each override has a test.
"""

import fcntl
import socket
import sys
import termios
import time
from collections.abc import Callable, Sequence
from wsgiref.types import WSGIEnvironment

from gunicorn.config import Config
from gunicorn.http import wsgi
from gunicorn.http.body import Body, ChunkedReader, LengthReader
from gunicorn.http.errors import UnsupportedTransferCoding
from gunicorn.http.message import Request
from gunicorn.http.parser import Parser, RequestParser

from gateway_project.server import overload
from gateway_project.server.http1.heads import (
    CONTENT_LENGTH,
    Header,
    RequestLines,
    are_usual,
    base_environ,
    date_at,
    usual_headers,
)
from gateway_project.server.sockets import ReaderPace, SlowReaders, is_plain

MAX_DISCARDED_BYTES = 64 * 1024  # of an unread body, between requests: gunicorn's own bound
MAX_JOINED_BODY_BYTES = 64 * 1024  # joining head and body copies the body
PACE = "gateway.pace"  # the ReaderPace of the response, in WSGI's environment


def install_messages(readers: SlowReaders) -> None:
    """Make gunicorn use these classes in this process; these readers are waited for."""
    JoinedResponse.readers = readers
    RequestParser.mesg_class = GatewayRequest
    RequestParser.finish_body = finish_body
    wsgi.Response = JoinedResponse
    wsgi.create = create
    wsgi.base_environ = base_environ


class GatewayRequest(Request):
    """A request whose response says `Connection: close` whenever gunicorn is going to close the connection.

    gunicorn discards only what has arrived of an unread body and closes if there may be more. A client that is not
    told would send its next request on that connection and never get an answer.

    Transfer codings other than chunked are refused: gunicorn accepts some that nothing here decodes
    (RFC 9112, section 6.1).
    """

    on_answer: Callable[[], None] | None = None  # called when the answer begins
    lines = RequestLines()

    def __init__(self, *arguments: object) -> None:
        self.is_overloaded = overload.is_overloaded()  # should_close() also runs in the thread of the next request
        super().__init__(*arguments)

    def parse_request_line(self, line: bytes) -> None:
        if (parts := self.lines.find(line)) is not None:
            self.method, self.uri, self.path, self.query, self.fragment, self.version = parts
        else:
            super().parse_request_line(line)
            self.lines.keep(line, (self.method, self.uri, self.path, self.query, self.fragment, self.version))

    def parse_headers(self, data: bytes, from_trailer: bool = False) -> list[Header]:
        is_peer_heard = self.cfg.forwarded_allow_ips or not isinstance(self.peer_addr, tuple)  # what it says of clients
        if not (from_trailer or is_peer_heard):
            headers = usual_headers(data, self.limit_request_fields, self.limit_request_field_size)
            if headers is not None:
                return headers
        read: list[Header] = super().parse_headers(data, from_trailer)
        return read

    def set_body_reader(self) -> None:
        for name, value in self.headers:
            if name == "TRANSFER-ENCODING" and value.strip(" \t").lower() != "chunked":
                raise UnsupportedTransferCoding(value)
        super().set_body_reader()

    def should_close(self) -> bool:
        if not has_arrived(self.body):
            self.force_close()  # for later requests, too: the rest may come after the response has said `close`
        return super().should_close() or self.is_overloaded


def finish_body(parser: Parser, deadline: float | None = None, max_bytes: int | None = None) -> bool:
    """Discard the unread rest of a body, as gunicorn does; False if the connection cannot be used again.

    Without a rest it does nothing: gunicorn would still set and reset the socket's time-out, and each of these system
    calls releases the interpreter's lock.
    """
    if parser.mesg and is_consumed(parser.mesg.body):
        return True
    return Parser.finish_body(parser, deadline, max_bytes)


class JoinedResponse(wsgi.Response):
    """Sends the head together with the first chunk of the body: one system call, and the client wakes once."""

    headers_sent: bool
    readers: SlowReaders

    def __init__(self, req: GatewayRequest, sock: socket.socket, cfg: Config) -> None:
        super().__init__(req, sock, cfg)
        self.pace = ReaderPace(self.readers, sock, req) if is_plain(sock) else None
        self._send_all = sock.sendall if self.pace is None else self.pace.send

    def process_headers(self, headers: Sequence[Header]) -> None:
        if not are_usual(headers):
            super().process_headers(headers)
            return
        self.headers += [(name, value.strip(" \t")) for name, value in headers]
        if length := dict(headers).get(CONTENT_LENGTH):
            self.response_length = int(length)

    def default_headers(self) -> list[str]:
        """gunicorn's, with a date that is written once a second."""
        connection = "upgrade" if self.upgrade else "close" if self.should_close() else "keep-alive"
        major, minor = self.req.version
        return [
            f"HTTP/{major}.{minor} {self.status}\r\nServer: {self.version}\r\nDate: {date_at(int(time.time()))}\r\n"
            f"Connection: {connection}\r\n",
            *(["Transfer-Encoding: chunked\r\n"] if self.chunked else []),
        ]

    def send_headers(self) -> None:
        """Do nothing: gunicorn calls this before each chunk of the body; _send() sends the head."""

    def sendfile(self, respiter: wsgi.FileWrapper) -> bool:
        """Leave a file to be sent in parts: the system call waits for a client that reads nothing, without end."""
        return False

    def close(self) -> None:
        self._send(b"0\r\n\r\n" if self.chunked else b"")

    def _emit_body(self, data: bytes) -> None:
        self._send(b"%X\r\n%b\r\n" % (len(data), data) if self.chunked else data)

    def _send(self, data: bytes) -> None:
        if not self.headers_sent:
            if self.req.on_answer is not None:
                self.req.on_answer()
            head = self._head()
            self.headers_sent = True  # even if sendall() fails midway: no other response can follow
            if len(data) > MAX_JOINED_BODY_BYTES:
                self._send_all(head)
            else:
                data = head + data
        if data:
            self._send_all(data)

    def _head(self) -> bytes:
        lines = [*self.default_headers(), *map("%s: %s\r\n".__mod__, self.headers), "\r\n"]
        return "".join(lines).encode("latin-1")


def create(
    req: GatewayRequest, sock: socket.socket, client: object, server: object, cfg: Config
) -> tuple[JoinedResponse, WSGIEnvironment]:
    """gunicorn's response and environment; the environment has the pace, for code that writes to the socket itself."""
    response, environ = _create(req, sock, client, server, cfg)
    environ[PACE] = response.pace
    return response, environ


_create = wsgi.create


def has_arrived(body: Body) -> bool:
    """Whether the unread rest of a body is in our buffers; False for chunked and very long ones, where it is unknown.

    If it is not, gunicorn's thread would have to wait for it before it can read the next request, and a client that
    sends a byte now and then could prolong that wait.
    """
    if is_consumed(body):
        return True
    if body.failed or isinstance(body.reader, ChunkedReader):
        return False
    length, missing = body.reader.length, _missing_bytes(body)
    return length < MAX_DISCARDED_BYTES and (missing <= 0 or missing <= readable_bytes(body.reader.unreader.sock))


def is_buffered(body: object) -> bool:
    """Whether all of a body came with its head, so that reading it cannot wait for the client."""
    return type(body) is Body and isinstance(body.reader, LengthReader) and _missing_bytes(body) <= 0


def _missing_bytes(body: Body) -> int:
    """How many bytes of a body with a Content-Length have not been read from the socket; not above 0 if none."""
    missing: int = body.reader.length - len(body.reader.unreader.buf.getbuffer())
    return missing


def is_consumed(body: Body) -> bool:
    """Whether the body has been read to its end, so that the next request follows."""
    if body.failed:
        return False
    return body.reader.parser is None if isinstance(body.reader, ChunkedReader) else not body.reader.length


def readable_bytes(sock: socket.socket) -> int:
    """The number of bytes that the kernel has received and no one has read."""
    return int.from_bytes(fcntl.ioctl(sock.fileno(), termios.FIONREAD, bytes(4)), sys.byteorder)
