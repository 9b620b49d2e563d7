"""How long clients are waited for: time-outs that the kernel enforces, and the share of those who read slowly."""

import errno
import select
import socket
import ssl
import struct
import time
from typing import Protocol

SLOW_SECONDS = 0.25  # a client that reads more slowly than the least rate is slow after so long a wait
EVERY_SECONDS = 0.25  # how often a client that reads nothing is looked at


def bound_waits(sock: socket.socket, *, receive: float | None = None, send: float | None = None) -> None:
    """Make reads and writes of a blocking socket raise BlockingIOError after so many seconds of waiting.

    Python's own time-outs call poll() before every read and write, and gunicorn's setblocking() resets them. They
    are used, and raise TimeoutError, where the kernel's have no effect: gevent's sockets never block, and TLS retries
    when the kernel gives up.
    """
    if not is_plain(sock):
        sock.settimeout(receive or send)
        return
    sock.settimeout(None)
    for option, seconds in ((socket.SO_RCVTIMEO, receive), (socket.SO_SNDTIMEO, send)):
        if seconds is not None:
            whole_seconds = int(seconds)
            sock.setsockopt(
                socket.SOL_SOCKET, option, struct.pack("ll", whole_seconds, int((seconds - whole_seconds) * 1e6))
            )


def is_plain(sock: socket.socket) -> bool:
    """Whether the kernel's time-outs and flags have an effect: neither TLS' socket nor gevent's."""
    return not (isinstance(sock, ssl.SSLSocket) or type(sock).__module__.startswith("gevent"))


class SlowReaders:
    """The answers whose clients are slow: at most `places` of them, for at most `client_seconds` and their size's time.

    More of them are not sent to their end: else clients that read nothing would take all threads, without a credential.
    """

    def __init__(self, places: int, client_seconds: float, bytes_per_second: int) -> None:
        self._places, self._client_seconds, self._bytes_per_second = places, client_seconds, bytes_per_second
        self._slow: set[int] = set()  # by id(): their requests

    def check(self, request: object, waited: float, byte_count: int) -> None:
        """Raise BlockingIOError if an answer has waited too long, after so many bytes; take a place if it is slow."""
        if waited > self._client_seconds + byte_count / self._bytes_per_second:
            raise BlockingIOError(errno.EAGAIN, "the client reads its answer too slowly")
        if waited > SLOW_SECONDS + byte_count / self._bytes_per_second and id(request) not in self._slow:
            if len(self._slow) >= self._places:
                raise BlockingIOError(errno.EAGAIN, "too many clients read their answers slowly")
            self._slow.add(id(request))

    def release(self, request: object) -> None:
        """Give the place of an answer back, if it has one."""
        self._slow.discard(id(request))


class WaitingCall(Protocol):
    """The call whose answer is sent (providers.transport.calls)."""

    @property
    def end(self) -> object | None: ...

    def pause(self, client: socket.socket) -> None: ...

    def resume(self) -> None: ...


class ReaderPace:
    """Sends the parts of one answer, and adds up how long its client has let it wait.

    The time of the provider that `call` reads from stops meanwhile, and the wait ends when the call does.
    """

    def __init__(self, readers: SlowReaders, sock: socket.socket, request: object) -> None:
        self._readers, self._sock, self._request = readers, sock, request
        self._waited, self._size = 0.0, 0  # seconds, and bytes that were sent
        self.call: WaitingCall | None = None  # while the answer is a stream in progress

    def send(self, data: bytes) -> None:
        """Send all of it. Raises BlockingIOError if the client reads too slowly, other OSErrors if it has gone."""
        size = self._send_now(data)
        if size < len(data):
            self._send_slowly(memoryview(data)[size:])

    def send_rest(self, unsent: bytes, size: int, waited: float) -> None:
        """Send the rest of an answer of which others have sent `size` bytes, and have waited so long for this rest."""
        self._size = max(self._size, size)
        self._waited += waited
        self._send_slowly(memoryview(unsent))

    def _send_now(self, data: bytes | memoryview) -> int:
        try:
            size = self._sock.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        self._size += size
        return size

    def _send_slowly(self, unsent: memoryview) -> None:
        if (call := self.call) is None:
            self._wait_and_send(unsent)
            return
        call.pause(self._sock)
        try:
            self._wait_and_send(unsent)
        finally:
            call.resume()

    def _wait_and_send(self, unsent: memoryview) -> None:
        poller = select.poll()
        poller.register(self._sock, select.POLLOUT)
        while unsent:
            started_at = time.monotonic()
            poller.poll(EVERY_SECONDS * 1000)
            unsent = unsent[self._send_now(unsent) :]
            self._waited += time.monotonic() - started_at
            self._readers.check(self._request, self._waited, self._size)
            if unsent and self.call is not None and self.call.end is not None:
                raise BlockingIOError(errno.EAGAIN, "the request ended while its client was waited for")
