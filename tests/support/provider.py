"""A scriptable provider for end-to-end tests: a real HTTP/1.1 server that can misbehave exactly.

    with ScriptedProvider() as provider:
        provider.answers(status=529).answers(text="Lisbon")
        ...                                     # send requests to provider.url
        assert provider.wait_for(2)[0].json["model"] == "small"

It is written on raw sockets, a thread for each connection, because a test must be able to say which bytes
are sent, when, and how the connection ends.
"""

import json
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Self

from tests.support.pace import patience
from tests.support.provider_answers import Answer

# Linux tells a peer's goodbye apart from bytes that it sends; elsewhere both wake us, and no client pipelines.
GOODBYE = getattr(select, "POLLRDHUP", select.POLLIN)
# SO_LINGER with no time to linger: close() then sends RST in place of FIN.
NO_LINGER = struct.pack("ii", 1, 0)


class PeerLeft(Exception):
    """The client closed its connection, or the provider is being stopped."""


@dataclass
class SeenRequest:
    """One request as it arrived, and what became of its connection."""

    method: str
    path: str
    headers: dict[str, str]  # names in lower case; of repeated ones the last
    raw_headers: list[tuple[str, str]]
    body: bytes
    arrived: float  # time.monotonic() when the last byte of the request was read
    connection: int  # 1 for the first connection accepted, and so on
    closed_after: float | None = None  # seconds from arrival until the client left before we were done
    finished: threading.Event = field(default_factory=threading.Event)  # set when we are done with it

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    def wait_closed(self, timeout: float = 5) -> float:
        """The value of `closed_after`, once the provider has noticed."""
        if not self.finished.wait(patience(timeout)) or self.closed_after is None:
            raise AssertionError(f"the client did not leave {self.method} {self.path} within {timeout} s")
        return self.closed_after


class ScriptedProvider:
    """Serves queued answers, in the order of the requests' arrival, and remembers what it saw."""

    def __init__(self, port: int = 0) -> None:
        self.default = Answer()
        self.seen: list[SeenRequest] = []
        self.connections = 0
        self.in_flight = 0
        self.peak_in_flight = 0
        self.stopping = False
        self._queue: deque[Answer] = deque()
        self._changed = threading.Condition()
        self._open: dict[socket.socket, threading.Thread] = {}
        self._listener = socket.create_server(("127.0.0.1", port), backlog=4096)
        self.port: int = self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        """The base address to put into a provider's record."""
        return f"http://127.0.0.1:{self.port}/v1"

    def answers(self, **script: Any) -> Self:
        """Queue one answer; the fields of `Answer` say what can be asked for."""
        self._queue.append(Answer(**script))
        return self

    def wait_for(self, count: int, timeout: float = 5) -> list[SeenRequest]:
        """The requests seen, once there are at least so many; AssertionError if they do not come in time."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.seen) >= count, patience(timeout)):
                raise AssertionError(f"{len(self.seen)} of {count} requests came within {timeout} s")
            return list(self.seen)

    def wait_idle(self, timeout: float = 5) -> None:
        """Return when no request is being answered; AssertionError if that does not happen in time."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.in_flight == 0, patience(timeout)):
                raise AssertionError(f"{self.in_flight} requests are still in flight after {timeout} s")

    def reset(self) -> None:
        """Forget queued answers, the default answer's changes and everything seen."""
        with self._changed:
            self._queue.clear()
            self.seen.clear()
            self.default = Answer()
            self.peak_in_flight = self.in_flight

    def start(self) -> Self:
        threading.Thread(target=self._accept, name=f"provider-{self.port}", daemon=True).start()
        return self

    def stop(self) -> None:
        """Close every connection, whatever is being sent on it, and wait for the threads."""
        self.stopping = True
        # shutdown() and not only close(): it wakes the threads that wait in accept, recv and poll.
        shut_down(self._listener)
        self._listener.close()
        with self._changed:
            connections = dict(self._open)
        for connection in connections:
            shut_down(connection)
        for thread in connections.values():
            thread.join(timeout=5)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _accept(self) -> None:
        with suppress(OSError):
            while not self.stopping:
                connection, _ = self._listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.connections += 1
                thread = threading.Thread(target=self._serve, args=[connection, self.connections], daemon=True)
                with self._changed:  # started before anybody sees it: stop() joins what it finds
                    self._open[connection] = thread
                    thread.start()
                if self.stopping:
                    shut_down(connection)

    def _serve(self, connection: socket.socket, number: int) -> None:
        try:
            Connection(self, connection, number).serve()
        finally:
            with self._changed:
                self._open.pop(connection, None)
            connection.close()

    def arrived(self, request: SeenRequest) -> Answer:
        """Note a request and hand out the answer that is due to it."""
        with self._changed:
            self.seen.append(request)
            self.in_flight += 1
            self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
            self._changed.notify_all()
            return self._queue.popleft() if self._queue else self.default

    def done(self, request: SeenRequest) -> None:
        """Note that nothing more will be sent for a request."""
        with self._changed:
            self.in_flight -= 1
            self._changed.notify_all()
        request.finished.set()


