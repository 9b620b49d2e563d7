"""Names are looked up within a time."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from providers.transport.resolver import Resolver
from tests.support.locking import guarded

pytestmark = pytest.mark.either_store

FOUND = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 443))]


class NameServer:
    """Says nothing until it is told to answer."""

    def __init__(self):
        self.asked = []
        self.answers = threading.Event()

    def __call__(self, host, port):
        self.asked.append(host)
        self.answers.wait(30)
        return FOUND


@pytest.fixture
def silent():
    server = NameServer()
    yield server
    server.answers.set()


def test_the_system_is_asked():
    assert ("127.0.0.1", 80) in [found[4] for found in Resolver().addresses("localhost", 80, timeout=30)]


def test_an_address_needs_no_name_server(silent):
    assert Resolver(silent).addresses("127.0.0.1", 80, timeout=0.1)[0][4] == ("127.0.0.1", 80)
    assert Resolver(silent).addresses("::1", 80, timeout=0.1)[0][4][:2] == ("::1", 80)
    assert silent.asked == []


@pytest.mark.long
def test_a_silent_name_server_is_given_up(silent):
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        Resolver(silent).addresses("provider.example", 443, timeout=0.2)
    assert 0.2 <= time.monotonic() - begun < 10


def test_many_who_ask_for_one_name_cost_one_thread_and_get_one_answer(silent):
    resolver, before = Resolver(silent), threading.active_count()
    with ThreadPoolExecutor(20) as pool:
        waiting = [pool.submit(resolver.addresses, "provider.example", 443, timeout=30) for _ in range(20)]
        while not silent.asked:
            time.sleep(0.01)
        assert threading.active_count() <= before + 20 + 1
        assert silent.asked == ["provider.example"]
        silent.answers.set()
        assert [one.result(30) for one in waiting] == [FOUND] * 20
    assert resolver.addresses("provider.example", 443, timeout=30) == FOUND


def test_an_answer_is_not_kept(silent):
    silent.answers.set()
    resolver = Resolver(silent)
    for _ in range(2):
        resolver.addresses("provider.example", 443, timeout=30)
    assert silent.asked == ["provider.example"] * 2


def test_whatever_goes_wrong_is_told_to_those_who_wait():
    def broken(host, port):
        raise UnicodeError("label too long")

    with pytest.raises(UnicodeError):
        Resolver(broken).addresses("x" * 70, 443, timeout=30)


def test_what_is_looked_up_is_noted_under_the_lock():
    started = threading.Event()
    resolver = Resolver(lambda host, port: started.wait(30) and FOUND)
    threading.Timer(0.05, started.set).start()  # when nobody holds the lock any more for having begun
    guarded(resolver, resolver._lock, "_running")
    assert resolver.addresses("name.test", 443, timeout=30) == FOUND
