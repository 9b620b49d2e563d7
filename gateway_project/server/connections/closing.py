"""Closes connections without losing what was sent."""

import contextlib
import select
import socket
import threading
import time
from queue import Empty, SimpleQueue

from gunicorn.workers.gthread import TConn

LINGER_SECONDS = 2.0
LINGER_BYTES = 64 * 1024
LINGER_POLL_MS = 100


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

    def take_over(self, conn: TConn) -> None:
        """Close a connection here: gunicorn would close it in the thread that accepts."""
        self.close(conn.sock)
        conn.close = _do_not_close

    def _run(self) -> None:
        while True:
            self._take_new(wait=not self._lingering)
            for number, _ in self._poller.poll(LINGER_POLL_MS):
                self._read(number)
            self._close_late()

    def _close_late(self) -> None:
        now = time.monotonic()
        while self._lingering:
            number, (_, deadline, _) = next(iter(self._lingering.items()))  # the oldest has the first deadline
            if now < deadline:
                break
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


def _do_not_close(graceful: bool = False) -> None:
    """Replaces the close() of a connection that the LingeringCloser closes."""
