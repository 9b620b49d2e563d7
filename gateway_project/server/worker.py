"""gunicorn's thread worker, hardened against slow clients.

It overrides gunicorn's internals, so gunicorn's version is pinned and each override has a test. gunicorn's master
imports this module too: nothing here imports Django before a worker has started.
"""

import contextlib
import logging
import math
import select
import selectors
import socket
import threading
import time
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from types import FrameType

from gunicorn import util
from gunicorn.http.errors import InvalidResponseHeader, InvalidResponseHeaderName, ParseException
from gunicorn.workers.gthread import TConn, ThreadWorker

from gateway_project.errors import GatewayError, InternalError, ValidationError
from gateway_project.server import drain, http1, overload
from gateway_project.server.client_response import REASONS, error_response
from gateway_project.server.request_ids import new_request_id
from gateway_project.server.sockets import bound_waits
from gateway_project.server.threads import LifoThreadPool

RESPONSE_ERRORS = (InvalidResponseHeader, InvalidResponseHeaderName)  # gunicorn derives them from ParseException

LINGER_SECONDS = 2.0
LINGER_BYTES = 64 * 1024
LINGER_POLL_MS = 100
HEAD_CHECK_SECONDS = 0.25
NOTIFY_SECONDS = 1.0
RESERVE_THREADS = 8
HEAD_END = b"\r\n\r\n"
MAX_PEEKED_HEAD_BYTES = 16 * 1024  # a longer head waits for its end in a thread


