"""How long a request has waited for a thread is measured by the worker, and stands in its answer."""

import io
import socket
import threading
import time
from types import SimpleNamespace

import pytest

from gateway_project.server.threads import LifoThreadPool
from gateway_project.server.worker import GatewayThreadWorker
from gateway_project.work import runtime, views

pytestmark = [pytest.mark.either_store, pytest.mark.django_db(transaction=True)]

DELAY, SECONDS = 0.4, 20


class Connection:
    """One whose request is what this function does."""

    def __init__(self, sock, request):
        self.sock, self.request, self.answered = sock, request, threading.Event()


class OneThread(LifoThreadPool):
    """May have more threads, of which the system lets it start one."""

    has_room = True


def worker_with_one_thread():
    worker = object.__new__(GatewayThreadWorker)
    worker.client_timeout, worker.busy = SECONDS, 0
    worker.reading_heads, worker.tpool, worker.reserve = {}, OneThread(1, "request"), None
    worker.handle = lambda conn: conn.request()
    worker.method_queue = SimpleNamespace(defer=lambda finish, conn, outcome: conn.answered.set())
    return worker


@pytest.fixture
def environ(settings, tmp_path):
    """WSGI's environment of a request for work, without a credential."""
    settings.GATEWAY_JOURNAL_DIR = tmp_path
    runtime.gateway()
    yield {
        "REQUEST_METHOD": "POST", "PATH_INFO": "/work", "QUERY_STRING": "", "CONTENT_LENGTH": "2",
        "CONTENT_TYPE": "application/json", "REMOTE_ADDR": "127.0.0.1", "wsgi.input": io.BytesIO(b"{}"),
    }  # fmt: skip
    runtime.stop_gateway()


def waiting_in(delivery):
    """The time that a response says its request has waited for a thread, in milliseconds."""
    timing = dict(part.split(";dur=") for part in dict(delivery.headers)["Server-Timing"].split(", "))
    return float(timing["waiting"])


@pytest.mark.long
def test_a_request_behind_a_slow_one_has_waited_for_its_thread(environ):
    worker, deliveries = worker_with_one_thread(), []
    ours, theirs = socket.socketpair()
    with ours, theirs:
        slow = Connection(ours, lambda: time.sleep(DELAY))
        work = [Connection(ours, lambda: deliveries.append(views.answer(environ))) for _ in range(2)]
        for conn in (slow, work[0]):
            worker._submit(conn)
        assert work[0].answered.wait(SECONDS)
        worker.busy = 0
        worker._submit(work[1])
        assert work[1].answered.wait(SECONDS)
    behind, alone = map(waiting_in, deliveries)
    assert DELAY * 1000 * 0.9 <= behind < SECONDS * 1000
    assert alone < behind / 2
