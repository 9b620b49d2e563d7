"""One connection to Redis, reduced to sending a command and reading its reply.

django-redis and redis-py open it, with all options of its URL. Commands then go directly over its socket: redis-py's
pool, retries and hooks cost more than twice the CPU of the exchange itself.
"""

import socket
from typing import Any, Protocol, TypeAlias

import hiredis

from gateway_project.server.sockets import bound_waits

READ_SIZE = 4 * 1024  # recv() allocates that much before each wait


Word: TypeAlias = str | bytes | int | float
Words: TypeAlias = tuple[Word, ...]  # of a command
Reply: TypeAlias = Any  # whatever Redis holds under the key; a script's reply has the shape that the script returns


class Connection(Protocol):
    """A connection of redis-py, which opens its socket with the options of the URL."""

    _sock: socket.socket | None

    def connect(self) -> None: ...


class RedisReplyError(Exception):
    """Redis replied with an error; the connection is still good."""


class RedisConnection:
    """A connected socket and its reply parser."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        connection.connect()
        # Only the socket is kept: the connection's own parser holds a buffer of 64 KB.
        opened, connection._sock = connection._sock, None
        if opened is None:
            raise ConnectionResetError("Redis closed the connection")
        self._socket = opened
        self._reader = hiredis.Reader()
        bound_waits(self._socket, receive=timeout, send=timeout)

    def send(self, words: Words) -> None:
        """Send a command; its reply has to be read before the next one is sent. Raises OSError."""
        self._socket.sendall(hiredis.pack_command(words))  # type: ignore[arg-type]  # the stub allows one word only

    def read_reply(self) -> Reply:
        """Wait for a reply. Raises OSError (BlockingIOError when it took too long) and RedisReplyError."""
        reply: Reply = False
        while reply is False:  # hiredis returns False for an incomplete reply
            data = self._socket.recv(READ_SIZE)
            if not data:
                raise ConnectionResetError("Redis closed the connection")
            self._reader.feed(data)
            try:
                reply = self._reader.gets()
            except hiredis.ProtocolError as error:
                raise ConnectionResetError("the server is not a Redis") from error
        if isinstance(reply, hiredis.ReplyError):
            raise RedisReplyError(str(reply))
        return reply

    def close(self) -> None:
        self._socket.close()
