"""Processes count each other in Redis: never too few because of what happens to Redis, and not for ever too many."""

import pytest

from gateway_project.work.limits.checks import LimitCheck
from gateway_project.work.state.process_count import LAPSE_MS, MAX_PROCESSES, ProcessCount
from tests.gateway_project.work.conftest import PATIENT, needs_redis
from tests.support.servers import own_redis

HOUR_MS = 3_600_000


def observed(*replies, **options) -> int:
    count = ProcessCount(**{"local": 1} | options)
    for reply in replies:
        count.observe(reply)
    return count.current


def test_a_process_that_has_not_heard_from_redis_knows_those_of_its_machine():
    assert observed(local=3) == 3


def test_the_highest_of_the_last_counts_holds():
    """Such as before a Redis was flushed, to which not everybody has reported yet."""
    assert observed(8, 1, 2) == 8


def test_those_that_are_gone_are_forgotten_in_the_end():
    assert observed(8, *[2] * 29) == 8
    assert observed(8, *[2] * 30) == 2


def test_a_number_that_was_set_by_hand_holds():
    assert observed(8, fixed=5) == 5


@pytest.mark.parametrize("reply", [None, 0, -3, b"9", "9", 2.5, True, [9], {}])
def test_what_is_no_count_is_not_believed(reply):
    assert observed(2, reply) == 2


def test_a_count_has_a_bound():
    assert observed(10**15) == MAX_PROCESSES


@pytest.fixture(scope="module")
def server():
    """A Redis that may be flushed and filled with nonsense."""
    with own_redis() as running:
        yield running


@pytest.fixture
def client(server):
    with server.client() as connected:
        connected.flushall()
        yield connected


@pytest.fixture
def states(server, client, redis_at):
    """Three processes that share one Redis."""
    return [redis_at(server.url, prefix="counted", timeout=PATIENT, processes=ProcessCount(local=1)) for _ in range(3)]


def beat(state) -> int:
    """The count of one process after its next sign of life."""
    state._processes._due = state._probed = 0.0
    state.probe()
    return state.processes


@pytest.mark.servers
@needs_redis
class TestInRedis:
    KEY = "counted:processes:"

    def test_each_counts_itself_and_those_that_it_has_heard_of(self, states):
        assert [beat(state) for state in states] == [1, 2, 3]
        assert [beat(state) for state in states] == [3, 3, 3]

    def test_each_admits_its_share_of_the_last_count_once_redis_is_gone(self, states, server):
        for state in (*states, *states):
            beat(state)
        server.stop()
        try:
            limit = LimitCheck("key 1", 60, 3600)
            admitted = [state.admit([limit]).refused is None for state in states for _ in range(60)]
            assert admitted.count(True) == 60
        finally:
            server.start()

    def test_a_process_that_died_lapses(self, states, client):
        for state in states:
            beat(state)
        member = client.zrange(self.KEY, 0, 0)[0]
        client.zadd(self.KEY, {member: 1.0})
        survivor = states[1] if member.decode() == states[0]._process else states[0]
        beat(survivor)
        assert client.zcard(self.KEY) == 2
        assert client.pttl(self.KEY) <= LAPSE_MS

    def test_a_flushed_redis_makes_nobody_feel_alone(self, states, client):
        for state in (*states, *states):
            beat(state)
        client.flushall()
        assert beat(states[0]) == 3

    def test_signs_of_life_from_the_future_do_not_count(self, states, client):
        beat(states[0])
        seconds, _ = client.time()
        client.zadd(self.KEY, {"future": seconds * 1000 + HOUR_MS, "forever": float("inf")})
        assert beat(states[0]) == 1

    @pytest.mark.parametrize("nonsense", [("set", "text"), ("rpush", "list"), ("hset", "field", "value")])
    def test_what_is_no_set_of_processes_is_replaced(self, states, client, nonsense):
        command, *values = nonsense
        getattr(client, command)(self.KEY, *values)
        assert [beat(state) for state in states] == [1, 2, 3]
        assert not states[0].degraded
