"""gunicorn's thread worker without the ways in which slow clients could stall it.

It touches gunicorn's internals, so the version is pinned and each way has a test. The server that starts the workers
imports it too, and has no use for Django: so nothing here does before a worker has started.
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

from gunicorn import util
from gunicorn.http.errors import InvalidResponseHeader, InvalidResponseHeaderName, ParseException
from gunicorn.workers.gthread import TConn, ThreadWorker

from gateway_project import drain, http1, load
from gateway_project.delivery import REASONS, of_error
from gateway_project.errors import InternalError, ValidationError
from gateway_project.sockets import bound_waits
from gateway_project.threads import Threads

OUR_FAULT = (InvalidResponseHeader, InvalidResponseHeaderName)

GOODBYE_SECONDS = 2.0
GOODBYE_BYTES = 64 * 1024
LOOK_EVERY_MS = 100
LOOK_AT_HEADS_SECONDS = 0.25
RESERVE_THREADS = 8
HEAD_END = b"\r\n\r\n"
LONGEST_HEAD_BYTES = 16 * 1024  # of those that wait for their end outside of a thread


class GatewayThreadWorker(ThreadWorker):
    """gthread that slow senders, slow readers and slow closers cannot hold up for long."""

    def init_process(self) -> None:
        from django.conf import settings

        http1.install()
        self.client_seconds = settings.GATEWAY_CLIENT_TIMEOUT
        self.goodbyes = Goodbyes()
        self.goodbyes.start()
        self.heads: dict[int, tuple[TConn, float]] = {}  # that threads wait for
        self.headless: dict[TConn, float] = {}  # of the thread that accepts; the oldest first
        threading.Thread(target=self._end_slow_heads, name="heads", daemon=True).start()
        # For when all threads are busy: health is answered still, and work is told so.
        self.reserve = Threads(RESERVE_THREADS, "reserve", load.mark)
        self.busy = 0
        self.log.error_log.addFilter(_is_no_slow_client)
        super().init_process()

    def enqueue_req(self, conn: TConn) -> None:
        """While half of the threads wait for heads, or all are busy, only a whole head gets one.

        Half a head each would keep all of them.
        """
        if self._has_room_for_half() or self.cfg.is_ssl:  # nobody sees through TLS before a thread has greeted
            self._hand_over(conn)
        else:
            self.headless[conn] = time.monotonic()
            self._look_at_head(conn)
            if conn in self.headless:
                conn.sock.setblocking(False)
                self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._on_head, conn))
            if len(self.headless) > self.worker_connections // 2:  # or no new one would be accepted
                self._give_up(next(iter(self.headless)))

    def _has_room_for_half(self) -> bool:
        return self.busy < self.cfg.threads and len(self.heads) < max(1, self.cfg.threads // 2)

    def _hand_over(self, conn: TConn) -> None:
        """Whatever a thread reads or writes is bounded from now on."""
        if not hasattr(conn, "bounded"):
            bound_waits(conn.sock, receive=self.client_seconds, send=self.client_seconds)
            conn.bounded = True
        self.heads[id(conn)] = (conn, math.inf)
        self.busy += 1  # here and in finish_request: both run in the thread that accepts
        pool = self.reserve if self.busy > self.cfg.threads else self.tpool
        pool.submit(partial(self._serve, conn))

    def _on_head(self, conn: TConn, client: socket.socket) -> None:
        """Its first bytes are there. Where these are not all, it is looked at now and then: they stay readable."""
        if conn in self.headless:
            self.poller.unregister(client)
            self._look_at_head(conn)

    def _look_at_head(self, conn: TConn) -> None:
        arrived: bytes | None = _read_ahead(conn)
        if HEAD_END not in arrived:
            arrived = _arrived(conn, behind=arrived)
        if arrived is None:
            self._give_up(conn)
        elif HEAD_END in arrived or (len(arrived) >= LONGEST_HEAD_BYTES and self._has_room_for_half()):
            self._watch_no_more(conn)
            self._hand_over(conn)

    def _look_at_heads(self) -> None:
        limit = time.monotonic() - self.client_seconds
        for conn, since in list(self.headless.items()):
            if since < limit:
                self._give_up(conn)
            else:
                self._look_at_head(conn)

    def _give_up(self, conn: TConn) -> None:
        self._watch_no_more(conn)
        self.nr_conns -= 1
        self.goodbyes.say(conn.sock)  # which takes what is unread: closing at once would be a reset

    def _watch_no_more(self, conn: TConn) -> None:
        del self.headless[conn]
        with contextlib.suppress(KeyError):  # what has sent a part of its head is not watched
            self.poller.unregister(conn.sock)

    def get_thread_pool(self) -> Threads:
        return Threads(self.cfg.threads, "request")

    def _serve(self, conn: TConn) -> None:
        try:
            served = Served(self.handle(conn))
        except BaseException as error:
            served = Served(False, error)
        self.method_queue.defer(self.finish_request, conn, served)

    def finish_request(self, conn: TConn, fs: "Served") -> None:
        self.busy -= 1
        super().finish_request(conn, fs)

    def handle_request(self, req, conn: TConn):
        self.heads.pop(id(conn), None)  # the head is whole
        return super().handle_request(req, conn)

    def _end_slow_heads(self) -> None:
        """A client has its time for a whole head, not for each byte of it."""
        while True:
            time.sleep(LOOK_AT_HEADS_SECONDS)
            limit = time.monotonic() - self.client_seconds
            for conn, since in list(self.heads.values()):
                if since < limit:
                    with contextlib.suppress(OSError):
                        conn.sock.shutdown(socket.SHUT_RDWR)
            if self.headless:
                self.method_queue.defer(self._look_at_heads)

    def handle(self, conn: TConn):
        """Let another thread wait for a closing client: gunicorn would do it in the one that accepts."""
        self.heads[id(conn)] = (conn, time.monotonic())  # a client's time begins when a thread listens
        try:
            if load.is_full():
                _wait_for_nothing(conn)
            keep = super().handle(conn)
        finally:
            self.heads.pop(id(conn), None)
        if keep is False:
            self.goodbyes.say(conn.sock)
            conn.close = _closed_elsewhere
        return keep

    def handle_error(self, req, client, addr, exc) -> None:
        """What gunicorn itself refuses gets the document of every error, not gunicorn's page."""
        from gateway_project.work.exchange import new_request_id

        if isinstance(exc, ParseException) and not isinstance(exc, OUR_FAULT):
            self.log.warning("Refused a malformed request of %s: %s", addr and addr[0], exc)
            error = ValidationError("The request's first line or its headers are malformed or too long.")
        else:
            self.log.error("A request failed outside its view.", exc_info=exc)
            error = InternalError()
        answer = of_error(error, new_request_id())
        headers = [("Connection", "close"), *answer.headers]
        lines = [f"HTTP/1.1 {REASONS[answer.status]}", *(f"{name}: {value}" for name, value in headers)]
        with contextlib.suppress(OSError):
            util.write_nonblock(client, "\r\n".join([*lines, "\r\n"]).encode("latin-1") + answer.body)

    def handle_exit(self, sig, frame) -> None:
        """SIGTERM: from now on the time for running requests counts."""
        drain.begin()
        super().handle_exit(sig, frame)

    def is_parent_alive(self) -> bool:
        """Without the server a worker stops as it does at SIGTERM."""
        alive = super().is_parent_alive()
        if not alive:
            drain.begin()
            self.alive = False
        return alive

    def set_accept_enabled(self, enabled: bool) -> None:
        super().set_accept_enabled(enabled)
        if not enabled and not self.alive:
            self._leave_listeners()

    def _leave_listeners(self) -> None:
        """Serve who has connected by now, and let the kernel refuse everybody else.

        gunicorn keeps listening until its last request has ended: clients would connect all the while, wait for as
        long as that takes, and be reset; and a successor would find the port taken.
        """
        for listener in self.sockets:
            waiting = select.poll()
            waiting.register(listener, select.POLLIN)
            with contextlib.suppress(OSError):  # no file is left for another connection
                while waiting.poll(0):
                    self.accept(listener)
            listener.close()
        self.sockets = []


