"""Listeners on loopback that nobody may connect to: each counts who does, and hears what is said."""

import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from urllib.parse import urlsplit

HOSTS = ("127.0.0.1", "127.1.2.3", "::1")
# A few spellings of loopback, one for each thing that could go wrong; tests/attacks/test_ssrf.py has all.
PRIVATE = {
    "plain": "https://127.0.0.1:{port}/x",
    "plain http": "http://127.0.0.1:{port}/x",
    "name": "https://localhost:{port}/x",
    "IPv6": "https://[::1]:{port}/x",
    "address in an address": "https://[::ffff:127.0.0.1]:{port}/x",
    "translated address": "https://[64:ff9b::127.0.0.1]:{port}/x",
    "other digits": "https://１２７.０.０.１:{port}/x",
    "user": "https://public.example@127.0.0.1:{port}/x",
    "backslash": "https://127.0.0.1:{port}\\@public.example/x",
}
# What is not called from any network: numbers in disguise, and metadata services however they are written.
DISGUISED = {
    "decimal": "https://2130706433:{port}/x",
    "octal": "https://0177.0.0.1:{port}/x",
    "hexadecimal": "https://0x7f000001:{port}/x",
    "short": "https://127.1:{port}/x",
}
METADATA = {
    "metadata": "https://169.254.169.254/x",
    "metadata in an address": "https://[::ffff:169.254.169.254]/x",
    "metadata in disguise": "https://2852039166/x",
}


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


@cache
def connections() -> list[object]:
    """The addresses to which this process tries to connect from now on, as the interpreter tells its audit hooks."""
    tried: list[object] = []

    def note(name: str, arguments: tuple[object, ...]) -> None:
        if name == "socket.connect":
            tried.append(arguments[1])

    sys.addaudithook(note)
    return tried


def ports_since(number: int) -> set[object]:
    """The ports to which connections were begun after the first so many, but those of the tests' stores."""
    stores = {urlsplit(os.environ.get(name, "")).port for name in ("DATABASE_URL", "REDIS_URL")}
    return {address[1] for address in connections()[number:] if isinstance(address, tuple)} - stores
