"""What honest clients get is measured as they would feel it."""

import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import SimpleNamespace

import pytest

from tests.support.floods import FAILED_SECONDS, Measurement, measure

pytestmark = pytest.mark.embedded
STALL_SECONDS = 1.0


class StallingServer(BaseHTTPRequestHandler):
    """Answers each health check at once, but for one."""

    status, checks, stalls_at = 200, 0, 20

    def do_GET(self) -> None:
        type(self).checks += 1
        if self.checks == self.stalls_at:
            time.sleep(STALL_SECONDS)
        self.send_response(self.status)
        self.end_headers()

    def do_POST(self) -> None:
        time.sleep(0.05)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def handler() -> type[StallingServer]:
    return type("Own", (StallingServer,), {})


@pytest.fixture
def world(handler) -> Iterator[SimpleNamespace]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield SimpleNamespace(gateway=SimpleNamespace(port=server.server_address[1]), key="k", model="m")
        server.shutdown()


@pytest.mark.long
def test_one_stall_is_as_many_samples_as_checks_were_due(world):
    measurement = measure(world, 2.5)
    assert measurement.health_p99 > STALL_SECONDS * 0.8


@pytest.mark.long
def test_without_a_stall_there_is_nothing_to_correct(world, handler):
    handler.stalls_at = 0
    measurement = measure(world, 1)
    assert sorted(measurement.health_seconds)[len(measurement.health_seconds) // 2] < STALL_SECONDS / 2


@pytest.mark.long
def test_a_check_that_fails_counts_as_the_longest(world, handler):
    handler.status, handler.stalls_at = 503, 0
    assert max(measure(world, 0.2).health_seconds) == FAILED_SECONDS


def test_throughput_counts_what_was_served():
    assert Measurement(statuses=[200, 503, 200], seconds=2).throughput == 1
