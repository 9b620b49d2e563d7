"""Redis as the shared state: exact across processes, and never more than a nuisance when it misbehaves."""

import os
import secrets
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from gateway_project.work.limits.checks import LimitCheck, window_begin
from gateway_project.work.state.redis.client import RedisUnavailable
from gateway_project.work.state.redis.state import FLIGHT_MS
from tests.gateway_project.work.conftest import TIMEOUT, needs_redis, redis_state
from tests.support.fault_proxy import FaultProxy
from tests.support.pace import patience
from tests.support.running import ROOT
from tests.support.servers import own_redis

pytestmark = [pytest.mark.servers, needs_redis]
LIMIT = LimitCheck("key 1", 40, 3600)
SHARE = LIMIT.amount // 4

PRESS = """
import sys, django
django.setup()
from gateway_project.work.state.process_count import ProcessCount
from gateway_project.work.state.redis.state import RedisState
from gateway_project.work.limits.checks import LimitCheck, window_begin
state = RedisState(prefix=sys.argv[1], secret='s' * 40, processes=ProcessCount(local=4), connections=2, timeout=2)
admitted = [state.admit([LimitCheck("key 1", 100, 86400)], "k", "", read=False) for _ in range(60)]
print(sum(admission.refused is None for admission in admitted))
"""


@pytest.fixture(scope="module")
def server():
    """A Redis that may be flushed and filled with nonsense."""
    with own_redis() as running:
        yield running


@pytest.fixture
def proxy(server):
    with FaultProxy(server.url) as running:
        yield running


@pytest.fixture
def state(proxy, redis_at):
    row = redis_at(proxy.url)
    assert admits(row, LimitCheck("warm", 9, 9))
    return row


def admits(state, limit=LIMIT):
    return state.admit([limit], "k", "", read=False).refused is None


def seconds(call):
    begun = time.monotonic()
    call()
    return time.monotonic() - begun


def probe_until_back(state):
    deadline = time.monotonic() + 30
    while state.degraded and time.monotonic() < deadline:
        state.probe()
        time.sleep(0.05)
    assert not state.degraded


def test_a_limit_is_exact_across_processes():
    prefix = f"test-{secrets.token_hex(6)}"
    environ = os.environ | {"DJANGO_SETTINGS_MODULE": "gateway_project.settings"}
    command = [sys.executable, "-c", PRESS, prefix]
    running = [subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE) for _ in range(3)]
    assert sum(int(process.communicate(timeout=patience(20))[0]) for process in running) == 100


def test_answers_and_flights_are_shared_between_processes():
    one = redis_state()
    other = redis_state(prefix=one._prefix)
    assert one.admit((), "k", "t1", read=True).leads
    assert not other.admit((), "k", "t2", read=True).leads
    one.begin_storing("k", b"value", 60, "t1")()
    assert other.peek("k") == (b"value", False)


def test_a_flight_lapses_unless_it_is_renewed(server, state):
    state.admit((), "k", "t1", read=True)
    with server.client() as client:
        name = state._key("flight", "k")
        client.pexpire(name, 5000)
        state.renew_flight("k", "t2")
        assert client.pttl(name) <= 5000
        state.renew_flight("k", "t1")
        assert 5000 < client.pttl(name) <= FLIGHT_MS
        client.pexpire(name, 50)
    time.sleep(0.1)
    assert state.peek("k") == (None, False)
    assert state.admit((), "k", "t2", read=True).leads


def test_counters_do_not_stay_for_ever(server, state):
    admits(state)
    with server.client() as client:
        lives = [client.ttl(name) for name in client.scan_iter(f"{state._prefix}:limit:*")]
    assert lives
    assert all(0 < life <= LIMIT.window_seconds + 60 for life in lives)


def plant(client, name, kind):
    client.delete(name)
    if kind == "text":
        client.set(name, b"\x80\x04nonsense")
    elif kind == "list":
        client.rpush(name, "a", "b")
    elif kind == "hash that lapses":
        client.hset(name, "a", "b")
        client.expire(name, 100)
    else:
        client.set(name, "")


@pytest.mark.parametrize("kind", ["text", "list", "hash that lapses", "empty"])
@pytest.mark.parametrize("where", ["answer", "flight", "limit"])
def test_nonsense_under_our_keys_is_a_nuisance_and_no_more(server, state, kind, where):
    begin = window_begin(LIMIT.window_seconds, time.time())
    name = state._key("limit", f"{LIMIT.name}:{begin}") if where == "limit" else state._key(where, "k")
    with server.client() as client:
        plant(client, name, kind)
    assert sum(admits(state) for _ in range(100)) <= LIMIT.amount
    state.peek("k")
    admission = state.admit((), "k", "t1", read=True)
    assert admission.leads or type(admission.value) is bytes
    state.renew_flight("k", "t1")
    state.begin_storing("k", b"value", 60, "t1")()
    state.release("k", "t1")
    probe_until_back(state)


def test_nonsense_in_place_of_a_flight_is_taken_over(server, state):
    for kind in ("text", "list", "hash that lapses"):
        with server.client() as client:
            plant(client, state._key("flight", "k"), kind)
        assert state.admit((), "k", "t1", read=True).leads
        assert state.peek("k") == (None, True)
        state.release("k", "t1")


def test_a_flight_of_somebody_else_is_not_taken_over(state):
    assert state.admit((), "k", "t1", read=True).leads
    assert not state.admit((), "k", "t2", read=True).leads


