"""The stream of a request that others may come to follow."""

import logging
import threading
from collections.abc import Callable, Iterator

from django.conf import settings

from gateway_project.work.exchange import Exchange
from gateway_project.work.streaming.broadcast import Broadcast, Subscription
from gateway_project.work.streaming.relay import Relay, RelayedStream
from providers.transport.calls import Call

log = logging.getLogger("gateway.work")

JOIN_SECONDS = 0.2
OVER = b"over"  # compared by identity


class LiveStream:
    """The stream of a request that others may come to follow.

    `lock` is held by whoever reads from the provider. `carry` reads the whole stream for the subscribers of a
    broadcast, in a thread of its own.
    """

    __slots__ = ("_carry", "_exchange", "_is_closed", "_is_wanted", "_max_kept", "_relay", "lock", "relayed",
                 "subscription")  # fmt: skip

    def __init__(self, exchange: Exchange, relay: Relay, max_kept: int, carry: "Callable[[LiveStream], None]") -> None:
        self._exchange, self._relay, self._max_kept, self._carry = exchange, relay, max_kept, carry
        self.lock = threading.Lock()
        self.relayed: RelayedStream | None = None
        self.subscription: Subscription | None = None  # of its own client, once others follow
        self._is_closed = self._is_wanted = False

    @property
    def has_begun(self) -> bool:
        """Whether it has a chunk: until then an error may still lead followers to another provider."""
        return self._exchange.delivery.size > 0

    @property
    def is_too_long(self) -> bool:
        """Whether its beginning is not kept as a whole, so that nobody else can follow it from there."""
        return self._exchange.delivery.size > self._max_kept

    @property
    def may_be_cached(self) -> bool:
        """Whether it is short enough so far."""
        return self._exchange.delivery.size <= settings.GATEWAY_CACHE_MAX_ENTRY_BYTES

    def follow(self, call: Call) -> Subscription | None:
        """A follower's subscription from the beginning on; None if that is not possible, or not yet."""
        if self.subscription is None:
            self._is_wanted = True  # whoever has the lock may hold it until the next chunk
            if self.lock.acquire(timeout=JOIN_SECONDS):
                try:
                    self._share()
                finally:
                    self.lock.release()
        own = self.subscription
        return None if own is None or self.is_too_long else own.broadcast.subscribe(call)

    def own_chunks(self, chunks: Iterator[bytes | None]) -> Iterator[bytes | None]:
        """The chunks, as long as nobody follows."""
        while (chunk := self._next_chunk(chunks)) is not OVER:
            yield chunk

    def relay(self, create: Callable[[], RelayedStream]) -> RelayedStream | None:
        """The stream that the relay is to read from the provider; None if somebody follows already.

        It is created here because the thread of those who follow may have closed the provider's answer meanwhile.
        """
        with self.lock:
            self.relayed = create() if self.subscription is None else None
            return self.relayed

    def close(self) -> bool:
        """Admit no followers from now on; False if there are some already, who go on without this request."""
        with self.lock:
            self._is_closed = self.subscription is None
            self.relayed = None  # it refers to this stream, and would leave both to the garbage collector
            return self._is_closed

    def _next_chunk(self, chunks: Iterator[bytes | None]) -> bytes | None:
        with self.lock:
            if self.subscription is not None:
                return OVER
            self._is_closed = True  # unless it goes on
            chunk = next(chunks, OVER)
            if chunk is not OVER:
                self._is_closed = False
                if self._is_wanted:
                    self._share()
            return chunk

    def _share(self) -> None:
        """Hand the stream to a thread of its own, and make its client a subscriber. With the lock."""
        exchange, relayed = self._exchange, self.relayed
        if self._is_closed or self.subscription is not None or (relayed is not None and relayed.ended):
            return
        if relayed is not None:
            relayed.report()
        if self.is_too_long:
            return
        thread = threading.Thread(target=self._run, name="broadcast", daemon=True)
        try:
            thread.start()  # it waits for the lock
        except RuntimeError:
            log.warning("No thread can be started, so a stream waits for the end of an identical one.")
            return
        if (client_call := exchange.call.detach_client()) is None:
            return
        assert exchange.attempts.stream is not None
        exchange.connection.bind_pace(client_call)
        names = exchange.attempts.dropped, exchange.attempts.added
        broadcast = Broadcast(exchange.attempts.stream, exchange.delivery.chunks, exchange.call, *names)
        self.subscription = broadcast.subscribe(client_call, len(exchange.delivery.chunks))
        exchange.delivery.broadcast = broadcast
        if relayed is not None:
            self._relay.withdraw(relayed)
            self.relayed = None

    def _run(self) -> None:
        with self.lock:
            is_shared = self.subscription is not None
        if is_shared:
            self._carry(self)
