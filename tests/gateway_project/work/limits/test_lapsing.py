"""What processes held that died lapses in Redis; those that live keep it."""

import threading
import time

import pytest

from gateway_project.work.limits.checks import DAY, MINUTE, LimitCheck, window_begin
from tests.gateway_project.work.conftest import needs_redis, redis_state
from tests.support.limits.asking import HOUR, admitted, ask, concurrent, tokens_of, use


@pytest.mark.servers
@needs_redis
class TestLapsing:
    def late(self, state, *names):
        """As if the process had not been heard of for longer than a lease lives."""
        client = state._client._client
        for name in names:
            key = state._key("limit", name)
            for member in client.zrange(key, 0, -1):
                client.zadd(key, {member: 1})

    def begin(self):
        return window_begin(HOUR, time.time())

    def test_what_a_dead_process_held_is_free_again(self):
        state = redis_state()
        checks = (tokens_of(100, 70), concurrent(1), use("ann", 1))
        assert admitted(state, *checks)
        assert admitted(state, tokens_of(100, 0))
        assert not admitted(state, tokens_of(100, 70))
        assert not admitted(state, concurrent(1))
        self.late(state, f"tokens:{self.begin()}:held", "concurrent", "uses", "uses:ann")
        admission, settle = ask(state, tokens_of(100, 70), concurrent(1), use("bob", 1))
        assert admission.refused is None
        settle(70, 0, 0)
        assert admitted(state, tokens_of(100, 30), concurrent(1), use("bob", 1))

    def test_a_process_that_is_alive_renews_what_it_holds_and_takes_again_what_was_lost(self):
        state = redis_state()
        admission, settle = ask(state, tokens_of(100, 70), concurrent(1), use("ann", 1))
        assert admission.refused is None
        for name in state._client._client.scan_iter(f"{state._prefix}:*"):
            state._client._client.delete(name)
        state._renewed = 0
        state.renew_holds()
        other = redis_state(prefix=state._prefix)
        for check in (tokens_of(100, 31), concurrent(1), use("bob", 1)):
            assert not admitted(other, check), check.name
        settle(90, 0, 0)
        assert admitted(other, tokens_of(100, 10), concurrent(1), use("ann", 1))
        assert not admitted(other, tokens_of(100, 1))

    def test_who_settles_after_its_lease_lapsed_takes_nothing_from_others(self):
        state = redis_state()
        first, settle = ask(state, tokens_of(100, 70))
        self.late(state, f"tokens:{self.begin()}:held")
        second, _ = ask(state, tokens_of(100, 60))
        assert (first.refused, second.refused) == (None, None)
        settle(20)
        assert admitted(state, tokens_of(100, 20))
        assert not admitted(state, tokens_of(100, 1))

    def test_nothing_that_is_held_stays_in_redis_for_ever(self):
        state = redis_state()
        assert admitted(state, tokens_of(100, 70), concurrent(1), use("ann", 1), LimitCheck("n", 5, MINUTE))
        keys = list(state._client._client.scan_iter(f"{state._prefix}:*"))
        assert len(keys) == 7
        assert all(0 < state._client._client.ttl(key) <= HOUR + 60 for key in keys if b":peak:" not in key)
        assert all(0 < state._client._client.ttl(key) <= 3 * DAY for key in keys)

    def test_what_is_given_back_while_it_is_renewed_is_not_taken_again(self, monkeypatch):
        state = redis_state()
        checks = tokens_of(100, 70), concurrent(1), use("ann", 1, life=1)
        _, settle = ask(state, *checks)
        ending, run = threading.Thread(target=settle, args=(20, 0, 0)), state._client.run

        def slowly(script, keys, arguments, **options):
            """The request ends when it is known what is to be renewed, and Redis has not heard of it yet."""
            monkeypatch.setattr(state._client, "run", run)
            ending.start()
            time.sleep(0.1)
            return run(script, keys, arguments, **options)

        monkeypatch.setattr(state._client, "run", slowly)
        state._renewed = 0
        state.renew_holds()
        ending.join()
        assert state.used_amounts(checks[:2]) == [20, 0]
        time.sleep(1.1)
        assert admitted(state, tokens_of(100, 80), concurrent(1), use("bob", 1))
