"""One thread per process forwards all live streams from provider to client.

With one thread per stream, every chunk would wake a thread that then waits for the interpreter lock, often twice; with
many streams that costs more than the chunk itself. So a stream's own thread sleeps and does only what may take long:
it waits for a slow client, sends heartbeats, and ends the stream.
"""

import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, cast

from gateway_project.server.sockets import ReaderPace
from gateway_project.work.streaming.stream import ClientConnection, Stream, heartbeat_after
from providers.formats.sse import ChunkTemplate
from providers.transport.calls import Call, End, Interrupted
from providers.transport.http_response import FIRST_READ
from providers.transport.provider_response import as_gateway_error

LAG_SECONDS = 1.0
# Reads forwarded unparsed before they are reported: only then are the limits on answer size and kept bytes applied.
MAX_UNREPORTED = 64


class RelayedStream:
    """One stream in progress; `chunks` yields what the client gets after each read (None or b"" for nothing).

    `on_lag` is called when the client does not keep up, so that other requests stop waiting for this stream.

    Most chunks match the template of an earlier one. They are forwarded unparsed, and `on_chunks` gets them in batches.
    """

    __slots__ = ("call", "chunks", "client", "ended", "error", "handed_back", "is_withdrawn", "last_chunk",
                 "last_write", "lock", "on_chunks", "on_lag", "pace", "size", "source", "stream", "template",
                 "tls_pending", "unreported", "unsent")  # fmt: skip

    def __init__(
        self,
        stream: Stream,
        call: Call,
        chunks: Iterator[bytes | None],
        on_chunks: Callable[[list[bytes]], None],
        pace: ReaderPace,
        on_lag: Callable[[], None] = lambda: None,
        lock: "threading.Lock | None" = None,
        last_chunk: bytes = b"",
    ) -> None:
        self.pace = pace  # bounds how long the client may be waited for
        self.stream, self.call, self.chunks, self.on_chunks, self.on_lag = stream, call, chunks, on_chunks, on_lag
        # None if the client was detached meanwhile: then another thread reads, and nothing is forwarded here.
        self.client = cast("socket.socket", call.client)
        self.source = stream.provider_response.source
        self.tls_pending = getattr(self.source, "pending", None)  # a TLS socket's number of decrypted, unread bytes
        self.template: ChunkTemplate | None = None  # what the next read is expected to match
        self.unreported: list[bytes] = []  # reads that matched and were forwarded unparsed
        self.lock = lock or threading.Lock()  # guards reads from the provider and writes to the client
        self.handed_back = threading.Lock()  # released when the stream's own thread has something to do
        self.unsent = b""  # what the client's socket did not accept at once
        self.size = 0  # of what was written and reported, in bytes
        self.last_write = call.waiting_since
        self.last_chunk = last_chunk  # of those that were parsed: others are whole events
        self.ended = False
        self.is_withdrawn = False  # another thread reads from the provider now, and nothing more is forwarded here
        self.error: BaseException | None = None

    @property
    def has_more(self) -> bool:
        """Whether `chunks` can yield more without another read from the provider's socket."""
        return self.stream.reader.is_over or self.stream.provider_response.has_more

    def step(self) -> bool:
        """Forward what has arrived, without blocking; whether the relay thread can go on with this stream."""
        with self.lock:
            try:
                if not (self.unsent or self.is_withdrawn or self._forward_unchanged()):
                    self._forward_next()
            except BaseException as error:  # raised again in the stream's own thread
                self.error, self.ended = error, True
        return not (self.ended or self.unsent)

    def _forward_next(self) -> None:
        for chunk in self.chunks:
            if chunk:
                self._write(chunk)
            if self.unsent or not self.has_more:
                self.template = self.stream.template
                return  # other streams have their turn before this one is read again
        self.ended = True

    def _forward_unchanged(self) -> bool:
        """Forward reads unparsed while they match the template; False if there is none, or one did not match.

        This runs for every chunk of every stream: its cost is the stream's cost.
        """
        if (template := self.template) is None:
            return False
        while template.matches_http_chunk(data := self._read()):
            self.call.waiting_since = time.monotonic()
            self.unreported.append(data)
            self._send(data)
            if self.unsent or self.tls_pending is None or not self.tls_pending():
                if len(self.unreported) >= MAX_UNREPORTED:
                    self.report()
                return True
        self.report(data)
        return False

    def report(self, unread: bytes = b"") -> None:
        """Report the reads that were forwarded unparsed, and push back `unread`, which has to be parsed."""
        chunks = [data[data.index(b"\n") + 1 : -2] for data in self.unreported]
        self.unreported, self.template = [], None  # the next read is parsed, which checks the answer's size limit
        if chunks:
            self.on_chunks(chunks)
        size = sum(map(len, chunks))
        self.size += size
        self.stream.provider_response.record_forwarded(size, unread)

    def _read(self) -> bytes:
        try:
            return self.source.recv(FIRST_READ)
        except (BlockingIOError, ssl.SSLWantReadError):
            return b""  # nothing to read, or a TLS record without data
        except OSError as error:
            raise as_gateway_error(self.call, error) from error

    def _write(self, chunk: bytes) -> None:
        """Write it as a chunk of HTTP/1.1's chunked encoding."""
        self.size += len(chunk)
        self.last_chunk = chunk
        self._send(b"%X\r\n%b\r\n" % (len(chunk), chunk))

    def _send(self, data: bytes) -> None:
        """Write as much as the client's socket accepts. Raises Interrupted if the client has gone."""
        try:
            size = self.client.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            size = 0
        except OSError as error:
            raise self._cut_off() from error
        if size < len(data):
            self.unsent = data[size:]
        self.last_write = self.call.waiting_since

    def write_unsent(self) -> None:
        """Wait for a slow client as long as its pace allows. Raises Interrupted after that, or if the call ends."""
        unsent, self.unsent = self.unsent, b""
        self.call.pause(self.client)
        try:
            waited = self._wait_for_client()
            self.pace.send_rest(unsent, self.size + sum(map(len, self.unreported)) - len(unsent), waited)
        except OSError as error:
            raise self._cut_off() from error
        finally:
            self.call.resume()
        self.last_write = time.monotonic()

    def _wait_for_client(self) -> float:
        """Wait up to LAG_SECONDS until the client reads on; returns the seconds. The pace waits on after that."""
        poller, started_at = select.poll(), time.monotonic()
        poller.register(self.client, select.POLLOUT)
        if not poller.poll(LAG_SECONDS * 1000):
            self.on_lag()
        return time.monotonic() - started_at

    def _cut_off(self) -> Interrupted:
        """Close the client's connection, on which nothing may follow: a chunk may have been cut off."""
        with suppress(OSError):
            self.client.shutdown(socket.SHUT_RDWR)
        return Interrupted(self.call.end or End.CLIENT_CLOSED)

    def send_heartbeat(self, heartbeat: bytes) -> None:
        """Show the client that the stream lives. If the client has gone, the call and the provider's socket end."""
        with self.lock:
            heartbeat = heartbeat_after(self.last_chunk, heartbeat)
            if self.unsent or self.ended or self.is_withdrawn or not heartbeat:
                return
            try:
                self._write(heartbeat)
                self.last_write = time.monotonic()
            except Interrupted:
                self.call.abandon()