class GatewayThreadWorker(ThreadWorker):
    """gthread in which slow senders, slow readers and slow closers block a thread for a bounded time only."""

    sockets: list[socket.socket]  # gunicorn's listeners: its class hands all attributes of a socket on

    def init_process(self) -> None:
        from django.conf import settings

        http1.install()
        self.client_timeout = settings.GATEWAY_CLIENT_TIMEOUT
        self.closer = LingeringCloser()
        self.closer.start()
        # By id(): the connections whose heads threads are reading, and since when.
        self.reading_heads: dict[int, tuple[TConn, float]] = {}
        # Connections that wait for the rest of a head, and since when, oldest first; only the accepting thread uses it.
        self.parked: dict[TConn, float] = {}
        threading.Thread(target=self._enforce_head_timeout, name="heads", daemon=True).start()
        # Used when all threads are busy: health is still answered, and work is refused with 503.
        self.reserve = LifoThreadPool(RESERVE_THREADS, "reserve", overload.mark_thread)
        self.busy = 0
        self.notified = -math.inf
        self.log.error_log.addFilter(_is_not_client_timeout)
        super().init_process()

    def notify(self) -> None:
        """Tell the master that this worker lives, once a second; gunicorn would after every event."""
        if (now := time.monotonic()) - self.notified >= NOTIFY_SECONDS:
            self.notified = now
            super().notify()

    def enqueue_req(self, conn: TConn) -> None:
        """While half of the threads read heads, or all are busy, park connections until their whole head has arrived.

        Otherwise clients that each send half a head would occupy all threads.
        """
        if self._has_room_for_partial_head() or self.cfg.is_ssl:  # a head under TLS can only be read by a thread
            self._submit(conn)
        else:
            self.parked[conn] = time.monotonic()
            self._check_head(conn)
            if conn in self.parked:
                conn.sock.setblocking(False)
                self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._on_readable, conn))
            if len(self.parked) > self.worker_connections // 2:  # otherwise no new connection would be accepted
                self._drop(next(iter(self.parked)))

    def _has_room_for_partial_head(self) -> bool:
        return self.busy < self.cfg.threads and len(self.reading_heads) < max(1, self.cfg.threads // 2)

    def _submit(self, conn: TConn) -> None:
        """Give the connection to a thread, with time-outs on its reads and writes."""
        if not hasattr(conn, "bounded"):
            bound_waits(conn.sock, receive=self.client_timeout, send=self.client_timeout)
            conn.bounded = True
        self.reading_heads[id(conn)] = (conn, math.inf)
        self.busy += 1  # here and in finish_request: both run in the thread that accepts
        pool = self.reserve if self.busy > self.cfg.threads else self.tpool
        pool.submit(partial(self._serve, conn))

    def _on_readable(self, conn: TConn, client: socket.socket) -> None:
        """Check the first bytes; from here on the timer checks, since peeked bytes keep the socket readable."""
        if conn in self.parked:
            self.poller.unregister(client)
            self._check_head(conn)

    def _check_head(self, conn: TConn) -> None:
        buffered = _buffered(conn)
        received = buffered if HEAD_END in buffered else _peek(conn, buffered=buffered)
        if received is None:
            self._drop(conn)
        elif HEAD_END in received or (len(received) >= MAX_PEEKED_HEAD_BYTES and self._has_room_for_partial_head()):
            self._unpark(conn)
            self._submit(conn)

    def _check_parked(self) -> None:
        limit = time.monotonic() - self.client_timeout
        for conn, since in list(self.parked.items()):
            if since < limit:
                self._drop(conn)
            else:
                self._check_head(conn)

    def _drop(self, conn: TConn) -> None:
        self._unpark(conn)
        self.nr_conns -= 1
        self.closer.close(conn.sock)  # reads what is unread: closing at once would reset the connection

    def _unpark(self, conn: TConn) -> None:
        del self.parked[conn]
        with contextlib.suppress(KeyError):  # unregistered when its first bytes came
            self.poller.unregister(conn.sock)

    def get_thread_pool(self) -> LifoThreadPool:
        return LifoThreadPool(self.cfg.threads, "request")

    def _serve(self, conn: TConn) -> None:
        try:
            outcome = CompletedRequest(self.handle(conn))
        except BaseException as error:
            outcome = CompletedRequest(False, error)
        self.method_queue.defer(self.finish_request, conn, outcome)

    def finish_request(self, conn: TConn, fs: "CompletedRequest") -> None:
        self.busy -= 1
        super().finish_request(conn, fs)

    def handle_request(self, req: http1.GatewayRequest, conn: TConn) -> bool:
        self.reading_heads.pop(id(conn), None)  # the head is whole
        return super().handle_request(req, conn)

    def _enforce_head_timeout(self) -> None:
        """Shut down connections whose head is late: the time-out is for the whole head, not for each read."""
        while True:
            time.sleep(HEAD_CHECK_SECONDS)
            limit = time.monotonic() - self.client_timeout
            for conn, since in list(self.reading_heads.values()):
                if since < limit:
                    with contextlib.suppress(OSError):
                        conn.sock.shutdown(socket.SHUT_RDWR)
            if self.parked:
                self.method_queue.defer(self._check_parked)

    def handle(self, conn: TConn) -> object:
        """Leave closing to the LingeringCloser: gunicorn would do it in the thread that accepts."""
        self.reading_heads[id(conn)] = (conn, time.monotonic())  # the time-out begins when a thread reads
        try:
            if overload.is_overloaded():
                _read_without_waiting(conn)
            keep = super().handle(conn)
        finally:
            self.reading_heads.pop(id(conn), None)
        if keep is False:
            self.closer.close(conn.sock)
            conn.close = _do_not_close
        return keep

    def handle_error(
        self, req: http1.GatewayRequest | None, client: socket.socket, addr: tuple[object, ...] | str, exc: Exception
    ) -> None:
        """Answer a request that gunicorn itself refuses with the gateway's error document, not with gunicorn's page."""
        if isinstance(exc, ParseException) and not isinstance(exc, RESPONSE_ERRORS):
            self.log.warning("Refused a malformed request of %s: %s", addr and addr[0], exc)
            error: GatewayError = ValidationError("The request's first line or its headers are malformed or too long.")
        else:
            self.log.error("A request failed outside its view.", exc_info=exc)
            error = InternalError()
        answer = error_response(error, new_request_id())
        assert isinstance(answer.body, bytes)  # an error response is never a stream
        headers = [("Connection", "close"), *answer.headers]
        lines = [f"HTTP/1.1 {REASONS[answer.status]}", *(f"{name}: {value}" for name, value in headers)]
        with contextlib.suppress(OSError):
            util.write_nonblock(client, "\r\n".join([*lines, "\r\n"]).encode("latin-1") + answer.body)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """At SIGTERM, begin the graceful shutdown."""
        drain.begin(self.count_requests)
        super().handle_exit(sig, frame)

    def count_requests(self) -> int:
        """The number of requests that threads are serving."""
        return self.busy

    def is_parent_alive(self) -> bool:
        """Whether the master lives; if not, the worker stops as it does at SIGTERM."""
        alive = super().is_parent_alive()
        if not alive:
            drain.begin(self.count_requests)
            self.alive = False
        return alive

    def set_accept_enabled(self, enabled: bool) -> None:
        super().set_accept_enabled(enabled)
        if not enabled and not self.alive:
            self._close_listeners()

    def _close_listeners(self) -> None:
        """Accept the connections that are queued, then let the kernel refuse new ones.

        gunicorn listens until its last request has ended: clients that connect meanwhile would wait that long and
        then be reset, and a successor would find the port taken.
        """
        for listener in self.sockets:
            waiting = select.poll()
            waiting.register(listener, select.POLLIN)
            with contextlib.suppress(OSError):  # the process has no file descriptor left
                while waiting.poll(0):
                    self.accept(listener)
            listener.close()
        self.sockets = []


@dataclass(slots=True)
class CompletedRequest:
    """The outcome of a request, with the methods of a Future that gunicorn calls."""

    keep: object  # whether the connection stays open
    error: BaseException | None = None

    def cancelled(self) -> bool:
        return False

    def result(self) -> object:
        if self.error is not None:
            raise RuntimeError("a request failed outside its view") from self.error
        return self.keep


class LingeringCloser:
    """Closes connections without losing what was sent: one thread waits for all clients to close their side.

    If a socket is closed with bytes unread, the kernel discards what the client has not received yet
    (RFC 9112, section 9.6).
    """

    def __init__(self) -> None:
        self._new: SimpleQueue[socket.socket] = SimpleQueue()
        self._lingering: dict[
            int, tuple[socket.socket, float, int]
        ] = {}  # by file descriptor: socket, deadline, bytes read
        self._poller = select.poll()

    def start(self) -> None:
        threading.Thread(target=self._run, name="closer", daemon=True).start()

    def close(self, sock: socket.socket) -> None:
        """End our side now; close when the client has ended its own, after LINGER_SECONDS or LINGER_BYTES."""
        try:
            sock.setblocking(False)
            sock.shutdown(socket.SHUT_WR)
        except OSError:
            sock.close()
        else:
            self._new.put(sock)

    def _run(self) -> None:
        while True:
            self._take_new(wait=not self._lingering)
            for number, _ in self._poller.poll(LINGER_POLL_MS):
                self._read(number)
            now = time.monotonic()
            for number, (_, deadline, _) in list(self._lingering.items()):
                if now >= deadline:
                    self._close(number)

    def _take_new(self, *, wait: bool) -> None:
        with contextlib.suppress(Empty):
            while True:
                sock = self._new.get(block=wait)
                wait = False
                self._lingering[sock.fileno()] = (sock, time.monotonic() + LINGER_SECONDS, 0)
                self._poller.register(sock, select.POLLIN)

    def _read(self, number: int) -> None:
        sock, deadline, read = self._lingering[number]
        try:
            size = len(sock.recv(LINGER_BYTES))
        except BlockingIOError:
            return
        except OSError:
            size = 0
        if size and read + size < LINGER_BYTES:
            self._lingering[number] = (sock, deadline, read + size)
        else:
            self._close(number)

    def _close(self, number: int) -> None:
        sock, _, _ = self._lingering.pop(number)
        self._poller.unregister(number)
        sock.close()


class NonBlockingReader:
    """Reads from a socket what has arrived, without waiting for more."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.fileno = sock.fileno

    def recv(self, size: int) -> bytes:
        return self._sock.recv(size, socket.MSG_DONTWAIT)


def _read_without_waiting(conn: TConn) -> None:
    """Let reads of a body fail instead of wait: the threads of the reserve must stay free."""
    if not conn.cfg.is_ssl:
        conn.init()
        conn.parser.unreader.sock = NonBlockingReader(conn.sock)


def _peek(conn: TConn, *, buffered: bytes) -> bytes | None:
    """The buffered bytes of a head and those in the socket, which stay there; None if the client has gone."""
    try:
        more = conn.sock.recv(MAX_PEEKED_HEAD_BYTES, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return buffered
    except OSError:
        return None
    return buffered + more if more else None


def _buffered(conn: TConn) -> bytes:
    """The bytes of the next request that were read together with the previous one."""
    return conn.parser.unreader.buf.getvalue() if conn.parser is not None else b""


def _do_not_close(graceful: bool = False) -> None:
    """Replaces the close() of a connection that the LingeringCloser closes."""


def _is_not_client_timeout(record: logging.LogRecord) -> bool:
    """gunicorn would log a read that timed out as an error of the gateway, with its stack."""
    return not (record.exc_info and isinstance(record.exc_info[1], BlockingIOError))
