"""A closed-loop load generator: N keep-alive connections for T seconds, every answer checked.

It prints `start` when the warm-up is over, `stop` when the time is up, and then the results as JSON; between
the two lines the parent reads the server's CPU time. An answer counts only if it is a 200 with the expected
header, length and marker, so that errors cannot look fast. Chunks count as they arrive, because streams
that run in step would otherwise fall into the window or out of it all at once.
"""

import argparse
import asyncio
import gc
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bench.standin import MARKER

RECONNECT_AFTER = 0.02
DRAIN_TIMEOUT = 15
CHUNKED_END = b"\r\n0\r\n\r\n"
DONE = b"data: [DONE]"
# Digits of the counter that makes requests unique; fixed, so that every request has the same length.
COUNTER_DIGITS = 16


@dataclass
class Tally:
    """What was counted since the warm-up ended."""

    measuring: bool = False
    requests: int = 0
    chunks: int = 0
    latencies: list[float] = field(default_factory=list)
    first_chunks: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    sample: str = ""

    def wrong(self, kind: str, answer: bytes = b"") -> None:
        """Count an answer that is not what it should be; the first is kept for the report."""
        if self.measuring:
            self.errors[kind] += 1
            self.sample = self.sample or answer[:600].decode("latin-1")

    def results(self, seconds: float) -> dict[str, Any]:
        """The numbers as the parent reads them; times in milliseconds."""
        return {
            "seconds": seconds,
            "requests": self.requests,
            "chunks": self.chunks,
            "errors": sum(self.errors.values()),
            "errorKinds": dict(self.errors),
            "statuses": {str(status): count for status, count in self.statuses.items()},
            "sample": self.sample,
            "rps": self.requests / seconds,
            **percentiles("", self.latencies),
            **percentiles("firstChunk", self.first_chunks),
        }


def percentiles(prefix: str, seconds: list[float]) -> dict[str, float | None]:
    """p50 and p99 in milliseconds."""
    ordered = sorted(seconds)

    def at(share: float) -> float | None:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000 if ordered else None

    return {prefix + "P50" if prefix else "p50": at(0.5), prefix + "P99" if prefix else "p99": at(0.99)}


class Requests:
    """Makes the bytes of each request: all alike, or each with a number that was never used before."""

    def __init__(self, *, path: str, host: str, body: dict[str, Any], key: str, unique: bool) -> None:
        mark = "0" * COUNTER_DIGITS
        raw = json.dumps(body | {"messages": [{"role": "user", "content": prompt(mark)}]}).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(raw)}\r\n\r\n"
        )
        self.prefix, self.suffix = (head.encode() + raw).split(mark.encode())
        self.unique = unique
        # Microseconds since 1970: no two runs send the same request, even against a cache that persists.
        self.number = time.time_ns() // 1000 if unique else 1

    def next(self) -> bytes:
        self.number += self.unique
        return b"%b%016d%b" % (self.prefix, self.number, self.suffix)


def prompt(mark: str) -> str:
    """A question that brings the request's body to the usual 350 bytes."""
    return f"Request {mark}: " + "in one short paragraph, why do rivers meander? " * 4


class Client(asyncio.Protocol):
    """One connection that sends the next request as soon as an answer is complete."""

    def __init__(self, load: "Load") -> None:
        self.load = load
        self.tally = load.tally
        self.buffer = bytearray()
        self.head_end = -1
        self.first_chunk = 0.0
        self.started = 0.0
        self.scanned = 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.send()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.started:
            self.load.busy -= 1
            self.tally.wrong("connection lost", bytes(self.buffer))
        if not self.load.over:
            self.load.reconnect()

    def send(self) -> None:
        self.buffer.clear()
        self.head_end = -1
        self.first_chunk = 0.0
        self.scanned = 0
        self.load.busy += 1
        self.started = time.perf_counter()
        self.transport.write(self.load.requests.next())

    def data_received(self, data: bytes) -> None:
        buffer = self.buffer
        buffer += data
        if self.head_end < 0:
            self.head_end = buffer.find(b"\r\n\r\n") + 4
            if self.head_end < 4:
                self.head_end = -1
                return
            self.read_head()
        if not self.first_chunk and len(buffer) > self.head_end:
            self.first_chunk = time.perf_counter()
        if self.load.chunks:
            self.count_chunks()
        if self.complete():
            self.finish(time.perf_counter())

    def count_chunks(self) -> None:
        """Count the markers that have arrived whole since the last time."""
        marker = self.load.marker
        if self.tally.measuring:
            self.tally.chunks += self.buffer.count(marker, self.scanned)
        self.scanned = max(self.scanned, len(self.buffer) - len(marker) + 1)

    def read_head(self) -> None:
        """Note the status and how the body ends."""
        self.head = bytes(self.buffer[: self.head_end]).lower()
        start = self.head.find(b"\r\ncontent-length:")
        self.length = int(self.head[start + 17 : self.head.find(b"\r\n", start + 17)]) if start >= 0 else None

    def complete(self) -> bool:
        if self.length is not None:
            return len(self.buffer) - self.head_end >= self.length
        return self.buffer.endswith(CHUNKED_END)

    def finish(self, now: float) -> None:
        """Check and count the answer, then ask again."""
        if self.tally.measuring:
            self.count(now)
        self.load.busy -= 1
        self.started = 0.0
        if b"\r\nconnection: close" in self.head:
            self.transport.close()
        elif not self.load.over:
            self.send()

    def count(self, now: float) -> None:
        tally = self.tally
        status = int(self.head[9:12])
        if status != 200:
            tally.statuses[status] += 1
            return tally.wrong(f"status {status}", bytes(self.buffer))
        if problem := self.load.check(self.head, bytes(self.buffer[self.head_end :]), self.length is None):
            return tally.wrong(problem, bytes(self.buffer))
        tally.requests += 1
        # Requests that began during the warm-up count as served, yet their start lies outside the window.
        tally.latencies.append(now - self.started)
        if self.load.chunks:
            tally.first_chunks.append(self.first_chunk - self.started)


