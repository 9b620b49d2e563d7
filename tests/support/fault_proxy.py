"""A TCP proxy between the gateway and a store, which can fail in the ways that networks do."""

import contextlib
import select
import socket
import threading
import time
from typing import ClassVar, Self
from urllib.parse import parse_qsl, urlsplit, urlunsplit


class FaultProxy:
    """Passes bytes on to a server, unless told otherwise.

    `refuse()` closes everything and takes no more connections, `hang()` keeps them and passes nothing on,
    `slow(seconds)` holds every piece back for so long, `heal()` ends all of it. `freeze(words)` passes nothing on any
    more of the one connection that next says such words; then `frozen` is set.
    """

    alive: ClassVar[list["FaultProxy"]] = []

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._delay = 0.0
        self._hanging = threading.Event()
        self._freezing = b""
        self.frozen = threading.Event()
        self._refusing = False
        self._stopped = False
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._lock = threading.Lock()
        self._listener: socket.socket | None = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port: int = self._listener.getsockname()[1]
        self.url = self._through_us()

    def _through_us(self) -> str:
        """The server's URL with our address in place of its own."""
        user, at, _ = self._target.netloc.rpartition("@")
        query = "&".join(part for part in self._target.query.split("&") if part and not part.startswith("host="))
        return urlunsplit(self._target._replace(netloc=f"{user}{at}127.0.0.1:{self.port}", query=query))

    def refuse(self) -> None:
        self._refusing = True
        self._close_all()

    def hang(self) -> None:
        self._hanging.set()

    def slow(self, seconds: float) -> None:
        self._delay = seconds

    def freeze(self, words: bytes) -> None:
        self._freezing = words

    def heal(self) -> None:
        """Serve again; connections that hung are closed, as a network that was cut forgets them."""
        self._delay = 0
        hung = self._hanging.is_set()
        self._hanging.clear()
        self._refusing = False
        if hung:
            self._close_all()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        FaultProxy.alive.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopped = True
        FaultProxy.alive.remove(self)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._close_all()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while not self._stopped:
                near, _ = self._listener.accept()
                if self._refusing:
                    reset(near)
                    continue
                threading.Thread(target=self._serve, args=[near], daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        try:
            far = self._connect()
        except OSError:
            reset(near)
            return
        with self._lock:
            self._pairs.add((near, far))
        try:
            self._pass_on(near, far)
        finally:
            with self._lock:
                self._pairs.discard((near, far))
            near.close()
            far.close()

    def _connect(self) -> socket.socket:
        directory = dict(parse_qsl(self._target.query)).get("host", "")
        if directory.startswith("/"):
            far = socket.socket(socket.AF_UNIX)
            far.connect(f"{directory}/.s.PGSQL.{self._target.port or 5432}")
            return far
        default = 5432 if self._target.scheme.startswith("postgres") else 6379
        return socket.create_connection((self._target.hostname, self._target.port or default), timeout=5)

    def _pass_on(self, near: socket.socket, far: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError):
            while True:
                ready, _, _ = select.select([near, far], [], [], 0.5)
                while self._hanging.is_set():
                    time.sleep(0.02)
                for source in ready:
                    data = source.recv(65536)
                    if not data:
                        return
                    if self._freezing and self._freezing in data:
                        self._freezing = b""
                        self.frozen.set()
                        while not self._stopped:
                            time.sleep(0.02)
                    if source is near and self._delay:
                        time.sleep(self._delay)
                    (far if source is near else near).sendall(data)

    def _close_all(self) -> None:
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            for sock in pair:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)


def reset(sock: socket.socket) -> None:
    """Close with RST, as a host does on which nothing listens."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    sock.close()
