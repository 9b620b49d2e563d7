"""A provider whose streams go on, and a client that reads, when the test says so."""

import http.client
import json
import queue
import socket
import threading
from contextlib import suppress

from tests.support.pace import patience
from tests.support.provider import read_headers
from tests.support.streaming import DONE, event, part

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
USAGE = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}}
CUT = b""


class SteppedProvider:
    """Answers each request with a stream that goes on when the test says so."""

    def __init__(self) -> None:
        self.streams: list[SteppedStream] = []
        self._changed = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        threading.Thread(target=self._accept, daemon=True).start()

    def stream(self, number: int = 0) -> "SteppedStream":
        """The stream of the first request, or of a later one, once it has come."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.streams) > number, patience(5)), "no request came"
            return self.streams[number]

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self.streams:
            one.send(CUT)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as reader, suppress(OSError):
            reader.readline()
            headers = {name.lower(): value for name, value in read_headers(reader)}
            reader.read(int(headers["content-length"]))
            stream = SteppedStream()
            with self._changed:
                self.streams.append(stream)
                self._changed.notify_all()
            stream.serve(connection)


class SteppedStream:
    """One stream; `gone` is set when the gateway has hung up on it."""

    def __init__(self) -> None:
        self._steps: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.gone = threading.Event()

    def send(self, *chunks) -> None:
        """Send these chunks, one after the other; CUT ends the connection."""
        for chunk in chunks:
            self._steps.put(chunk if isinstance(chunk, bytes) else event(chunk))

    def finish(self) -> None:
        """Send the end of a good answer."""
        self.send(part("", "stop"), USAGE, DONE.encode())

    def serve(self, connection: socket.socket) -> None:
        connection.sendall(HEAD)
        threading.Thread(target=self._watch, args=[connection], daemon=True).start()
        while chunk := self._steps.get():
            connection.sendall(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            if chunk == DONE.encode():
                connection.sendall(b"0\r\n\r\n")
                return
        connection.shutdown(socket.SHUT_RDWR)

    def _watch(self, connection: socket.socket) -> None:
        with suppress(OSError):
            if connection.recv(1):
                return
        self.gone.set()


class Client:
    """A client of a stream that reads when the test says so."""

    def __init__(self, world, body=None, *, path="/work", head=(), version="1.1", key=None):
        self.id = world.name("live")
        request = {"model": world.model, "stream": True, "max_tokens": 50} | (body or {})
        request.setdefault("messages", [{"role": "user", "content": "Hello!"}])
        data = json.dumps(request).encode()
        lines = [
            f"POST {path} HTTP/{version}", "Host: gateway", f"Authorization: Bearer {key or world.key}",
            "Content-Type: application/json", f"X-Svc-Request-ID: {self.id}", f"Content-Length: {len(data)}", *head,
        ]  # fmt: skip
        self.sock = socket.create_connection(("127.0.0.1", world.gateway.port), timeout=20)
        self.sock.sendall("\r\n".join([*lines, "\r\n"]).encode() + data)
        self.response = http.client.HTTPResponse(self.sock, method="POST")
        self.body = b""

    def begin(self) -> "Client":
        self.response.begin()
        return self

    def read_until(self, words: bytes) -> bytes:
        """What has come, as soon as it has these words."""
        if not self.response.headers:
            self.begin()
        while words not in self.body:
            more = self.response.read1(65536)
            assert more, self.body[-500:]
            self.body += more
        return self.body

    def read(self) -> bytes:
        """All of it, without heartbeats."""
        if not self.response.headers:
            self.begin()
        while more := self.response.read1(1_000_000):
            self.body += more
        return self.body.replace(b": heartbeat\n\n", b"")

    def leave(self) -> None:
        self.response.close()
        self.sock.close()
