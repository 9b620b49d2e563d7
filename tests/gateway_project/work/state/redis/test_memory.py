"""A Redis that gives up keys, or has no room for more: counts are not forgotten in silence, and keep their room."""

import secrets
import time

import pytest

from gateway_project.work.limits.checks import LEASE_SECONDS, MONTH, RESERVE, LimitCheck
from gateway_project.work.state.redis.memory import Memory, memory_of
from tests.gateway_project.work.conftest import PATIENT
from tests.support.limits.asking import admitted, ask, quota, rebuilt, tokens_of
from tests.support.pace import patience
from tests.support.servers import own_redis

pytestmark = pytest.mark.servers
SOME = b"x" * 20_000


@pytest.fixture(scope="module")
def server():
    with own_redis() as running:
        yield running


@pytest.fixture
def client(server):
    """Of an empty Redis, whose memory is whole again afterwards."""
    with server.client() as client:
        client.flushall()
        yield client
        client.config_set("maxmemory", 0)
        client.config_set("maxmemory-policy", "noeviction")


@pytest.fixture
def state(server, client, redis_at):
    return redis_at(server.url, timeout=PATIENT)


def until(holds, seconds=10):
    deadline = time.monotonic() + patience(seconds)
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def probed(state, holds):
    def look():
        state.probe()
        return holds(state)

    until(look)


def give_up(client, *names):
    """Fill Redis until it has given these keys up by itself."""
    client.config_set("maxmemory-policy", "allkeys-random")
    client.config_set("maxmemory", client.info("memory")["used_memory"] + 500_000)

    def fill():
        for _ in range(20):
            client.set(f"filler {secrets.token_hex(8)}", SOME)
        return not client.exists(*names)

    until(fill, 30)
    client.config_set("maxmemory", 0)


@pytest.mark.parametrize("kind", ["n", RESERVE])
def test_a_count_that_redis_gave_up_alone_is_rebuilt(client, state, kind):
    (check,) = rebuilt(state, quota(10, 1.0, kind=kind))
    _, settle = ask(state, check)
    settle(1)
    other = quota(10, 1.0, "other")
    rebuilt(state, other, used=3)
    (name,) = client.scan_iter(f"{state._prefix}:limit:quota:*")
    give_up(client, name)
    (lost,) = ask(state, check)[0].lost
    state.rebuild([(lost, 9)])
    assert [admitted(state, check) for _ in range(2)] == [True, False]


def test_a_reservation_of_which_redis_gave_up_a_half_holds_no_room_for_ever(client, state):
    check = tokens_of(100, 60)
    assert admitted(state, check)
    (held_key,) = client.scan_iter(f"{state._prefix}:limit:tokens:*:held")
    client.delete(held_key)
    assert admitted(state, check)
    assert not admitted(state, check)
    month = LimitCheck("month", 100, MONTH, RESERVE, 60, 60, since=1.0)
    rebuilt(state, month)
    assert admitted(state, month)
    client.delete(*(name for name in client.scan_iter(f"{state._prefix}:limit:month:*") if b":held" not in name))
    rebuilt(state, month)
    assert not admitted(state, month), f"for {LEASE_SECONDS} s more it is reserved"


def test_administrators_are_told_of_a_redis_that_gives_up_keys(client, state, caplog):
    probed(state, lambda state: state._memory.policy == "noeviction")
    assert state.warning == ""
    client.config_set("maxmemory-policy", "allkeys-lru")
    probed(state, lambda state: state.warning)
    assert "maxmemory-policy allkeys-lru" in state.warning
    assert "Set maxmemory-policy noeviction" in caplog.text
    client.config_set("maxmemory-policy", "noeviction")
    probed(state, lambda state: not state.warning)


def test_answers_leave_room_for_limits(client, state):
    state.begin_storing("k", SOME, 600, "")()
    assert client.ttl(state._key("answer", "k")) > 500
    client.config_set("maxmemory", client.info("memory")["used_memory"] * 11 // 10)
    probed(state, lambda state: state._memory.is_short)
    state.begin_storing("k", SOME, 600, "")()
    assert client.ttl(state._key("answer", "k")) <= 2
    assert admitted(state, LimitCheck("n", 1, 60))
    client.config_set("maxmemory", 0)
    probed(state, lambda state: not state._memory.is_short)
    state.begin_storing("k", SOME, 600, "")()
    assert client.ttl(state._key("answer", "k")) > 500


def test_what_redis_says_of_its_memory_is_read_and_what_it_does_not_say_is_no_warning():
    result = (
        b"# Memory\r\nused_memory:850\r\nused_memory_human:850B\r\nmaxmemory:1000\r\nmaxmemory_policy:volatile-ttl\r\n"
    )
    assert memory_of(result) == Memory(850, 1000, "volatile-ttl")
    assert memory_of(result).is_short
    for nothing in (b"", None, 5, b"used_memory:many\r\n"):
        assert memory_of(nothing) == Memory()
    assert (Memory().warning, Memory().is_short) == ("", False)
