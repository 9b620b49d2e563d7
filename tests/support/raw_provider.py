"""Providers that break HTTP, TLS or TCP itself: a function says what happens on each connection."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.support.fault_proxy import reset
from tests.support.provider import read_headers

Talk = Callable[[socket.socket], None]


@contextmanager
def listener(talk: Talk) -> Iterator[int]:
    """A port on which every connection is passed to `talk(socket)`, in a thread of its own."""
    server = socket.create_server(("127.0.0.1", 0), backlog=256)

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                threading.Thread(target=speak, args=[connection], daemon=True).start()

    def speak(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            talk(connection)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield server.getsockname()[1]
    finally:
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        server.close()


@contextmanager
def raw_provider(say: Talk) -> Iterator[int]:
    """A provider that reads a request and then calls `say(socket)`; its port."""

    def talk(connection: socket.socket) -> None:
        with connection.makefile("rb") as reader:
            reader.readline()
            headers = {name.lower(): value for name, value in read_headers(reader)}
            reader.read(int(headers["content-length"]))
        say(connection)

    with listener(talk) as port:
        yield port


@contextmanager
def full_queue() -> Iterator[int]:
    """A port whose queue of connections is full: the kernel answers nobody."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(3)]
        for sock in waiting:
            sock.setblocking(False)
            sock.connect_ex(full.getsockname())
        yield full.getsockname()[1]
        for sock in waiting:
            sock.close()


def wait_for_goodbye(connection: socket.socket) -> None:
    """Say nothing until the other side leaves."""
    connection.settimeout(60)
    while connection.recv(65536):
        pass


def hang_up(connection: socket.socket) -> None:
    """Read what has come, then RST."""
    connection.settimeout(5)
    connection.recv(65536)
    reset(connection)