class Load:
    """The connections of one run, and what their answers must look like."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.host, self.port = options.host, options.port
        self.connections = options.connections
        self.chunks = options.chunks
        self.length = options.length
        self.marker = options.marker.encode()
        self.header = options.header.lower().encode()
        self.tally = Tally()
        self.over = False
        self.busy = 0
        body = {"model": options.model}
        if self.chunks:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        address = f"{self.host}:{self.port}"
        self.requests = Requests(path=options.path, host=address, body=body, key=options.key, unique=options.unique)
        self.loop = asyncio.get_running_loop()
        self.tasks: set[asyncio.Task[None]] = set()

    def check(self, head: bytes, body: bytes, chunked: bool) -> str:
        """What is wrong with a 200 answer, or nothing."""
        if self.header not in head:
            return "header missing"
        if self.chunks:
            return self.check_stream(body)
        body = unchunked(body) if chunked else body
        if self.length and len(body) != self.length:
            return f"length {len(body)}"
        return "" if self.marker in body else "marker missing"

    def check_stream(self, body: bytes) -> str:
        """What is wrong with the body of a stream, or nothing."""
        if (count := body.count(self.marker)) != self.chunks:
            return f"{count} chunks"
        return "" if DONE in body and b'"total_tokens"' in body else "end missing"

    async def connect(self) -> None:
        """Open a connection, again and again while the server refuses."""
        while not self.over:
            try:
                await self.loop.create_connection(partial(Client, self), self.host, self.port)
                return
            except OSError:
                self.tally.wrong("connection refused")
                await asyncio.sleep(RECONNECT_AFTER)

    def reconnect(self) -> None:
        task = self.loop.create_task(self.connect())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def drain(self) -> None:
        """Let the last answers arrive: a server left in the lurch would still be busy in the next run."""
        deadline = self.loop.time() + DRAIN_TIMEOUT
        while self.busy and self.loop.time() < deadline:
            await asyncio.sleep(0.02)

    async def run(self, warmup: float, seconds: float) -> dict[str, Any]:
        """Load the server, and report on the time after the warm-up."""
        await asyncio.gather(*(self.connect() for _ in range(self.connections)))
        await asyncio.sleep(warmup)
        self.tally.measuring = True
        started = say("start")
        await asyncio.sleep(seconds)
        self.tally.measuring = False
        stopped = say("stop")
        self.over = True
        await self.drain()
        return self.tally.results(stopped - started)


def unchunked(body: bytes) -> bytes:
    """The content of a body in chunks."""
    content = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        content, body = content + rest[:length], rest[length + 2 :] if length else b""
    return content


def say(word: str) -> float:
    """Tell the parent, and return the moment."""
    print(word, flush=True)
    return time.perf_counter()


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    return await Load(options).run(options.warmup, options.seconds)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--path", required=True)
    parser.add_argument("--key", default="none", help="bearer token")
    parser.add_argument("--model", default="standin")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--warmup", type=float, default=1)
    parser.add_argument("--unique", action="store_true", help="no two requests alike")
    parser.add_argument("--length", type=int, default=0, help="bytes that a body must have")
    parser.add_argument("--marker", default=MARKER.decode(), help="text that a body must hold")
    parser.add_argument("--header", default="", help="text that the head of an answer must hold")
    parser.add_argument("--chunks", type=int, default=0, help="content chunks that a stream must have")
    return parser.parse_args(arguments)


def main() -> None:
    gc.disable()  # runs last seconds; a collection would show in the latencies
    print(json.dumps(asyncio.run(measure(parse(sys.argv[1:])))), flush=True)


if __name__ == "__main__":
    main()
