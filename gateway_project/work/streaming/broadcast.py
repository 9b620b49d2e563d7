"""One provider's stream for several clients: the request that asked for it, and identical ones that follow it live.

As long as nobody follows, the stream belongs to its own request. With the first follower a thread of its own begins to
read it, and the client of its request becomes one subscriber of several: none of them is slowed or ended by another.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from gateway_project.errors import GatewayError, ServiceUnavailable
from providers.transport.calls import Call

if TYPE_CHECKING:
    from gateway_project.work.cache.packing import CachedAnswer
    from gateway_project.work.streaming.stream import Stream

WINDOW_BYTES = 16 * 1024 * 1024  # for slow subscribers, of an answer that is longer than what is kept of it
MAX_WRITE_BYTES = 64 * 1024  # at once, of what a subscriber has not read yet


class Result(NamedTuple):
    """How a provider's stream ended: with a whole answer, or with an error."""

    answer: "CachedAnswer | None" = None
    error: GatewayError | None = None


class Broadcast:
    """The chunks of a stream in progress, for any number of subscribers at positions of their own.

    They read the chunks that are kept for the cache. Of what is beyond these the last WINDOW_BYTES are kept: the
    fastest subscriber is waited for, slower ones miss what leaves this window.
    """

    def __init__(self, stream: "Stream", chunks: list[bytes], call: Call, dropped: str, added: str = "") -> None:
        self.stream = stream
        self.dropped, self.added = dropped, added  # as in the exchange
        self.result: Result | None = None  # once it has ended
        self._chunks = chunks
        self._call = call
        self._window: deque[bytes] = deque()
        self._window_bytes = self._lost = 0  # `_lost`: the number of chunks that have left the window
        self._changed = threading.Condition()
        call.wake = self.wake
        self._subscriptions: set[Subscription] = set()
        self._is_abandoned = self._has_half_ended = False

    def publish(self, surplus: bytes) -> None:
        """Wake the subscribers for a new chunk; `surplus` is the part of it that is not kept."""
        with self._changed:
            if surplus:
                self._window.append(surplus)
                self._window_bytes += len(surplus)
            self._changed.notify_all()
            while self._window_bytes > WINDOW_BYTES and len(self._window) > 1:
                self._call.pause(None)  # while all of them are slow, the provider cannot be
                self._changed.wait_for(self._may_lose_a_chunk)
                self._call.resume()
                self._window_bytes -= len(self._window.popleft())
                self._lost += 1

    def subscribe(self, call: Call, position: int = 0) -> "Subscription | None":
        """A new subscriber, to whom this call belongs; None if the stream is over or about to end."""
        with self._changed:
            if self.result is not None or self._is_abandoned:
                return None
            subscription = Subscription(self, call, position)
            self._subscriptions.add(subscription)
        return subscription

    def end(self, result: Result) -> None:
        """End the stream for all subscribers, after what they have not read yet."""
        with self._changed:
            self.result = result
            self._changed.notify_all()

    def end_half(self) -> bool:
        """Note that the provider's side, or the client of its request, has ended; whether the other one had before.

        The later one writes the log entry of both.
        """
        with self._changed:
            had_ended, self._has_half_ended = self._has_half_ended, True
            return had_ended

    def error_event(self, write: Callable[[], bytes]) -> bytes:
        """What `write` returns; it uses the stream's reader, which serves one subscriber at a time."""
        with self._changed:
            return write()

    def wake(self) -> None:
        """Let the subscribers look whether their calls have been ended."""
        with self._changed:
            self._changed.notify_all()

    def leave(self, subscription: "Subscription") -> None:
        """One subscriber less; the last one ends the provider's stream, and waits until that is done."""
        with self._changed:
            self._subscriptions.discard(subscription)
            self._changed.notify_all()
            if self._subscriptions or self.result is not None:
                return
            self._is_abandoned = True
        self._call.abandon()
        with self._changed:
            self._changed.wait_for(lambda: self.result is not None)

    def next_data(self, subscription: "Subscription", deadline: float) -> bytes | None:
        """What comes next for a subscriber: b"" if nothing does until the deadline, None at the end."""
        with self._changed:
            while True:
                subscription.call.check()
                if chunks := self._chunks_from(subscription.position):
                    subscription.position += len(chunks)
                    subscription.size += sum(map(len, chunks))
                    if self._window_bytes > WINDOW_BYTES:
                        self._changed.notify_all()  # the provider's side may wait for this
                    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
                if self.result is not None:
                    return None
                if (seconds := deadline - time.monotonic()) <= 0:
                    return b""
                self._changed.wait(seconds)

    def past_chunks(self, position: int) -> list[bytes]:
        """The chunks before a position, as far as they are kept."""
        return self._chunks[:position]

    def _may_lose_a_chunk(self) -> bool:
        """Whether somebody has read the first chunk of the window; with a call that has ended it does not matter."""
        first = len(self._chunks) + self._lost
        return self._call.end is not None or any(subscription.position > first for subscription in self._subscriptions)

    def _chunks_from(self, position: int) -> list[bytes]:
        chunk_count = len(self._chunks)
        if position < chunk_count:
            return _first_chunks(self._chunks, position)
        if (place := position - chunk_count - self._lost) < 0:
            raise ServiceUnavailable("The answer is long, and you read it too slowly. Send the request again.")
        return _first_chunks(self._window, place)


def _first_chunks(chunks: "list[bytes] | deque[bytes]", place: int) -> list[bytes]:
    """The chunks from this place on, up to MAX_WRITE_BYTES; one at least, if there is one."""
    first: list[bytes] = []
    size = 0
    for index in range(place, len(chunks)):
        size += len(chunks[index])
        if first and size > MAX_WRITE_BYTES:
            break
        first.append(chunks[index])
    return first


class Subscription:
    """One client's place in a broadcast; afterwards `error` and `outcome` say if it ended before the stream did."""

    __slots__ = ("broadcast", "call", "error", "outcome", "position", "size")

    def __init__(self, broadcast: Broadcast, call: Call, position: int) -> None:
        self.broadcast, self.call, self.position = broadcast, call, position
        self.size = 0  # in bytes, of what it has read
        self.error: GatewayError | None = None
        self.outcome = ""
        call.wake = broadcast.wake

    def chunks(self, heartbeat_seconds: float) -> Iterator[bytes]:
        """The chunks, several at once if they have come meanwhile; b"" after each silence of so many seconds.

        Raises Interrupted if its call ends, and ServiceUnavailable if it has missed something.
        """
        while (data := self.broadcast.next_data(self, time.monotonic() + heartbeat_seconds)) is not None:
            yield data

    @property
    def last_chunk(self) -> bytes:
        """The last one that it has read, or its client before it; b"" at the beginning."""
        return b"".join(self.broadcast.past_chunks(self.position)[-1:])

    def end(self, error: GatewayError, outcome: str) -> None:
        """Note that this client's part ends before the stream."""
        self.error, self.outcome = error, outcome

    def leave(self) -> None:
        self.call.wake = None
        self.broadcast.leave(self)
