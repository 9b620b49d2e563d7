"""A provider stand-in that costs next to nothing: raw asyncio, one canned answer for each kind of path.

`/fast/…` answers at once, `/slow/…` after a second, `/paced/…` and `/long/…` stream at a model's pace and
`/brief/…` streams little. `GET /stats` tells the requests and the most that were in flight, and forgets the latter.
"""

import argparse
import asyncio
import gc
import json
import signal
from dataclasses import dataclass
from typing import Self

# Present in every answer and in every content chunk, so that the load can tell them from errors.
MARKER = b"stand-in-answer"
ANSWER_BYTES = 644


@dataclass(frozen=True)
class Whole:
    """A complete answer after so many seconds."""

    delay: float = 0.0


@dataclass(frozen=True)
class Stream:
    """A first chunk after so many seconds, then `count` chunks `gap` seconds apart."""

    first: float
    count: int
    gap: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """`0.1,50,0.01` as a stream."""
        first, count, gap = text.split(",")
        return cls(float(first), int(count), float(gap))


BEHAVIOURS: dict[bytes, Whole | Stream] = {
    b"fast": Whole(),
    b"slow": Whole(1.0),
    b"paced": Stream(0.1, 50, 0.01),
    b"long": Stream(0.1, 500, 0.01),
    b"brief": Stream(0.02, 4, 0.002),
}
KINDS = tuple(kind.decode() for kind in BEHAVIOURS)


def completion() -> bytes:
    """A chat completion of ANSWER_BYTES bytes."""

    def document(content: str) -> bytes:
        message = {"role": "assistant", "content": content, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        usage = {"prompt_tokens": 57, "completion_tokens": 61, "total_tokens": 118}
        head = {"id": "chatcmpl-standin", "object": "chat.completion", "created": 1, "model": "standin"}
        return json.dumps(head | {"choices": [choice], "usage": usage}).encode()

    marker = MARKER.decode()
    return document(marker.ljust(len(marker) + ANSWER_BYTES - len(document(marker)), "."))


def event(choices: list[dict], usage: dict | None = None) -> bytes:
    """One event of a stream."""
    head = {"id": "chatcmpl-standin", "object": "chat.completion.chunk", "created": 1, "model": "standin"}
    return b"data: %b\n\n" % json.dumps(head | {"choices": choices, "usage": usage}).encode()


def chunk(data: bytes) -> bytes:
    """Bytes framed as one HTTP chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


BODY = completion()
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
    len(BODY),
    BODY,
)
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CONTENT = chunk(event([{"index": 0, "delta": {"content": MARKER.decode()}, "finish_reason": None}]))
USAGE = {"prompt_tokens": 57, "completion_tokens": 51, "total_tokens": 108}
# The finish, the usage and the mark in one write, as a provider's last packet often holds them.
STREAM_END = (
    chunk(event([{"index": 0, "delta": {}, "finish_reason": "stop"}]))
    + chunk(event([], USAGE))
    + chunk(b"data: [DONE]\n\n")
    + b"0\r\n\r\n"
)


class Provider(asyncio.Protocol):
    """One client connection."""

    requests = 0
    in_flight = 0
    peak = 0

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.buffer = b""
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self.timer:
            self.timer.cancel()
            self.finished()

    def data_received(self, data: bytes) -> None:
        """Answer every complete request in the buffer."""
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            length = content_length(head)
            if len(self.buffer) < end + 4 + length:
                return
            self.buffer = self.buffer[end + 4 + length :]
            self.answer(head)

    def answer(self, head: bytes) -> None:
        if head.startswith(b"get /stats"):
            return self.send_stats()
        Provider.requests += 1
        Provider.in_flight += 1
        Provider.peak = max(Provider.peak, Provider.in_flight)
        behaviour = BEHAVIOURS[head.split(b"/", 2)[1]]
        if isinstance(behaviour, Stream):
            left = behaviour.count + 1
            self.timer = self.loop.call_later(behaviour.first, self.stream, behaviour, left, self.loop.time())
        elif behaviour.delay:
            self.timer = self.loop.call_later(behaviour.delay, self.finish, WHOLE)
        else:
            self.finish(WHOLE)

    def stream(self, behaviour: Stream, left: int, started: float) -> None:
        """Send the next chunk and plan the one after it by the clock, so that delays do not add up."""
        if left == 0:
            return self.finish(STREAM_END)
        sent = behaviour.count + 1 - left
        self.transport.write(CONTENT if sent else STREAM_HEAD + CONTENT)
        due = started + behaviour.first + (sent + 1) * behaviour.gap
        # The end follows the last chunk at once.
        when = due if left > 1 else self.loop.time()
        self.timer = self.loop.call_at(when, self.stream, behaviour, left - 1, started)

    def finish(self, data: bytes) -> None:
        self.transport.write(data)
        self.finished()

    def finished(self) -> None:
        self.timer = None
        Provider.in_flight -= 1

    def send_stats(self) -> None:
        stats = {"requests": Provider.requests, "inFlight": Provider.in_flight, "peak": Provider.peak}
        Provider.peak = Provider.in_flight
        body = json.dumps(stats).encode()
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


def content_length(head: bytes) -> int:
    """The length that a lower-case request head announces."""
    start = head.find(b"content-length:")
    if start < 0:
        return 0
    end = head.find(b"\r\n", start)
    return int(head[start + 15 : end if end >= 0 else None])


async def serve(port: int) -> None:
    """Listen, say on which port, and run until SIGTERM."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    server = await loop.create_server(lambda: Provider(loop), "127.0.0.1", port, backlog=4096)
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    await stop.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--slow", type=float, help="seconds before a /slow answer")
    parser.add_argument("--paced", type=Stream.parse, metavar="FIRST,COUNT,GAP", help="what /paced streams")
    options = parser.parse_args()
    if options.slow is not None:
        BEHAVIOURS[b"slow"] = Whole(options.slow)
    if options.paced is not None:
        BEHAVIOURS[b"paced"] = options.paced
    gc.disable()  # nothing here makes cycles, and a collection would show in the latencies
    asyncio.run(serve(options.port))


if __name__ == "__main__":
    main()
