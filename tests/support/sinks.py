"""Listeners on loopback that nobody may connect to: each counts who does, and hears what is said."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

HOSTS = ("127.0.0.1", "127.1.2.3", "::1")


class Sinks:
    """The same port on every loopback address."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.port = 0

    def listen(self, listener: socket.socket) -> None:
        with suppress(OSError):  # it is shut down at the end
            while True:
                connection, _ = listener.accept()
                connection.settimeout(0.5)
                with connection, suppress(OSError):
                    self.heard.append(b"")
                    self.heard[-1] = connection.recv(65536)


@contextmanager
def sinks() -> Iterator[Sinks]:
    listening = Sinks()
    with ExitStack() as resources:
        for host in HOSTS:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            listener = resources.enter_context(socket.create_server((host, listening.port), family=family))
            resources.callback(listener.shutdown, socket.SHUT_RDWR)
            listening.port = listener.getsockname()[1]
            threading.Thread(target=listening.listen, args=[listener], daemon=True).start()
        yield listening
