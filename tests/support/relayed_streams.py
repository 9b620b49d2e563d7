"""A stream between two pairs of sockets, and a relay that carries it."""

import json
import socket
import threading
from contextlib import suppress
from types import SimpleNamespace

from gateway_project.server.sockets import ReaderPace, SlowReaders
from gateway_project.work import exchange
from gateway_project.work.streaming.relay import RelayedStream
from providers.formats import FORMATS
from providers.formats.dialect import WorkRequest
from providers.transport.calls import Call
from providers.transport.http_response import HTTPResponse
from providers.transport.provider_response import Connection, ProviderResponse
from tests.support.pace import patience

SILENCE = 0.1


class Road:
    """A provider's socket and a client's, and a stream between them that ends with the word "end"."""

    def __init__(self, resources):
        self.provider, self.source = map(resources.enter_context, socket.socketpair())
        self.far, near = map(resources.enter_context, socket.socketpair())
        self.far.settimeout(30)
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        self.call = Call(client=near, total_seconds=60)
        self.call.attach(self.source)
        self.forwarded = []
        self.client_seconds = 60
        self.reader = SimpleNamespace(is_over=False)
        response = SimpleNamespace(source=self.source, has_more=False, record_forwarded=lambda size, unread: None)
        self.stream = SimpleNamespace(reader=self.reader, provider_response=response, template=None)

    def relayed(self, chunks):
        readers = SlowReaders(places=8, client_seconds=self.client_seconds, bytes_per_second=10**9)
        pace = ReaderPace(readers, self.call.client, self)
        pace.call = self.call
        return RelayedStream(self.stream, self.call, chunks, self.forwarded.extend, pace)

    def chunks(self):
        while not self.reader.is_over:
            try:
                data = self.source.recv(1000)
            except BlockingIOError:
                yield None
                continue
            self.call.note_arrival()
            self.call.check()
            if not data:
                raise ValueError("it was cut")
            self.reader.is_over = data.endswith(b"end")
            yield data

    def received(self):
        """All that has come to the client, out of its chunks of HTTP, once the stream has ended."""
        self.call.client.shutdown(socket.SHUT_WR)
        return self.receiving()

    def receiving(self):
        """The same as it comes, until somebody ends what is written to the client."""
        raw, pieces = self.far.makefile("rb"), []
        while size := raw.readline():
            pieces.append(raw.read(int(size, 16)))
            assert raw.read(2) == b"\r\n"
        return pieces


def carried(relay, road, heartbeat=b""):
    """Carry a stream in a thread of its own; what it came to is in `raised` when it is joined."""

    def run():
        try:
            relay.forward(road.relayed(road.chunks()), heartbeat)
        except Exception as error:
            thread.raised = error

    thread = threading.Thread(target=run, daemon=True)
    thread.raised = None
    thread.start()
    return thread


def feed(road, data):
    """Send it to the relay from a thread of its own, for as long as somebody takes it."""

    def run():
        with suppress(OSError):
            road.provider.sendall(data)

    feeder = threading.Thread(target=run, daemon=True)
    feeder.start()
    return feeder


def joined(thread):
    thread.join(patience(10))
    assert not thread.is_alive()
    return thread.raised


def event(text):
    return b'data: {"choices": [{"delta": {"content": %b}, "finish_reason": null}]}\n\n' % json.dumps(text).encode()


def framed(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


class Stream(Road):
    """A road on which a provider of OpenAI's shape answers, read as it is on a request's way."""

    def __init__(self, resources, *, limit=1_000_000, source=None):
        super().__init__(resources)
        self.provider, self.source = source or (self.provider, self.source)
        self.call.client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 100_000)
        self.provider.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + framed(event("first")))
        self.reply = HTTPResponse(self.source, limit=limit, on_bytes=self.call.note_arrival)
        self.reply.read_head()
        response = ProviderResponse(None, Connection("", self.source), self.reply, self.call)
        self.reader = FORMATS["openai"].native_reader(WorkRequest("chat", "m", {}, b""))
        self.stream = exchange.Stream(response, response.pieces(), self.reader, b"", "text/event-stream")

    def brings(self, chunk):
        """The provider sends a chunk, and the client has it."""
        self.provider.sendall(chunk)
        result = b""
        while not result.endswith(chunk):
            result += self.far.recv(1000)

    def chunks(self):
        for piece in self.stream.pieces:
            yield self.reader.feed(piece) if piece else None
            if self.reader.is_over:
                return