@dataclass(slots=True)
class Served:
    """What became of a request, as gunicorn asks a future for it."""

    keep: object  # whether the connection goes on
    error: BaseException | None = None

    def cancelled(self) -> bool:
        return False

    def result(self) -> object:
        if self.error is not None:
            raise RuntimeError("a request failed outside its view") from self.error
        return self.keep


class Goodbyes:
    """Ends connections so that the client gets all that was sent: one thread waits for all clients to close.

    A socket that is closed with bytes unread makes the kernel throw away what the client has not taken yet
    (RFC 9112, section 9.6).
    """

    def __init__(self) -> None:
        self._new: SimpleQueue[socket.socket] = SimpleQueue()
        self._waiting: dict[int, tuple[socket.socket, float, int]] = {}
        self._poller = select.poll()

    def start(self) -> None:
        threading.Thread(target=self._run, name="goodbyes", daemon=True).start()

    def say(self, sock: socket.socket) -> None:
        """Send the end of our side now, and close once the client has ended its own, or its time is up."""
        try:
            sock.setblocking(False)
            sock.shutdown(socket.SHUT_WR)
        except OSError:
            sock.close()
        else:
            self._new.put(sock)

    def _run(self) -> None:
        while True:
            self._take_new(wait=not self._waiting)
            for number, _ in self._poller.poll(LOOK_EVERY_MS):
                self._read(number)
            now = time.monotonic()
            for number, (_, until, _) in list(self._waiting.items()):
                if now >= until:
                    self._close(number)

    def _take_new(self, *, wait: bool) -> None:
        with contextlib.suppress(Empty):
            while True:
                sock = self._new.get(block=wait)
                wait = False
                self._waiting[sock.fileno()] = (sock, time.monotonic() + GOODBYE_SECONDS, 0)
                self._poller.register(sock, select.POLLIN)

    def _read(self, number: int) -> None:
        sock, until, read = self._waiting[number]
        try:
            size = len(sock.recv(GOODBYE_BYTES))
        except BlockingIOError:
            return
        except OSError:
            size = 0
        if size and read + size < GOODBYE_BYTES:
            self._waiting[number] = (sock, until, read + size)
        else:
            self._close(number)

    def _close(self, number: int) -> None:
        sock, _, _ = self._waiting.pop(number)
        self._poller.unregister(number)
        sock.close()