def test_a_flushed_redis_is_a_miss_and_its_scripts_come_back(server, state):
    state.begin_storing("k", b"value", 60, "")()
    with server.client() as client:
        client.flushall()
        client.script_flush()
    assert state.peek("k") == (None, False)
    assert state.admit((), "k", "t", read=True).leads
    assert not state.degraded


def test_connections_that_were_cut_are_replaced_without_anybody_noticing(proxy, state):
    for _ in range(3):
        proxy._close_all()
        time.sleep(0.05)
        assert admits(state)
    assert not state.degraded


@pytest.mark.parametrize("fault", ["refuse", "hang", "slow"])
def test_a_redis_that_does_not_answer_costs_one_short_wait(proxy, state, fault):
    state.begin_storing("k", b"value", 60, "")()
    proxy.slow(1) if fault == "slow" else getattr(proxy, fault)()
    assert seconds(lambda: admits(state)) < patience(TIMEOUT + 0.15)
    assert state.degraded
    assert seconds(lambda: [admits(state) for _ in range(100)]) < patience(0.1)
    assert state.peek("k") == (None, False)
    assert seconds(
        lambda: (state.begin_storing("k", b"v", 60, "t")(), state.release("k", "t"), state.renew_flight("k", "t"))
    ) < patience(0.1)
    proxy.heal()


def test_a_redis_that_hangs_from_the_first_connection_costs_one_short_wait(proxy, redis_at):
    proxy.hang()
    state = redis_at(proxy.url)
    assert seconds(lambda: admits(state)) < patience(TIMEOUT + 0.2)
    assert state.degraded
    proxy.heal()


def test_many_threads_meet_a_hanging_redis_and_none_waits_long(proxy, state):
    proxy.hang()
    with ThreadPoolExecutor(40) as pool:
        waits = list(pool.map(lambda _: seconds(lambda: admits(state)), range(40)))
    assert max(waits) < patience(2 * TIMEOUT + 0.5)
    proxy.heal()


def test_without_redis_each_process_keeps_to_its_share(proxy, state):
    proxy.refuse()
    assert sum(admits(state) for _ in range(100)) == SHARE
    assert state.admit([LimitCheck("key 2", 1, 3600)], "k", "t", read=True).leads
    proxy.heal()


def test_without_redis_identical_requests_of_one_process_still_share_a_flight(proxy, state):
    proxy.refuse()
    assert state.admit((), "k", "t1", read=True).leads
    assert not state.admit((), "k", "t2", read=True).leads
    state.release("k", "t1")
    assert state.admit((), "k", "t2", read=True).leads
    proxy.heal()


@pytest.mark.parametrize("fault", ["refuse", "hang"])
def test_it_comes_back_by_itself(proxy, state, fault):
    getattr(proxy, fault)()
    admits(state)
    assert state.degraded
    state.probe()
    assert state.degraded
    proxy.heal()
    probe_until_back(state)
    state.begin_storing("k", b"value", 60, "")()
    assert state.peek("k") == (b"value", False)


class TestWhatHasBegun:
    """An answer is sent first, and its reply read later."""

    def test_it_is_sent_again_if_its_connection_breaks(self, proxy, state):
        wait = state.begin_storing("k", b"value", 60, "")
        proxy.refuse()
        proxy.heal()
        wait()
        assert state.peek("k") == (b"value", False)
        assert not state.degraded

    def test_redis_that_does_not_reply_is_down(self, proxy, state):
        proxy.hang()
        wait = state.begin_storing("k", b"value", 60, "")
        assert not state.degraded
        wait()
        assert state.degraded
        proxy.heal()
        probe_until_back(state)
        assert admits(state)

    def test_it_gives_its_connection_back(self, proxy, redis_at):
        state = redis_at(proxy.url, connections=2)
        for round_number in range(5):
            for wait in [state.begin_storing(f"{round_number} {number}", b"value", 60, "") for number in range(2)]:
                wait()
        assert admits(state)
        assert not state.degraded

    def test_a_script_that_redis_has_forgotten_is_sent_whole(self, server, state):
        import redis

        with redis.Redis.from_url(server.url) as client:
            client.script_flush()
        state.begin_storing("k", b"value", 60, "")()
        assert state.peek("k") == (b"value", False)


def test_something_else_that_answers_is_not_redis(redis_at):
    import socket
    import threading

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            while True:
                try:
                    connection, _ = listener.accept()
                    connection.recv(1000)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    connection.close()
                except OSError:
                    return

        threading.Thread(target=answer, daemon=True).start()
        state = redis_at(f"redis://127.0.0.1:{listener.getsockname()[1]}/0")
        assert sum(admits(state) for _ in range(50)) == SHARE
        assert state.degraded


def test_a_full_redis_serves_shares_until_it_takes_something_again(server, state):
    with server.client() as client:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", 1)
        try:
            assert sum(admits(state) for _ in range(100)) == SHARE
            state.begin_storing("k", b"value", 60, "")()
            assert state.degraded
        finally:
            client.config_set("maxmemory", 0)
    probe_until_back(state)
    assert isinstance(client, redis.Redis)


def test_a_probe_that_another_thread_forestalls_says_nothing(state):
    def away():
        raise RedisUnavailable

    state._client.probe(("PING",), away)
    assert not state.degraded
