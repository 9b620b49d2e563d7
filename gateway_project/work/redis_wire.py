"""One connection to Redis, stripped to a request and its reply.

django-redis and redis-py open it, with everything that its URL and options say. The exchange goes over
its socket: their own way through pool, retries and hooks costs more than twice the CPU of the exchange.
"""

from collections.abc import Sequence
from typing import Any

import hiredis
from redis.connection import Connection

from gateway_project.sockets import bound_waits

READ_SIZE = 4 * 1024  # taken from the heap before each wait


class RedisSays(Exception):
    """An error that Redis answered with; the connection is good."""


class Wire:
    """A connected socket and the reader of its replies."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        connection.connect()
        # Only the socket stays: the connection's own reader would keep 64 KB.
        self._socket, connection._sock = connection._sock, None
        self._reader = hiredis.Reader()
        bound_waits(self._socket, receive=timeout, send=timeout)

    def ask(self, words: Sequence[Any]) -> Any:
        """The reply to a command. Raises OSError (BlockingIOError when it took too long) and RedisSays."""
        self._socket.sendall(hiredis.pack_command(tuple(words)))
        reply = False
        while reply is False:  # the reader's word for an incomplete one
            data = self._socket.recv(READ_SIZE)
            if not data:
                raise ConnectionResetError("Redis closed the connection")
            self._reader.feed(data)
            try:
                reply = self._reader.gets()
            except hiredis.ProtocolError as error:
                raise ConnectionResetError("what answers is not Redis") from error
        if isinstance(reply, hiredis.ReplyError):
            raise RedisSays(str(reply))
        return reply

    def close(self) -> None:
        self._socket.close()
