"""One process's connections to Redis, and whether it is there: who asks waits once, and not again while it is away."""

import hashlib
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from django_redis import get_redis_connection
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeout

from gateway_project.work import redis_admission, redis_scripts
from gateway_project.work.redis_wire import RedisSays, Wire

log = logging.getLogger("gateway.redis")

WAIT_FOR_CONNECTION_SECONDS = 1.0
SCRIPTS = (*redis_admission.ALL, *redis_scripts.ALL)


class Away(Exception):
    """Redis did not answer in time."""


class Link:
    """Runs commands and scripts. Redis is down while it does not answer, and refusing while it answers with errors."""

    def __init__(self, *, connections: int, timeout: float) -> None:
        self._timeout = timeout
        self._client = get_redis_connection("default")
        self._idle: deque[Wire] = deque()  # the last used first: opening one costs as much as many requests
        self._permits: SimpleQueue[None] = SimpleQueue()
        for _ in range(connections):
            self._permits.put(None)
        self._digests = {text: hashlib.sha1(text.encode()).hexdigest() for text in SCRIPTS}  # noqa: S324
        self._down_since: float | None = None
        self._refusing = False

    @property
    def is_down(self) -> bool:
        return self._down_since is not None

    @property
    def degraded(self) -> bool:
        return self.is_down or self._refusing

    def probe(self, words: Sequence[Any], bring_up_to_date: Callable[[], None]) -> None:
        """Whether Redis takes a command, and what it has to be told: before that it does not count as back."""
        try:
            self.exchange(words, fresh=self.is_down)
            bring_up_to_date()
        except RedisSays as said:
            self._refused(said)
            return
        except (RedisError, OSError) as error:
            self._gone(error)
            return
        except Away:  # another thread has just found out
            return
        if self.degraded:
            log.warning("Redis serves again.")
        self._down_since, self._refusing = None, False

    def quietly(self, script: str, keys: Sequence[str], arguments: Sequence[Any]) -> bool:
        """Run a script; whether it was run."""
        try:
            self.run(script, keys, arguments)
        except Away:
            return False
        return True

    def run(self, script: str, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        """A script's reply. Raises Away, also where Redis refuses it."""
        digest = self._digests[script]
        try:
            return self.command("EVALSHA", digest, len(keys), *keys, *arguments)
        except RedisSays as said:
            if not str(said).startswith("NOSCRIPT"):
                raise self._refused(said) from said
        try:  # Redis was restarted, or meets this script for the first time
            return self.command("EVAL", script, len(keys), *keys, *arguments)
        except RedisSays as said:
            raise self._refused(said) from said

    def command(self, *words: Any) -> Any:
        """One command's reply. Raises Away, at once while Redis is known to be away, and RedisSays."""
        if self.is_down:
            raise Away
        try:
            return self.exchange(words)
        except (BlockingIOError, TimeoutError, RedisTimeout) as error:
            raise self._gone(error) from error
        except (OSError, RedisError):
            pass  # the connection was closed while it was idle: a new one decides
        try:
            return self.exchange(words, fresh=True)
        except (OSError, RedisError) as error:
            raise self._gone(error) from error

    def exchange(self, words: Sequence[Any], *, fresh: bool = False) -> Any:
        """One try, also while Redis is down if the connection is to be fresh. Raises OSError, RedisError, RedisSays."""
        try:
            self._permits.get(timeout=WAIT_FOR_CONNECTION_SECONDS)
        except Empty:
            raise BlockingIOError("all connections are busy") from None
        try:
            if fresh:  # one was found dead, and the others are as old
                self._idle.clear()
            elif self.is_down:  # others found out while this one waited for its turn
                raise Away
            wire = self._wire()
            try:
                reply = wire.ask(words)
            except RedisSays:
                self._idle.append(wire)
                raise
            except BaseException:
                wire.close()
                raise
            self._idle.append(wire)
            return reply
        finally:
            self._permits.put(None)

    def _wire(self) -> Wire:
        try:
            return self._idle.pop()
        except IndexError:
            # Of the pool's kind, but not made by it: it would remember each one, with a buffer of 16 KB, for ever.
            pool = self._client.connection_pool
            return Wire(pool.connection_class(**pool.connection_kwargs), self._timeout)

    def _refused(self, said: RedisSays) -> Away:
        """Redis answers and will not do it: it is full, read-only, or holds something else under our key."""
        if not self._refusing:
            self._refusing = True
            log.warning("Redis refuses (%s): requests are served without it until it takes them.", said)
        return Away()

    def _gone(self, error: Exception) -> Away:
        if self._down_since is None:
            self._down_since = time.monotonic()
            log.warning(
                "Redis does not answer (%s): no cache, and each process keeps to its share of the limits.",
                self._told(error),
            )
        return Away()

    def _told(self, error: Exception) -> str:
        # What the kernel, or TLS, says when a read has taken too long.
        if isinstance(error, TimeoutError) or (isinstance(error, BlockingIOError) and error.errno):
            return f"silent for {self._timeout:g} s"
        return str(error) or type(error).__name__
