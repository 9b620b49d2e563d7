"""Providers close the connections that the gateway keeps; only a request that never arrived is sent again."""

import random
import socket
import threading
import time
from collections import Counter
from contextlib import suppress

import pytest

from licensing.models import Limit
from providers.models import Provider
from tests.support.load import wait_until
from tests.support.management import refused
from tests.support.metrics import samples

pytestmark = pytest.mark.embedded

IDLE_SECONDS = 0.01
ANSWER = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}'
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER)


def unlimited_key(world):
    issued = world.new_key()
    Limit.objects.create(key=issued.key, measure="requests", window="minute", amount=0)
    world.settle()
    return issued.text


class FickleProvider:
    """Closes each connection after some requests or a short idle time, without a word, as many servers do."""

    def __init__(self, *, most_requests: int) -> None:
        self.most_requests = most_requests
        self.served = 0
        self.idle_closes = 0
        self.closes: list[tuple[float, float]] = []  # the times just before and just after each
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exc):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self):
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def may_have_crossed(self, start: float, end: float) -> bool:
        """Whether it closed a connection while a request of this time was on its way."""
        return any(before <= end and start <= after for before, after in self.closes)

    def _serve(self, connection):
        with suppress(OSError):
            self._answer(connection)
        before = time.monotonic()
        connection.close()
        with self._lock:
            self.closes.append((before, time.monotonic()))

    def _answer(self, connection):
        with connection.makefile("rb") as reader:
            for _ in range(self.most_requests):
                connection.settimeout(IDLE_SECONDS)
                try:
                    first = connection.recv(1, socket.MSG_PEEK)
                except TimeoutError:
                    with self._lock:
                        self.idle_closes += 1
                    return
                if not first:
                    return
                connection.settimeout(10)
                head = b"".join(iter(reader.readline, b"\r\n")).lower()
                reader.read(int(head.partition(b"content-length:")[2].split()[0]))
                with self._lock:
                    self.served += 1
                connection.sendall(RESPONSE)


def test_a_provider_that_worked_and_closed_is_not_asked_again(world, provider):
    assert world.ask("first").status_code == 200
    provider.answers(raw=b"", delay=0.4)
    response = world.ask("second")
    refused(response, 502, "ProviderError")
    assert [observations.connection for observations in provider.seen] == [1, 1]
    assert world.entry(response).attempts == 1


def test_the_next_candidate_is_asked_instead(world, pair):
    assert world.ask("first").status_code == 200
    pair[0].answers(raw=b"", delay=0.4)
    response = world.ask("second")
    assert response.status_code == 200
    assert (len(pair[0].seen), len(pair[1].seen)) == (2, 1)
    assert world.entry(response).attempts == 2


def test_a_connection_that_was_closed_while_idle_is_no_attempt(world, provider):
    provider.answers(close_connection="unannounced")
    assert world.ask("first").status_code == 200
    time.sleep(0.3)
    response = world.ask("second")
    assert response.status_code == 200
    assert world.entry(response).attempts == 1


@pytest.mark.slow
def test_hardly_a_client_notices_that_connections_close(world):
    """Each sending is an attempt; what was sent again never arrived the first time.

    A connection that closes in the moment of writing can look as if the request had been read: that is not repeated.
    No other request fails.
    """
    world.allow()
    with FickleProvider(most_requests=7) as fickle:
        world.provider(url=fickle.url)
        name = Provider.objects.get(url=fickle.url).name
        pauses = random.Random(1)
        statuses, key, failure_times = Counter(), unlimited_key(world), []
        for number in range(2000):
            if number % 3 == 0:
                time.sleep(IDLE_SECONDS * pauses.uniform(0.5, 1.1))
            start = time.monotonic()
            status = world.ask(f"{number}", key=key).status_code
            statuses[status] += 1
            if status != 200:
                failure_times.append((start, time.monotonic()))
        assert statuses.keys() <= {200, 502}
        wait_until(lambda: all(fickle.may_have_crossed(*times) for times in failure_times), what="each failure's cause")
        assert statuses[200] >= 1900
        assert fickle.served == statuses[200]
        assert fickle.idle_closes > 10
        failures = samples(world, "provider_failures_total")
        assert {error for error, _, provider in failures if provider == name} <= {"NotReceived", "ProviderError"}
        assert samples(world, "provider_resting")["0", name] == 0