class Arrived:
    """A socket of which is read what has arrived, and nothing waited for."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.fileno = sock.fileno

    def recv(self, size: int) -> bytes:
        return self._sock.recv(size, socket.MSG_DONTWAIT)


def _wait_for_nothing(conn: TConn) -> None:
    """A thread of the reserve is for what needs no time: it does not wait for a body either."""
    if not conn.cfg.is_ssl:
        conn.init()
        conn.parser.unreader.sock = Arrived(conn.sock)


def _arrived(conn: TConn, *, behind: bytes) -> bytes | None:
    """What there is of a head, without taking it; None where the client has gone."""
    try:
        more = conn.sock.recv(LONGEST_HEAD_BYTES, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return behind
    except OSError:
        return None
    return behind + more if more else None


def _read_ahead(conn: TConn) -> bytes:
    """What was read of the next request together with the one before."""
    return conn.parser.unreader.buf.getvalue() if conn.parser is not None else b""


def _closed_elsewhere(graceful: bool = False) -> None:
    """Stands in for the close of a connection whose goodbye has been said."""


def _is_no_slow_client(record: logging.LogRecord) -> bool:
    """gunicorn takes a read that ran out of its time for a fault of ours, and would print its stack."""
    return not (record.exc_info and isinstance(record.exc_info[1], BlockingIOError))
