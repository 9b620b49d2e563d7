"""What one address may have of what all share: connections, and places for requests."""

import socket
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from ipaddress import ip_network

from gateway_project.errors import ServiceUnavailable
from gateway_project.server.proxies import read_address

SLACK = 1000  # closed sockets are forgotten when there may be so many


class AddressBook:
    """The open sockets by address. Only the accepting thread uses it.

    A socket closes in several places, so closed ones are found by looking: once an address is at its limit, and for all
    addresses now and then.
    """

    def __init__(self, max_per_address: int) -> None:
        self._max_per_address = max_per_address
        self._sockets: defaultdict[str, list[socket.socket]] = defaultdict(list)
        self._size = self._open = 0

    def add(self, address: str, sock: socket.socket) -> bool:
        """Add a connection; False, and nothing is added, if the address has too many."""
        sockets = self._sockets[network_of(address)]
        if len(sockets) >= self._max_per_address:
            sockets[:] = [sock for sock in sockets if sock.fileno() >= 0]
            if len(sockets) >= self._max_per_address:
                return False
        sockets.append(sock)
        self._size += 1
        if self._size > 2 * self._open + SLACK:
            self._sweep()
        return True

    def _sweep(self) -> None:
        for address, sockets in list(self._sockets.items()):
            sockets[:] = [sock for sock in sockets if sock.fileno() >= 0]
            if not sockets:
                del self._sockets[address]
        self._size = self._open = sum(map(len, self._sockets.values()))


class Places:
    """At most `total` requests at once, and at most `per_address` of one address."""

    def __init__(self, total: int, per_address: int, refusal: str) -> None:
        self._total, self._per_address, self._refusal = total, per_address, refusal
        self._by_address: Counter[str] = Counter()
        self._in_use = 0
        self._lock = threading.Lock()

    @contextmanager
    def place(self, address: str) -> Iterator[None]:
        """Within this block the request has its place. Raises ServiceUnavailable if there is none."""
        self.take(address)
        try:
            yield
        finally:
            self.release(address)

    def has_room(self, address: str) -> bool:
        """Whether the address would get a place now."""
        return self._in_use < self._total and self._by_address[network_of(address)] < self._per_address

    def take(self, address: str) -> None:
        """Take a place. Raises ServiceUnavailable if there is none."""
        network = network_of(address)
        with self._lock:
            if not self.has_room(address):
                raise ServiceUnavailable(self._refusal, retry_after=1)
            self._by_address[network] += 1
            self._in_use += 1

    def release(self, address: str) -> None:
        network = network_of(address)
        with self._lock:
            self._in_use -= 1
            self._by_address[network] -= 1
            if not self._by_address[network]:
                del self._by_address[network]


@lru_cache(maxsize=4096)
def network_of(address: str) -> str:
    """The address that counts: of IPv6 the /64 network, all of which one client has."""
    canonical = read_address(address.partition("%")[0])
    return str(ip_network((canonical, 64), strict=False)) if ":" in canonical else canonical or address


def host_of(address: tuple[object, ...] | str) -> str:
    """The IP address of a client; "" of a Unix socket."""
    return str(address[0]) if isinstance(address, tuple) else ""
