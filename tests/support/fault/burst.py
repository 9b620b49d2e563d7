"""A burst of streams: a provider and as many clients as wanted, in one event loop."""

import asyncio
import json
import os
from contextlib import suppress
from typing import Any

from tests.support.streaming import DONE, event, part

CHUNKS = 65


def answer_bytes(size: int) -> bytes:
    """A whole HTTP response: a stream of about this many bytes."""
    piece = size // CHUNKS
    frame = len(event(part("")))
    events = [event(part(os.urandom((piece - frame) // 2).hex())) for _ in range(CHUNKS - 1)]
    chunks = [*events, event(part("", "stop")), DONE.encode()]
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


class Burst:
    """Sends different requests for streams to a gateway, so many at a time; the provider answers with `size` bytes."""

    def __init__(self, *, size: int) -> None:
        self._answer = answer_bytes(size)
        self.port = 0
        self.failures: list[bytes] = []

    async def serve(self) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def send(self, port: int, key: str, model: str, *, count: int, at_once: int) -> None:
        """Send `count` requests; those that were not answered whole are in `failures`."""
        numbers = iter(range(count))
        await asyncio.gather(*(self._client(port, key, model, numbers) for _ in range(at_once)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await _read_message(reader)
                writer.write(self._answer)
                await writer.drain()
        writer.close()

    async def _client(self, port: int, key: str, model: str, numbers: Any) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in numbers:
            prompt = f"burst {number} {os.urandom(8).hex()}"
            body = {"model": model, "stream": True, "messages": [{"role": "user", "content": prompt}]}
            data = json.dumps(body).encode()
            head = (
                "POST /work HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n"
                f"Authorization: Bearer {key}\r\nContent-Length: {len(data)}\r\n\r\n"
            )
            writer.write(head.encode() + data)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                self.failures.append(head)
                return
            said = await reader.readuntil(b"0\r\n\r\n")
            if b"[DONE]" not in said:
                self.failures.append(said[-300:])
        writer.close()


async def _read_message(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
    await reader.readexactly(int(length.split(b":")[1]))
