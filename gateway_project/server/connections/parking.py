"""Requests whose bodies have not arrived: they wait in the poller, so that slow clients take few threads."""

import socket
from collections.abc import Callable, Iterator

from gunicorn.http.body import Body
from gunicorn.http.message import Request
from gunicorn.workers.gthread import TConn

from gateway_project.errors import ServiceUnavailable
from gateway_project.server.bodies import READY_BYTES
from gateway_project.server.connections.logins import may_be_login
from gateway_project.server.http1.messages import has_arrived, is_consumed, readable_bytes

LAST_CHUNK = b"0\r\n\r\n"
PEEKED_BYTES = 16 * 1024  # a longer head, or body of a login, waits for its end in a thread


def buffered_bytes(conn: TConn) -> bytes:
    """The bytes of the next request that were read together with the previous one."""
    return conn.parser.unreader.buf.getvalue() if conn.parser is not None else b""


def peek_bytes(conn: TConn) -> bytes | None:
    """The buffered bytes of the next request and up to PEEKED_BYTES of those in the socket, which stay there.

    None if the client has gone.
    """
    buffered = buffered_bytes(conn)
    try:
        more = conn.sock.recv(PEEKED_BYTES, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return buffered
    except OSError:
        return None
    return buffered + more if more else None


def is_worth_a_thread(data: bytes) -> bool:
    """Whether a thread may wait for the rest of this head: in a crowd a login would take one from the others."""
    return len(data) >= PEEKED_BYTES or not may_be_login(data)


class BodyPending(BaseException):
    """The request is parked. Not an Exception: gunicorn would answer it with an error."""


class ParkedParser:
    """Stands for a connection's parser while its request is parked: it yields that request once more."""

    def __init__(self, conn: TConn, request: Request, since: float) -> None:
        self.parser, self.request, self.since = conn.parser, request, since
        self.unreader = conn.parser.unreader
        if request._expected_100_continue:  # its client sends the body only then
            conn.sock.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            request._expected_100_continue = False

    def __iter__(self) -> Iterator[Request]:
        return self

    def __next__(self) -> Request:
        return self.request


class SlowBody(Body):
    """A body for which a thread may have to wait; calls `on_end` once it is read to its end."""

    def __init__(self, body: Body, on_end: Callable[[], None]) -> None:
        super().__init__(body.reader)
        self._on_end = on_end

    def _read_reader(self, size: int) -> bytes:
        data: bytes = super()._read_reader(size)
        if is_consumed(self):
            self._on_end()
        return data


class NonBlockingReader:
    """Reads from a socket what has arrived, without waiting for more."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.fileno = sock.fileno

    def recv(self, size: int) -> bytes:
        return self._sock.recv(size, socket.MSG_DONTWAIT)


class RefusingReader(NonBlockingReader):
    """Refuses a body that would arrive if a thread had time for it."""

    def recv(self, size: int) -> bytes:
        raise ServiceUnavailable("The gateway is overloaded: too many requests are still arriving.")


def parked_parser(conn: TConn) -> ParkedParser | None:
    """The parser of a connection whose request is parked; None if it waits for a head."""
    return conn.parser if isinstance(conn.parser, ParkedParser) else None


def may_be_parked(request: Request, conn: TConn) -> bool:
    """Whether a thread would have to wait for the request's body, and the poller can do so instead."""
    if is_consumed(request.body) or conn.cfg.is_ssl or has_arrived(request.body):
        return False
    return not isinstance(conn.parser.unreader.sock, NonBlockingReader)


def is_ready(request: Request, conn: TConn) -> bool:
    """Whether the body has arrived, or enough of a long one to believe that the rest follows."""
    unreader = conn.parser.unreader
    if has_arrived(request.body) or len(unreader.buf.getbuffer()) + readable_bytes(conn.sock) >= READY_BYTES:
        return True
    return not hasattr(request.body.reader, "length") and _ends_with_last_chunk(unreader.buf.getvalue(), conn.sock)


def _ends_with_last_chunk(buffered: bytes, sock: socket.socket) -> bool:
    try:
        more = sock.recv(READY_BYTES, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError:
        more = b""
    return (buffered + more).endswith(LAST_CHUNK)


def late_reader(request: Request, conn: TConn) -> NonBlockingReader:
    """What a request reads its body from whose time in the poller is up."""
    waits_for_thread = is_ready(request, conn) and not has_arrived(request.body)
    return (RefusingReader if waits_for_thread else NonBlockingReader)(conn.sock)


def forbid_waiting(conn: TConn) -> None:
    """Let reads of a body fail instead of wait: the threads of the reserve must stay free."""
    if not conn.cfg.is_ssl:
        conn.init()
        conn.parser.unreader.sock = NonBlockingReader(conn.sock)