class Connection:
    """One client connection: reads requests and sends what the script says."""

    def __init__(self, provider: ScriptedProvider, connection: socket.socket, number: int) -> None:
        self.provider = provider
        self.socket = connection
        self.number = number
        self.poller = select.poll()
        self.poller.register(connection, GOODBYE)

    def serve(self) -> None:
        """Answer requests until one side closes; a client that leaves or talks nonsense ends it quietly."""
        with self.socket.makefile("rb") as reader, suppress(OSError, ValueError):
            while (observations := self.read_request(reader)) and self.respond(observations):
                pass

    def read_request(self, reader: BinaryIO) -> SeenRequest | None:
        """The next request, or None when the client is done with the connection."""
        line = reader.readline()
        if not line.strip():
            return None
        method, path, _ = line.decode("latin-1").split()
        raw_headers = list(read_headers(reader))
        headers = {name.lower(): value for name, value in raw_headers}
        if headers.get("expect", "").lower() == "100-continue":
            self.socket.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = read_body(reader, headers)
        return SeenRequest(method, path, headers, raw_headers, body, time.monotonic(), self.number)

    def respond(self, request: SeenRequest) -> bool:
        """Send the answer; tells whether the connection can serve another request."""
        answer = self.provider.arrived(request)
        try:
            return self.perform(answer, request)
        except (PeerLeft, ConnectionError):
            if not self.provider.stopping:
                request.closed_after = time.monotonic() - request.arrived
            return False
        finally:
            self.provider.done(request)

    def perform(self, answer: Answer, request: SeenRequest) -> bool:
        """Act one answer out; tells whether the connection can serve another request."""
        reply = answer.reply(request)
        self.wait(answer.delay)
        if answer.silent:
            return self.stay_silent(answer)
        self.socket.sendall(reply.head)
        for number, piece in enumerate(reply.pieces):
            if number == answer.silent_after:
                return self.stay_silent(answer)
            if number:
                self.wait(reply.pace)
            self.socket.sendall(piece)
        if answer.silent_after is not None:
            return self.stay_silent(answer)
        if answer.reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        return reply.keep_alive and request.headers.get("connection", "").lower() != "close"

    def stay_silent(self, answer: Answer) -> bool:
        """Send nothing until the client leaves; after the answer's limit leave ourselves."""
        self.wait(answer.silent_limit)
        return False

    def wait(self, seconds: float) -> None:
        """Let time pass; raises PeerLeft as soon as the client closes the connection."""
        if seconds > 0 and self.poller.poll(seconds * 1000):
            raise PeerLeft


def read_headers(reader: BinaryIO) -> Iterator[tuple[str, str]]:
    """The header fields up to the blank line."""
    while line := reader.readline().decode("latin-1").rstrip("\r\n"):
        name, _, value = line.partition(":")
        yield name, value.strip()


def read_body(reader: BinaryIO, headers: dict[str, str]) -> bytes:
    """The request's body, be it of known length or in chunks."""
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return b"".join(read_chunks(reader))
    return reader.read(int(headers.get("content-length", 0)))


def read_chunks(reader: BinaryIO) -> Iterable[bytes]:
    """The chunks of a chunked body, up to the empty one."""
    while size := int(reader.readline().partition(b";")[0], 16):
        yield reader.read(size)
        reader.readline()
    while reader.readline().strip():
        pass


def shut_down(connection: socket.socket) -> None:
    """End both directions of a connection that may be gone already."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


# Bound but not listening: the kernel refuses connections, and nobody else can be given the port meanwhile.
_reserved: list[socket.socket] = []


def refusing_port() -> int:
    """A port of 127.0.0.1 on which nothing listens, for as long as the process lives."""
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    _reserved.append(holder)
    return holder.getsockname()[1]


def counts(*providers: ScriptedProvider) -> tuple[int, ...]:
    """How many requests each provider has received."""
    return tuple(len(provider.seen) for provider in providers)
