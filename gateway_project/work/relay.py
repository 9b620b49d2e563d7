"""Live streams are carried from provider to client by one thread of a process.

With a thread each, every chunk would wake one, which then has to wait for the interpreter, often twice: where many
streams run, that costs more than the chunk itself. A stream's own thread sleeps meanwhile. It does what may take long:
it waits for a client that does not keep up, fills the silences, and ends the stream.
"""

import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from gateway_project.work.exchange import Incoming, Stream
from providers.calls import Call, End, Interrupted
from providers.conversation import told
from providers.formats.sse import Likeness
from providers.reply import FIRST_READ

LAG_SECONDS = 1.0
MOST_UNTOLD = 64  # reads that went on as they came: after them the bounds of an answer and of what is kept count


class Carriage:
    """One stream on its way; `chunks` gives what goes to the client after each read, where there is anything.

    `lags` is called when the client does not keep up: nobody else should have to wait for it.

    Most chunks are like one that was read before: they go on as they came, and `sends` is told of some of them at once.
    """

    __slots__ = ("back", "call", "chunks", "ended", "error", "held", "lags", "like", "lock", "rest", "sends",
                 "source", "stream", "told", "untold")  # fmt: skip

    def __init__(
        self,
        stream: Stream,
        call: Call,
        chunks: Iterator[bytes | None],
        sends: Callable[[bytes], None],
        lags: Callable[[], None] = lambda: None,
    ) -> None:
        self.stream, self.call, self.chunks, self.sends, self.lags = stream, call, chunks, sends, lags
        self.source = stream.conversation.source
        self.held = getattr(self.source, "pending", None)  # what TLS holds back, where there is TLS
        self.like: Likeness | None = None  # what the next read may be like
        self.untold: list[bytes] = []  # the last reads, which were like that
        self.lock = threading.Lock()  # of what is written to the client
        self.back = threading.Lock()  # held until its own thread has something to do
        self.rest = b""  # what the client did not take at once
        self.told = call.since  # when something was last written to the client
        self.ended = False
        self.error: BaseException | None = None

    @property
    def has_more(self) -> bool:
        """Whether `chunks` goes on although the provider's socket may stay silent."""
        return self.stream.reader.is_over or self.stream.conversation.has_more

    def step(self) -> bool:
        """Hand on what there is without ever waiting; whether the stream can be carried on."""
        try:
            with self.lock:
                if not self.rest and (self.like is None or not self._pass_on()):
                    self._move()
        except BaseException as error:  # belongs to the stream's own thread
            self.error, self.ended = error, True
        return not (self.ended or self.rest)

    def _move(self) -> None:
        for chunk in self.chunks:
            if chunk:
                self._write(chunk)
            if self.rest or not self.has_more:
                self.like = self.stream.likeness
                return  # others have their turn before this one is read again
        self.ended = True

    def _pass_on(self) -> bool:
        """Hand on reads as they came, for as long as each is like the one before; whether that was all there was.

        A stream's cost is that of its chunks: whatever is done here is done for each.
        """
        while self.like.has_chunk(data := self._read()):
            self.call.since = time.monotonic()
            self.untold.append(data)
            self._send(data)
            if self.rest or self.held is None or not self.held():
                if len(self.untold) >= MOST_UNTOLD:
                    self.tell()
                return True
        self.tell(data)
        return False

    def tell(self, unread: bytes = b"") -> None:
        """Tell of the reads that went on as they came, and of one that has to be looked at."""
        chunks = [data[data.index(b"\n") + 1 : -2] for data in self.untold]
        self.untold, self.like = [], None  # the next one goes the long way, on which the answer's bound is
        for chunk in chunks:
            self.sends(chunk)
        self.stream.conversation.passed(sum(map(len, chunks)), unread)

    def _read(self) -> bytes:
        try:
            return self.source.recv(FIRST_READ)
        except (BlockingIOError, ssl.SSLWantReadError):
            return b""  # silent, or TLS spoke of itself
        except OSError as error:
            raise told(self.call, error) from error

    def _write(self, chunk: bytes) -> None:
        """Write it as a chunk of HTTP/1.1."""
        self._send(b"%X\r\n%b\r\n" % (len(chunk), chunk))

    def _send(self, data: bytes) -> None:
        """Write as far as the client takes it. Raises Interrupted where it has gone."""
        try:
            sent = self.call.client.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            raise Interrupted(End.CLIENT_CLOSED) from error
        if sent < len(data):
            self.rest = data[sent:]
        self.told = self.call.since

    def write_rest(self) -> None:
        """Wait for a slow client, for as long as its socket's time-out lets it. Raises Interrupted after that."""
        rest, self.rest = self.rest, b""
        takes = select.poll()
        takes.register(self.call.client, select.POLLOUT)
        if not takes.poll(LAG_SECONDS * 1000):
            self.lags()
        try:
            self.call.client.sendall(rest)
        except OSError as error:
            raise Interrupted(End.CLIENT_CLOSED) from error

    def beat(self, heartbeat: bytes) -> None:
        """Tell the client that the stream lives. One that has gone ends the call, and so the provider's socket."""
        with self.lock:
            if self.rest or self.ended:
                return
            try:
                self._write(heartbeat)
                self.told = time.monotonic()
            except Interrupted as gone:
                self.call.interrupt(gone.end)


class Relay:
    """The thread that carries, and the streams it carries."""

    def __init__(self, *, heartbeat_seconds: float) -> None:
        self._silence = heartbeat_seconds
        self._carried: dict[int, Carriage] = {}
        self._epoll: Any = select.epoll() if hasattr(select, "epoll") else None  # Linux's alone

    def start(self) -> None:
        if self._epoll is not None:
            threading.Thread(target=self._run, name="relay", daemon=True).start()

    def takes(self, incoming: Incoming) -> bool:
        """Whether a stream can be written to this client here: over a plain socket, in HTTP/1.1's chunks."""
        plain = type(incoming.client) is socket.socket and incoming.headers.get("SERVER_PROTOCOL") == "HTTP/1.1"
        return plain and self._epoll is not None

    def carry(self, carriage: Carriage, heartbeat: bytes) -> None:
        """Return when all chunks are written; raises what they raise, and Interrupted for a client that has gone."""
        carriage.source.setblocking(False)
        try:
            while not carriage.ended:
                if not carriage.has_more or carriage.step():
                    self._hand_over(carriage)
                    self._await(carriage, heartbeat)
                if carriage.rest:
                    carriage.write_rest()
        finally:
            carriage.tell()
            carriage.source.setblocking(True)
        if carriage.error is not None:
            raise carriage.error

    def _hand_over(self, carriage: Carriage) -> None:
        carriage.back.acquire(blocking=False)
        number = carriage.source.fileno()
        self._carried[number] = carriage
        self._epoll.register(number, select.EPOLLIN)

    def _await(self, carriage: Carriage, heartbeat: bytes) -> None:
        """Sleep until the stream comes back, and fill its silences."""
        wait = self._silence
        while not carriage.back.acquire(timeout=wait):
            left = self._silence - (time.monotonic() - carriage.told)
            if left <= 0 and heartbeat:
                carriage.beat(heartbeat)
            wait = left if left > 0 else self._silence

    def _run(self) -> None:
        while True:
            for number, _ in self._epoll.poll():
                carriage = self._carried[number]
                if not carriage.step():
                    self._epoll.unregister(number)
                    del self._carried[number]
                    carriage.back.release()