class Relay:
    """The relay thread and its streams, by the file descriptor of the provider's socket."""

    def __init__(self, *, heartbeat_seconds: float) -> None:
        self._heartbeat_seconds = heartbeat_seconds
        self._streams: dict[int, RelayedStream] = {}
        self._epoll: Any = select.epoll() if hasattr(select, "epoll") else None  # Linux only

    def start(self) -> None:
        if self._epoll is not None:
            threading.Thread(target=self._run, name="relay", daemon=True).start()

    @property
    def stream_count(self) -> int:
        """The number of live streams."""
        return len(self._streams)

    def supports(self, connection: ClientConnection) -> bool:
        """Whether the relay can write to this client: a plain socket, and HTTP/1.1 for its chunked encoding."""
        if self._epoll is None or connection.pace is None or type(connection.client) is not socket.socket:
            return False
        return connection.environ.get("SERVER_PROTOCOL") == "HTTP/1.1"

    def forward(self, stream: RelayedStream, heartbeat: bytes) -> None:
        """Return when all chunks are written, or the stream is withdrawn.

        Raises what `chunks` raises, and Interrupted if the client has gone.
        """
        with stream.lock:
            if not stream.is_withdrawn:
                stream.source.setblocking(False)
        try:
            while not (stream.ended or stream.is_withdrawn):
                with stream.lock:
                    is_ready = not stream.is_withdrawn and stream.has_more
                if not is_ready or stream.step():
                    self._hand_over(stream)
                    self._wait_for(stream, heartbeat)
                if stream.unsent:
                    stream.write_unsent()
        finally:
            with stream.lock:
                self._stop(stream)
        if stream.error is not None:
            raise stream.error

    def withdraw(self, stream: RelayedStream) -> None:
        """Let another thread read from the provider; forward() returns. The caller has the stream's lock."""
        self._take_back(stream)
        self._stop(stream)
        stream.is_withdrawn = True

    def _stop(self, stream: RelayedStream) -> None:
        if not stream.is_withdrawn:
            stream.report()
            stream.source.setblocking(True)

    def _hand_over(self, stream: RelayedStream) -> None:
        with stream.lock:
            if stream.is_withdrawn:
                return
            stream.handed_back.acquire(blocking=False)
            number = stream.source.fileno()
            self._streams[number] = stream
            self._epoll.register(number, select.EPOLLIN)

    def _take_back(self, stream: RelayedStream) -> None:
        """Wake the stream's own thread if the relay has the stream. With the stream's lock."""
        number = stream.source.fileno()
        if self._streams.get(number) is stream:
            del self._streams[number]
            self._epoll.unregister(number)
            stream.handed_back.release()

    def _wait_for(self, stream: RelayedStream, heartbeat: bytes) -> None:
        """Sleep until the relay thread hands the stream back, and send heartbeats while the provider is silent."""
        wait = self._heartbeat_seconds
        while not stream.is_withdrawn and not stream.handed_back.acquire(timeout=wait):
            remaining = self._heartbeat_seconds - (time.monotonic() - stream.last_write)
            if remaining <= 0 and heartbeat:
                stream.send_heartbeat(heartbeat)
            wait = remaining if remaining > 0 else self._heartbeat_seconds

    def _run(self) -> None:
        while True:
            for number, _ in self._epoll.poll():
                stream = self._streams.get(number)
                if stream is not None and not stream.step():  # None: it was withdrawn in this moment
                    with stream.lock:
                        self._take_back(stream)
