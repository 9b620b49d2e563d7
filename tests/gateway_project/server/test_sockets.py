"""Who waits for a socket waits so long and no longer, whatever the socket is."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from gateway_project.server.sockets import ReaderPace, SlowReaders, bound_waits
from tests.support.certificates import encrypted
from tests.support.pace import patience


@pytest.mark.long
def test_tls_does_not_wait_for_ever_where_the_kernel_would_not(tmp_path):
    with ExitStack() as resources:
        server, client = encrypted(resources, tmp_path / "both.pem")
        bound_waits(client, receive=0.1, send=0.1)
        begun = time.monotonic()
        with pytest.raises(TimeoutError):
            client.recv(1)
        with pytest.raises(TimeoutError):
            client.sendall(b"x" * 10**7)
        assert time.monotonic() - begun < 5
        assert server.recv(1) == b"x"


def reader_and_writer() -> tuple[socket.socket, socket.socket]:
    theirs, ours = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    return theirs, ours


def read_all(sock: socket.socket, count: int, pause: float) -> None:
    """Read so many bytes with a pause before each piece."""
    while count > 0:
        time.sleep(pause)
        count -= len(sock.recv(4096))


@pytest.mark.long
def test_an_answer_is_sent_as_fast_as_its_client_reads():
    theirs, ours = reader_and_writer()
    readers = SlowReaders(places=1, client_seconds=5, bytes_per_second=1_000_000)
    with theirs, ours, ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read_all, theirs, 200_000, 0.005)
        ReaderPace(readers, ours, object()).send(b"x" * 200_000)
        reading.result()


@pytest.mark.long
def test_a_client_that_reads_nothing_is_waited_for_so_long_and_no_longer():
    theirs, ours = reader_and_writer()
    with theirs, ours:
        pace = ReaderPace(SlowReaders(places=1, client_seconds=1, bytes_per_second=1_000_000), ours, object())
        begun = time.monotonic()
        with pytest.raises(BlockingIOError, match="too slowly"):
            pace.send(b"x" * 200_000)
        assert 1 <= time.monotonic() - begun < patience(2)


def test_slow_readers_have_so_many_places():
    readers, requests = SlowReaders(places=1, client_seconds=10, bytes_per_second=1000), [object(), object()]
    readers.check(requests[0], waited=1.0, byte_count=1000)  # not slow
    readers.check(requests[0], waited=2.0, byte_count=1000)
    readers.check(requests[0], waited=3.0, byte_count=1000)  # it has its place
    with pytest.raises(BlockingIOError, match="too many"):
        readers.check(requests[1], waited=2.0, byte_count=1000)
    readers.release(requests[0])
    readers.check(requests[1], waited=2.0, byte_count=1000)


@pytest.mark.long
def test_each_part_of_an_answer_adds_to_its_wait():
    """Else a client that reads a little of each would have its time anew."""
    theirs, ours = reader_and_writer()
    pace = ReaderPace(SlowReaders(places=1, client_seconds=1, bytes_per_second=1_000_000), ours, object())
    with theirs, ours, pytest.raises(BlockingIOError, match="too slowly"):
        for _ in range(100):
            threading.Timer(0.2, theirs.recv, [4096]).start()
            pace.send(b"x" * 4096)


def ended_call(**attributes: object) -> tuple[SimpleNamespace, list[object]]:
    """A call, and what it was told."""
    events: list[object] = []
    return SimpleNamespace(pause=events.append, resume=lambda: events.append("resumed"), **attributes), events


@pytest.mark.long
def test_the_end_of_a_call_ends_the_wait_for_its_client():
    theirs, ours = reader_and_writer()
    with theirs, ours:
        pace = ReaderPace(SlowReaders(places=1, client_seconds=60, bytes_per_second=1), ours, object())
        pace.call, events = ended_call(end="its time is up")
        with pytest.raises(BlockingIOError, match="ended"):
            pace.send(b"x" * 200_000)
        assert events == [ours, "resumed"]


def test_who_reads_at_once_is_not_waited_for():
    theirs, ours = socket.socketpair()
    with theirs, ours:
        pace = ReaderPace(SlowReaders(places=1, client_seconds=60, bytes_per_second=1), ours, object())
        pace.call, events = ended_call(end="its time is up")
        pace.send(b"whole")
        assert theirs.recv(10) == b"whole"
        assert events == []


def test_what_others_have_sent_and_waited_counts_too():
    theirs, ours = reader_and_writer()
    with theirs, ours:
        pace = ReaderPace(SlowReaders(places=1, client_seconds=1, bytes_per_second=1000), ours, object())
        with pytest.raises(BlockingIOError, match="too slowly"):
            pace.send_rest(b"x" * 200_000, size=1000, waited=1000.0)
