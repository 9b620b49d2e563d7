"""Of simultaneous identical requests one asks the provider, and the others get its result."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.pace import patience
from tests.support.provider_answers import Answer
from tests.support.simultaneous_requests import at_once, who_leaves


def test_fifty_identical_requests_make_one_call_and_get_equal_bodies(world, provider):
    world.ask("warm up")
    provider.answers(text="Lisbon", delay=0.6)
    responses = at_once(world, lambda _: world.ask(), 50)
    assert [response.status_code for response in responses] == [200] * 50
    assert len({response.content for response in responses}) == 1
    assert len(provider.seen) == 2
    statuses = [response.headers["X-Svc-Cache"] for response in responses]
    assert (statuses.count("MISS"), statuses.count("HIT")) == (1, 49)
    sources = [world.entry(response).entry_source for response in responses]
    assert (sources.count("Worker"), sources.count("Cache")) == (1, 49)


def test_identical_streams_make_one_call_too(world, provider):
    provider.answers(text="one two three", delay=0.4, pace=0.05)
    responses = at_once(world, lambda _: world.stream().content, 8)
    assert len(set(responses)) == 1
    assert b"three" in responses[0]
    assert len(provider.seen) == 1


def test_different_requests_at_once_each_get_their_own_answer(world, provider):
    provider.default = Answer(delay=0.2)
    responses = at_once(world, lambda number: world.ask(f"nonce {number}"), 40)
    texts = [response.json()["choices"][0]["message"]["content"] for response in responses]
    assert texts == [f"nonce {number}" for number in range(40)]
    assert len(provider.seen) == 40


def test_a_providers_error_goes_to_all_who_waited(world, provider):
    provider.answers(status=422, delay=1.2)
    responses = at_once(world, lambda _: world.ask(), 12)
    assert [response.status_code for response in responses] == [422] * 12
    assert len({response.content for response in responses}) == 1
    assert len(provider.seen) == 1
    assert {world.entry(response).outcome for response in responses} == {"failed"}


def test_the_others_are_served_when_the_client_of_the_first_leaves(world, provider):
    provider.answers(silent=True).answers(text="served")
    leader = world.send({})
    provider.wait_for(1)
    with ThreadPoolExecutor(6) as pool:
        others = [pool.submit(world.ask) for _ in range(6)]
        time.sleep(0.3)
        leader.close()
        responses = [other.result() for other in others]
    assert {response.json()["choices"][0]["message"]["content"] for response in responses} == {"served"}
    assert len(provider.seen) == 2
    assert provider.seen[0].wait_closed() < patience(2)


def test_one_who_waits_may_leave_without_harm_to_the_others(world, provider):
    assert world.key
    provider.answers(text="served", delay=0.8)
    assert who_leaves(world, provider).outcome == "client_closed"
    assert len(provider.seen) == 1


def test_nobody_waits_for_a_client_that_does_not_keep_up(world, provider):
    provider.default = Answer(
        stream=[{"choices": [{"delta": {"content": "x" * 100_000}}]}] * 200 + ["data: [DONE]\n\n"]
    )
    slow = world.send({"stream": True})
    assert slow.recv(100)
    begun = time.monotonic()
    assert len(world.stream().content) > 20_000_000
    assert time.monotonic() - begun < patience(6)
    assert len(provider.seen) == 1
    received = b""
    while b"[DONE]" not in received[-100:]:
        received = received[-100:] + slow.recv(1_000_000)


def test_one_who_waits_waits_no_longer_than_its_own_time(world, provider):
    assert world.key
    provider.answers(text="late", delay=1.5)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(world.ask)
        provider.wait_for(1)
        hurried = world.ask(headers={"X-Svc-Timeout": "0.4"})
        assert (hurried.status_code, hurried.json()["exception"]) == (504, "ProviderTimeout")
        assert first.result().status_code == 200


def test_those_who_bypass_or_refresh_do_not_wait_for_others(world, provider):
    assert world.key
    provider.answers(text="slow", delay=1.9).answers(text="quick").answers(text="quick")
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(world.ask)
        provider.wait_for(1)
        for control in ("bypass", "refresh"):
            begun = time.monotonic()
            assert b"quick" in world.ask(headers={"X-Svc-Cache": control}).content
            assert time.monotonic() - begun < 1.5
        assert b"slow" in slow.result().content


class TestStreamsThatWaitLong:
    """Clients and proxies need a sign of life, also of a request that waits for another's answer."""

    @pytest.fixture
    def provider(self, world):
        world.allow()
        return world.provider(first_byte_timeout_seconds=60, total_timeout_seconds=60)

    def two(self, world, provider):
        """A stream that asks the provider, and one that waits for its answer."""
        assert world.key
        pool = ThreadPoolExecutor(2)
        leader = pool.submit(world.stream)
        provider.wait_for(1)
        follower = pool.submit(world.stream)
        pool.shutdown(wait=False)
        return leader, follower

    def test_one_who_waits_gets_heartbeats_and_then_the_answer(self, world, provider):
        provider.answers(text="one two three", delay=3.5)
        leader, follower = self.two(world, provider)
        response = follower.result()
        assert response.headers["Content-Type"] == "text/event-stream"
        text = response.content
        beats, _, rest = text.rpartition(b": heartbeat\n\n")
        assert text.startswith(b": heartbeat\n\n")
        assert beats.count(b": heartbeat") >= 1
        assert rest == leader.result().content.rpartition(b": heartbeat\n\n")[2]
        assert b"three" in rest
        assert len(provider.seen) == 1
        entry = world.entry(response)
        assert (entry.outcome, entry.entry_source, entry.cache_status, entry.status) == (
            "completed", "Cache", "HIT", 200,
        )  # fmt: skip

    def test_what_was_dropped_and_added_comes_as_comments_then(self, world):
        world.allow()
        provider = world.provider(format_name="anthropic", first_byte_timeout_seconds=60, total_timeout_seconds=60)
        message = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Lisbon"}]}
        provider.answers(delay=3.5, body=message | {"stop_reason": "end_turn", "usage": {"input_tokens": 1}})

        def ask():
            body = {"model": world.model, "messages": [{"role": "user", "content": "Hello!"}], "stream": True, "n": 2}
            return world.post(body, path="/v1/chat/completions", stream=True)

        assert world.key
        with ThreadPoolExecutor(2) as pool:
            leader = pool.submit(ask)
            provider.wait_for(1)
            follower = pool.submit(ask).result()
        text, names = follower.content, b": X-Svc-Dropped: n\n\n: X-Svc-Added: max_tokens=8192\n\n"
        assert "X-Svc-Dropped" not in follower.headers
        assert text.startswith(b": heartbeat\n\n")
        assert text.index(names) < text.index(b"Lisbon")
        assert leader.result().headers["X-Svc-Dropped"] == "n"
        assert len(provider.seen) == 1

    def test_an_error_comes_as_an_event_then(self, world, provider):
        provider.answers(status=500, delay=3.5)
        leader, follower = self.two(world, provider)
        response = follower.result()
        assert response.status_code == 200
        event = json.loads(response.content.rpartition(b"data: ")[2])
        assert (event["code"], event["exception"]) == (502, "ProviderError")
        assert b"ProviderError" in leader.result().content
        assert world.entry(response).outcome == "failed"

    def test_one_who_waits_asks_itself_when_the_first_one_leaves(self, world, provider):
        provider.answers(silent=True, silent_limit=60).answers(text="served")
        leaving = world.send({"stream": True})
        provider.wait_for(1)
        with ThreadPoolExecutor(1) as pool:
            follower = pool.submit(world.stream)
            response = follower.result()  # its first heartbeat has come
            leaving.close()
            assert b"served" in response.content
        assert len(provider.seen) == 2
        entry = world.entry(response)
        assert (entry.outcome, entry.entry_source, entry.attempts) == ("completed", "Worker", 1)

    def test_one_who_leaves_while_it_waits_is_logged(self, world, provider):
        provider.answers(text="served", delay=4)
        with ThreadPoolExecutor(1) as pool:
            leader = pool.submit(world.stream)
            provider.wait_for(1)
            waiting = world.send({"stream": True}, f"X-Svc-Request-ID: leaves-{world.number}")
            text = b""
            while b": heartbeat" not in text:
                text += waiting.recv(4096)
            waiting.close()
            assert world.entry(f"leaves-{world.number}").outcome == "client_closed"
            assert b"served" in leader.result().content
        assert len(provider.seen) == 1

    def test_its_own_time_still_counts(self, world, provider):
        provider.answers(text="late", delay=6)
        with ThreadPoolExecutor(1) as pool:
            leader = pool.submit(world.stream)
            provider.wait_for(1)
            hurried = world.stream(headers={"X-Svc-Timeout": "2.5"})
            event = json.loads(hurried.content.rpartition(b"data: ")[2])
            assert event["exception"] == "ProviderTimeout"
            assert b"late" in leader.result().content

    def test_a_door_tells_it_in_its_own_shape(self, world, provider):
        provider.answers(status=500, delay=3.5)
        body = {"model": world.model, "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
        headers = {"Authorization": f"Bearer {world.key}"}

        def ask(_):
            return world.session.post(f"{world.gateway.url}/v1/chat/completions", json=body, headers=headers)

        world.settle()
        responses = at_once(world, ask, 3)
        assert sorted(response.status_code for response in responses) == [200, 200, 502]
        for response in responses:
            text = response.content
            assert text.startswith(b": heartbeat\n\n") is (response.status_code == 200)
            assert json.loads(text.rpartition(b"data: ")[2])["error"]["code"] == "provider_error"
        assert len(provider.seen) == 1
