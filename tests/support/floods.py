"""Measures what honest clients get while somebody attacks: the latency of health checks and the throughput of work."""

import http.client
import itertools
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

from tests.support.world import World

PROBE_SECONDS = 0.01
FAILED_SECONDS = 40.0  # the latency of a health check that fails
CLIENTS = 4  # that send work one request after the other
# A provider in the process that measures may have no turn for seconds: that is no failure of the gateway.
PATIENT = {"GATEWAY_CONNECT_TIMEOUT": "20", "GATEWAY_FIRST_BYTE_TIMEOUT": "30", "GATEWAY_TOTAL_TIMEOUT": "60"}


@dataclass
class Measurement:
    """What honest clients got in one window."""

    health_seconds: list[float] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)  # of work; 0: the connection failed
    refusals: set[str] = field(default_factory=set)  # the bodies of other answers than 200
    seconds: float = 0.0

    @property
    def health_p99(self) -> float:
        """In seconds."""
        ordered = sorted(self.health_seconds)
        return ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]

    @property
    def throughput(self) -> float:
        """Work requests served, a second."""
        return self.statuses.count(200) / self.seconds

    def __str__(self) -> str:
        refused = len(self.statuses) - self.statuses.count(200)
        return f"healthz p99 {self.health_p99 * 1000:.0f} ms, work {self.throughput:.0f}/s, {refused} refused"


def measure(world: World, seconds: float) -> Measurement:
    """Probe health and send work for so long; a request that is in progress at the end is waited for."""
    with measuring(world) as measurement:
        time.sleep(seconds)
    return measurement


@contextmanager
def measuring(world: World) -> Iterator[Measurement]:
    """Probe health and send work inside this block; the figures are complete after it."""
    measurement, stop = Measurement(), threading.Event()
    port, key, model = world.gateway.port, world.key, world.model
    threads = [threading.Thread(target=_probe, args=[port, measurement, stop])]
    threads += [threading.Thread(target=_work, args=[port, key, model, measurement, stop]) for _ in range(CLIENTS)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    try:
        yield measurement
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        measurement.seconds = time.monotonic() - begun


def _probe(port: int, measurement: Measurement, stop: threading.Event) -> None:
    while not stop.wait(PROBE_SECONDS):
        begun = time.monotonic()
        status, _ = _ask(http.client.HTTPConnection("127.0.0.1", port, timeout=FAILED_SECONDS), "GET", "/healthz")
        seconds = time.monotonic() - begun if status == 200 else FAILED_SECONDS
        # Probes that were due meanwhile would have waited until the same moment: a stall is not one sample but many.
        measurement.health_seconds += [seconds - PROBE_SECONDS * due for due in range(1 + int(seconds / PROBE_SECONDS))]


_numbers = itertools.count()


def _work(port: int, key: str, model: str, measurement: Measurement, stop: threading.Event) -> None:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=FAILED_SECONDS)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    while not stop.is_set():
        prompt = f"question {next(_numbers)}"
        body = json.dumps({"model": model, "messages": [{"role": "user", "content": prompt}]})
        status, text = _ask(client, "POST", "/work", body, headers)
        measurement.statuses.append(status)
        if status != 200:
            measurement.refusals.add(text)
            client.close()
            stop.wait(0.02)
    client.close()


def _ask(
    client: http.client.HTTPConnection, method: str, path: str, body: str = "", headers: dict[str, str] | None = None
) -> tuple[int, str]:
    try:
        client.request(method, path, body, headers or {})
        response = client.getresponse()
        return response.status, response.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return 0, repr(error)


class Attackers:
    """Sockets of attackers, from as many loopback addresses as they like."""

    def __init__(self, port: int, resources: ExitStack) -> None:
        self._port, self._resources = port, resources

    def connect(self, address: str = "127.0.0.1") -> socket.socket:
        sock = self._resources.enter_context(socket.socket())
        sock.bind((address, 0))
        sock.settimeout(30)
        sock.connect(("127.0.0.1", self._port))
        return sock

    def send(self, number: int, data: bytes, address: str = "127.0.0.1") -> list[socket.socket]:
        """So many connections, each of which sends this."""
        socks = [self.connect(address) for _ in range(number)]
        for sock in socks:
            with suppress(OSError):
                sock.sendall(data)
        return socks


def received(sock: socket.socket) -> bytes:
    """All that the server says until it closes."""
    text = b""
    with suppress(ConnectionError):
        while data := sock.recv(65536):
            text += data
    return text
