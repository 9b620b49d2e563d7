"""Single flight across providers: who calls the next one when the first request fails."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from licensing.models import Limit
from providers.models import Provider
from tests.support.pace import in_one_minute
from tests.support.provider_answers import Answer
from tests.support.simultaneous_requests import at_once, who_leaves


def events(content):
    """The events of a stream without its heartbeats, which come when each client has waited long enough."""
    return b"\n\n".join(event for event in content.split(b"\n\n") if event != b": heartbeat")


class TestFailOver:
    """Where the first candidate fails the others still get the result of one call: that of the next one."""

    @pytest.fixture
    def pair(self, world):
        world.allow()
        patient = {"first_byte_timeout_seconds": 60, "total_timeout_seconds": 60}
        first, second = world.provider(priority=1, **patient), world.provider(priority=2, **patient)
        first.default = Answer(status=429, delay=0.4)
        second.default = Answer(text="Lisbon", delay=0.8)
        return first, second

    @pytest.mark.parametrize("status", [429, 500])
    def test_one_call_of_the_next_one_serves_all(self, world, pair, status):
        first, second = pair
        first.default = Answer(status=status, delay=0.4)
        responses = at_once(world, lambda _: world.ask(), 8)
        assert [response.status_code for response in responses] == [200] * 8
        assert len({response.content for response in responses}) == 1
        assert (len(first.seen), len(second.seen)) == (1, 1)
        served_by = {response.headers["X-Svc-Provider"] for response in responses}
        assert served_by == {world.row(second).name}
        entries = [world.entry(response) for response in responses]
        assert sorted(entry.cache_status for entry in entries) == ["HIT"] * 7 + ["MISS"]
        assert {entry.provider_name for entry in entries} == served_by
        for entry in entries:
            became = {name: result for name, result, _ in entry.candidates}
            assert became[world.row(first).name] == "failed"

    def test_what_it_answered_is_served_when_the_first_one_fails_again(self, world, pair):
        first, second = pair
        first.default = Answer(status=500)
        responses = [world.ask() for _ in range(3)]
        assert [response.headers["X-Svc-Cache"] for response in responses] == ["MISS", "HIT", "HIT"]
        assert {response.headers["X-Svc-Provider"] for response in responses} == {world.row(second).name}
        assert (len(first.seen), len(second.seen)) == (3, 1)
        entry = world.entry(responses[1])
        assert (entry.entry_source, entry.attempts, entry.outcome) == ("Cache", 1, "completed")
        first.default = Answer(text="Porto")
        again = world.ask()
        assert (again.headers["X-Svc-Cache"], b"Porto" in again.content) == ("MISS", True)

    def test_streams_too(self, world, pair):
        first, second = pair
        second.default = Answer(text="one two three", delay=0.8, pace=0.05)
        responses = at_once(world, lambda _: events(world.stream().content), 6)
        assert len(set(responses)) == 1
        assert b"three" in responses[0]
        assert (len(first.seen), len(second.seen)) == (1, 1)

    def test_streams_that_wait_long_get_heartbeats_meanwhile(self, world, pair):
        first, second = pair
        first.default = Answer(status=500, delay=2.5)
        second.default = Answer(text="one two three", delay=3)
        contents = at_once(world, lambda _: world.stream().content, 3)
        assert sum(content.startswith(b": heartbeat\n\n") for content in contents) == 2  # all but the one who asks
        responses = [events(content) for content in contents]
        assert len(set(responses)) == 1
        assert all(b"three" in response for response in responses)
        assert (len(first.seen), len(second.seen)) == (1, 1)

    def test_who_waits_gets_the_last_ones_error(self, world, pair):
        first, second = pair
        second.default = Answer(status=500, delay=0.8)
        responses = at_once(world, lambda _: world.ask(), 6)
        assert [response.status_code for response in responses] == [502] * 6
        assert (len(first.seen), len(second.seen)) == (1, 1)

    def test_who_may_only_ask_the_first_one_gets_its_error_at_once(self, world, pair):
        first, second = pair
        second.default = Answer(delay=3)
        alone = {"X-Svc-Provider": world.row(first).name}
        responses = at_once(world, lambda number: world.ask(headers=alone if number else {}), 3)
        assert [response.status_code for response in responses] == [200, 429, 429]
        assert len(second.seen) == 1

    def test_answers_that_are_not_for_all_are_asked_for_by_each_at_once(self, world, pair):
        first, second = pair
        Provider.objects.filter(id=world.row(second).id).update(cache_scope="key")
        world.settle()
        keys = [world.new_key().text for _ in range(4)]
        responses = at_once(world, lambda number: world.ask(key=keys[number // 2]), 8)
        assert [response.status_code for response in responses] == [200] * 8
        assert (len(first.seen), len(second.seen)) == (1, 4)
        assert second.peak_in_flight == 4

    def test_one_who_leaves_while_it_waits_for_the_next_one_is_no_harm(self, world, pair):
        first, second = pair
        first.default = Answer(status=429)  # at once: who leaves is to be beyond it by then
        second.default = Answer(text="Lisbon", delay=1.5)
        entry = who_leaves(world, second)
        assert (entry.outcome, entry.input_tokens) == ("client_closed", None)
        assert len(second.seen) == 1

    def test_what_the_next_one_had_answered_before_uses_no_tokens(self, world, pair):
        pair[1].default = Answer(usage={"prompt_tokens": 5, "completion_tokens": 25})
        key = world.new_key()
        Limit.objects.create(measure="tokens", window="minute", amount=65, key=key.key)
        in_one_minute(10)
        bodies = [world.ask(key=key.text, body={"max_tokens": 28}) for _ in range(4)]
        assert [response.status_code for response in bodies] == [200] * 4
        assert [response.headers["X-Svc-Cache"] for response in bodies] == ["MISS", "HIT", "HIT", "HIT"]
        assert len(pair[1].seen) == 1

    def test_who_waits_for_the_next_one_reserves_nothing(self, world, pair):
        pair[1].default = Answer(delay=2, usage={"prompt_tokens": 1, "completion_tokens": 1})
        key = world.new_key()
        Limit.objects.create(measure="tokens", window="minute", amount=100, key=key.key)
        in_one_minute(10)
        world.settle()
        body, second = {"max_tokens": 30}, {"X-Svc-Provider": world.row(pair[1]).name}
        with ThreadPoolExecutor(2) as pool:
            leader = pool.submit(world.ask, key=key.text, body=body, headers=second)
            pair[1].wait_for(1)
            waits = pool.submit(world.ask, key=key.text, body=body)
            pair[0].wait_for(1)
            time.sleep(0.8)
            other = world.ask("else", key=key.text, body={"max_tokens": 60}, headers=second | {"X-Svc-Timeout": "0.5"})
            assert other.status_code == 504
            assert [one.result().status_code for one in (leader, waits)] == [200, 200]
        assert len(pair[1].seen) == 2

    def test_a_first_one_without_room_is_passed_over_by_all(self, world, pair):
        first, second = pair
        first.default = Answer(delay=3)
        Limit.objects.create(measure="concurrent", window="none", amount=1, provider=world.row(first))
        world.settle()
        with ThreadPoolExecutor(1) as pool:
            full = pool.submit(world.ask, "fills the first one")
            first.wait_for(1)
            responses = at_once(world, lambda _: world.ask(), 6)
            full.result()
        assert [response.status_code for response in responses] == [200] * 6
        assert (len(first.seen), len(second.seen)) == (1, 1)

    def test_what_was_taken_of_limits_is_given_back(self, world, pair):
        first, second = pair
        for provider in pair:
            for measure, amount in (("concurrent", 1), ("tokens", 60)):
                window = "none" if measure == "concurrent" else "minute"
                Limit.objects.create(measure=measure, window=window, amount=amount, provider=world.row(provider))
        in_one_minute(10)
        world.settle()
        usage = {"prompt_tokens": 5, "completion_tokens": 5}
        first.default, second.default = Answer(status=500, delay=0.4), Answer(delay=0.4, usage=usage)
        bodies = {"max_tokens": 30}
        responses = at_once(world, lambda _: world.ask("a", body=bodies), 5)
        assert [response.status_code for response in responses] == [200] * 5
        first.default = Answer(usage=usage)
        response = world.ask("b", body=bodies)
        assert response.headers["X-Svc-Provider"] == world.row(first).name
        assert '"provider-tokens";r=50' in response.headers["RateLimit"]
        first.default = Answer(status=500)
        response = world.ask("c", body=bodies)
        assert '"provider-tokens";r=40' in response.headers["RateLimit"]
