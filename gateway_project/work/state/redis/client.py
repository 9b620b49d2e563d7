"""This process's connections to Redis. While Redis is down commands fail at once; only the first one waits."""

import hashlib
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue

from django_redis import get_redis_connection
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeout

from gateway_project.work.state.redis import scripts
from gateway_project.work.state.redis.admission_script import ADMIT
from gateway_project.work.state.redis.connection import RedisConnection, RedisReplyError, Reply, Word, Words

log = logging.getLogger("gateway.redis")

WAIT_FOR_CONNECTION_SECONDS = 1.0
SCRIPTS = (ADMIT, *scripts.ALL)


class RedisUnavailable(Exception):
    """Redis did not answer in time, or refused the command."""


class RedisClient:
    """Runs commands and scripts. Redis is down while it does not answer, refusing while it answers with errors."""

    def __init__(self, *, connections: int, timeout: float) -> None:
        self._timeout = timeout
        self._client = get_redis_connection("default")
        self._idle: deque[RedisConnection] = deque()  # a stack: opening a connection costs as much as many requests
        self._permits: SimpleQueue[None] = SimpleQueue()
        for _ in range(connections):
            self._permits.put(None)
        self._digests = {text: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest() for text in SCRIPTS}
        self._down_since: float | None = None
        self._refusing = False

    @property
    def is_down(self) -> bool:
        return self._down_since is not None

    @property
    def degraded(self) -> bool:
        return self.is_down or self._refusing

    def probe(self, words: Words, bring_up_to_date: Callable[[], None]) -> None:
        """Try a command and bring Redis up to date; only when both succeed does it count as available again."""
        try:
            self.exchange(words, fresh=self.is_down)
            bring_up_to_date()
        except RedisReplyError as error:
            self._mark_refusing(error)
            return
        except (RedisError, OSError) as error:
            self._mark_down(error)
            return
        except RedisUnavailable:  # another thread has just marked it as down
            return
        if self.degraded:
            log.warning("Redis is available again.")
        self._down_since, self._refusing = None, False

    def begin(self, script: str, keys: Sequence[str], arguments: Sequence[Word]) -> Callable[[], bool]:
        """Send a script. What is returned has to be called: it waits until the script has run.

        Then it returns True, and False if Redis is unavailable. Until it is called, it keeps a connection.
        """
        connection = None
        if self._down_since is None:
            try:
                connection = self._send(("EVALSHA", self._digests[script], len(keys), *keys, *arguments))
            except (BlockingIOError, TimeoutError, RedisTimeout) as error:
                self._mark_down(error)
            except (OSError, RedisError, RedisUnavailable):
                pass  # the connection was closed while idle: it is sent again
        return partial(self.try_run, script, keys, arguments, connection)

    def try_run(
        self, script: str, keys: Sequence[str], arguments: Sequence[Word], connection: RedisConnection | None = None
    ) -> bool:
        """Run a script; False if Redis is unavailable."""
        try:
            self.run(script, keys, arguments, connection=connection)
        except RedisUnavailable:
            return False
        return True

    def run(
        self, script: str, keys: Sequence[str], arguments: Sequence[Word], connection: RedisConnection | None = None
    ) -> Reply:
        """A script's reply. Raises RedisUnavailable, also if Redis refuses the script.

        `connection` is the one over which it has been sent already.
        """
        try:
            return self._command(("EVALSHA", self._digests[script], len(keys), *keys, *arguments), connection)
        except RedisReplyError as error:
            if not str(error).startswith("NOSCRIPT"):
                raise self._mark_refusing(error) from error
        try:  # Redis was restarted, or meets this script for the first time
            return self.command("EVAL", script, len(keys), *keys, *arguments)
        except RedisReplyError as error:
            raise self._mark_refusing(error) from error

    def command(self, *words: Word) -> Reply:
        """One command's reply. Raises RedisUnavailable, at once while Redis is down, and RedisReplyError."""
        return self._command(words)

    def _command(self, words: Words, connection: RedisConnection | None = None) -> Reply:
        if connection is None and self._down_since is not None:
            raise RedisUnavailable
        try:
            return self._reply(connection or self._send(words))
        except (BlockingIOError, TimeoutError, RedisTimeout) as error:
            raise self._mark_down(error) from error
        except (OSError, RedisError):
            pass  # the connection was closed while idle: try a new one
        try:
            return self.exchange(words, fresh=True)
        except (OSError, RedisError) as error:
            raise self._mark_down(error) from error

    def exchange(self, words: Words, *, fresh: bool = False) -> Reply:
        """One attempt; with `fresh` on a new connection, even while Redis is down.

        Raises OSError, RedisError and RedisReplyError.
        """
        return self._reply(self._send(words, fresh=fresh))

    def _send(self, words: Words, *, fresh: bool = False) -> RedisConnection:
        """A connection that has sent a command; it has to be passed to _reply(). Raises OSError and RedisError."""
        try:
            self._permits.get(timeout=WAIT_FOR_CONNECTION_SECONDS)
        except Empty:
            raise BlockingIOError("all connections are busy") from None
        try:
            if fresh:  # one was dead, and the others are as old
                self._idle.clear()
            elif self._down_since is not None:  # it went down while this thread waited for its permit
                raise RedisUnavailable
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._connect()
            try:
                connection.send(words)
            except BaseException:
                connection.close()
                raise
        except BaseException:
            self._permits.put(None)
            raise
        return connection

    def _reply(self, connection: RedisConnection) -> Reply:
        """The reply over this connection. Raises OSError, RedisError and RedisReplyError."""
        try:
            reply = connection.read_reply()
        except RedisReplyError:
            self._idle.append(connection)
            raise
        except BaseException:
            connection.close()
            raise
        else:
            self._idle.append(connection)
            return reply
        finally:
            self._permits.put(None)

    def _connect(self) -> RedisConnection:
        # Of the pool's class, but not made by the pool, which keeps each one for ever with a buffer of 16 KB.
        pool = self._client.connection_pool
        return RedisConnection(pool.connection_class(**pool.connection_kwargs), self._timeout)

    def _mark_refusing(self, error: RedisReplyError) -> RedisUnavailable:
        """Redis answers with an error: it is full, read-only, or holds another type under our key."""
        if not self._refusing:
            self._refusing = True
            log.warning(
                "Redis refuses commands (%s). Until it accepts them again, requests are served without Redis.", error
            )
        return RedisUnavailable()

    def _mark_down(self, error: Exception) -> RedisUnavailable:
        if self._down_since is None:
            self._down_since = time.monotonic()
            log.warning(
                "Redis does not answer (%s). The cache is off, and each process enforces its share of the limits.",
                self._describe(error),
            )
        return RedisUnavailable()

    def _describe(self, error: Exception) -> str:
        # What the kernel, or TLS, says when a read has taken too long.
        if isinstance(error, TimeoutError) or (isinstance(error, BlockingIOError) and error.errno):
            return f"no reply within {self._timeout:g} s"
        return str(error) or type(error).__name__
