"""Identical streams at the same time: one call of the provider, and each client gets every chunk as it comes."""

import json
import signal
import time

import pytest

from gateway_project.work.streaming.live_chunks import USAGE_BYTES
from tests.support.pace import patience
from tests.support.promises import promise
from tests.support.stepped_streams import CUT, Client, SteppedProvider
from tests.support.streaming import datas, error_in, part, text

pytestmark = pytest.mark.either_store

PATIENT = {"first_byte_timeout_seconds": 60, "idle_timeout_seconds": 60, "total_timeout_seconds": 60}


@pytest.fixture
def stepped(world):
    provider = SteppedProvider()
    world.allow()
    world.provider(url=provider.url, **PATIENT)
    assert world.key
    world.settle()
    yield provider
    provider.close()


def followed(world, stepped, number=1, **options):
    """A leader that has got the first word, its stream, and so many followers that have got it too."""
    leader = Client(world, **options)
    stream = stepped.stream()
    stream.send(part("one "))
    leader.read_until(b"one")
    followers = [Client(world, **options) for _ in range(number)]
    for follower in followers:
        follower.read_until(b"one")
    return leader, stream, followers


def test_followers_get_the_beginning_at_once_and_the_rest_as_it_comes(world, stepped):
    leader, stream, (follower,) = followed(world, stepped)
    assert follower.response.headers["X-Svc-Cache"] == "HIT"
    assert follower.response.headers["Content-Type"] == "text/event-stream"
    for word in (b"two", b"three"):
        stream.send(part(f"{word.decode()} "))
        leader.read_until(word)
        follower.read_until(word)
    late = Client(world)
    assert text(late.read_until(b"three")) == "one two three "
    stream.finish()
    bodies = {one.read() for one in (leader, follower, late)}
    assert len(bodies) == 1
    assert text(bodies.pop()) == "one two three "
    assert len(stepped.streams) == 1
    assert Client(world).read() == follower.body


def test_the_entries_are_those_of_one_call_and_of_cached_answers(world, stepped):
    world.price(amount=100_000, output=100_000)
    world.settle()
    leader, stream, followers = followed(world, stepped, 2)
    stream.finish()
    for one in (leader, *followers):
        one.read()
    entry = world.entry(leader.id)
    assert (entry.outcome, entry.entry_source, entry.cache_status, entry.attempts) == ("completed", "Worker", "MISS", 1)
    assert (entry.input_tokens, entry.output_tokens, entry.cost) == (7, 3, 1)
    for follower in followers:
        entry = world.entry(follower.id)
        assert (entry.outcome, entry.entry_source, entry.cache_status) == ("completed", "Cache", "HIT")
        assert (entry.input_tokens, entry.output_tokens, entry.cost, entry.saved_cost) == (7, 3, 0, 1)
        assert (entry.attempts, entry.status, entry.finish_reason) == (0, 200, "stop")
        assert "one " in entry.payload


def test_who_waits_for_the_first_chunk_gets_it_with_the_first_one(world, stepped):
    leader = Client(world)
    stream = stepped.stream()
    followers = [Client(world) for _ in range(3)]
    for follower in followers:
        follower.read_until(b": heartbeat")
    stream.send(part("one "))
    for one in (leader, *followers):
        assert b"one" in one.read_until(b"one")
    stream.finish()
    assert len({one.read() for one in (leader, *followers)}) == 1
    assert len(stepped.streams) == 1


@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_followers_keep_their_stream_when_the_first_client_leaves(world, stepped, version):
    world.price(amount=100_000, output=100_000)
    world.settle()
    leader, stream, followers = followed(world, stepped, 2, version=version)
    leader.leave()
    for word in (b"two", b"three"):  # the first of them may be what shows that it has gone
        stream.send(part(f"{word.decode()} "))
        for follower in followers:
            follower.read_until(word)
    late = Client(world)
    late.read_until(b"three")
    assert not stream.gone.is_set()
    stream.finish()
    assert {text(one.read()) for one in (*followers, late)} == {"one two three "}
    assert len(stepped.streams) == 1
    entry = world.entry(leader.id)
    assert (entry.outcome, entry.attempts, entry.cache_status) == ("client_closed", 1, "MISS")
    assert (entry.input_tokens, entry.output_tokens, entry.usage_estimated, entry.cost) == (7, 3, False, 1)
    assert {world.entry(one.id).cost for one in (*followers, late)} == {0}


def test_the_provider_is_hung_up_on_when_all_have_left(world, stepped):
    leader, stream, followers = followed(world, stepped, 2)
    for one in (*followers, leader):
        assert not stream.gone.is_set()
        one.leave()
    assert stream.gone.wait(patience(2))
    for one in (leader, *followers):
        assert world.entry(one.id).outcome == "client_closed"
    assert world.entry(leader.id).usage_estimated
    assert world.entry(followers[0].id).input_tokens is None
    again = Client(world)
    stepped.stream(1).send(part("again"))
    again.read_until(b"again")


FLOODS = {
    "events": b'data: {"choices": [], "x": "' + b"y" * 8000 + b'"}\n\n',
    "comments": b": " + b"y" * 8000 + b"\n\n",
}


@promise(
    "What is read for its usage after its clients have left is bounded",
    target="64 kB read; up to 96 kB sent, some of which is on its way",
    suite="attack",
)
@pytest.mark.parametrize("noise", FLOODS.values(), ids=FLOODS)
@pytest.mark.parametrize("number", [0, 2])
def test_a_flood_after_the_finish_reason_is_cut_when_all_have_left(world, stepped, number, noise, figure):
    leader, stream, followers = followed(world, stepped, number)
    stream.send(part("", "stop"))
    for one in (leader, *followers):
        one.read_until(b'"stop"')
        one.leave()
    flood_bytes = 0
    while not stream.gone.wait(0.05) and flood_bytes < 20 * USAGE_BYTES:
        stream.send(noise)
        flood_bytes += len(noise)
    figure({"bytes sent at most": flood_bytes})
    assert USAGE_BYTES < flood_bytes <= USAGE_BYTES + 4 * len(noise)
    assert world.entry(leader.id).outcome == "client_closed"


def test_a_follower_may_leave(world, stepped):
    leader, stream, followers = followed(world, stepped, 2)
    followers[0].leave()
    assert world.entry(followers[0].id).outcome == "client_closed"
    stream.finish()
    assert leader.read() == followers[1].read()
    assert world.entry(leader.id).outcome == world.entry(followers[1].id).outcome == "completed"


def test_the_time_of_the_first_request_is_its_own(world, stepped):
    leader = Client(world, head=["X-Svc-Timeout: 1.5"])
    stream = stepped.stream()
    stream.send(part("one "))
    follower = Client(world)
    follower.read_until(b"one")
    assert error_in(leader.read())["code"] == 504
    stream.send(part("two "))
    follower.read_until(b"two")
    stream.finish()
    assert text(follower.read()) == "one two "
    entry = world.entry(leader.id)
    assert (entry.outcome, entry.exception, entry.output_tokens) == ("truncated", "ProviderTimeout", 3)
    assert world.entry(follower.id).outcome == "completed"


def test_a_followers_own_time_ends_it_alone(world, stepped):
    leader = Client(world)
    stream = stepped.stream()
    stream.send(part("one "))
    leader.read_until(b"one")
    hurried = Client(world, head=["X-Svc-Timeout: 1"])
    assert error_in(hurried.read())["code"] == 504
    stream.finish()
    assert text(leader.read()) == "one "
    entry = world.entry(hurried.id)
    assert (entry.outcome, entry.exception, entry.cost_status, entry.status) == (
        "truncated",
        "ProviderTimeout",
        "",
        200,
    )
    assert "one " in entry.payload


def test_a_silence_is_bridged_for_each(world, stepped):
    leader, stream, (follower,) = followed(world, stepped)
    leader.read_until(b": heartbeat")
    follower.read_until(b": heartbeat")
    stream.finish()
    assert leader.read() == follower.read()


def test_who_does_not_read_slows_nobody_and_misses_nothing(world, stepped):
    leader, stream, (slow, quick) = followed(world, stepped, 2)
    for _ in range(60):
        stream.send(part("x" * 100_000))
    stream.finish()
    begun = time.monotonic()
    assert len(quick.read()) > 6_000_000
    assert leader.read() == quick.read()
    assert time.monotonic() - begun < patience(3)
    assert slow.read() == quick.read()
    assert world.entry(slow.id).outcome == "completed"


def test_a_first_client_that_does_not_read_slows_nobody(world, stepped):
    leader = Client(world)
    stream = stepped.stream()
    stream.send(part("one "))
    follower = Client(world)
    follower.read_until(b"one")
    for _ in range(60):
        stream.send(part("x" * 100_000))
    stream.finish()
    begun = time.monotonic()
    assert len(follower.read()) > 6_000_000
    assert time.monotonic() - begun < patience(3)
    assert leader.read() == follower.read()
    assert len(stepped.streams) == 1
    assert world.entry(leader.id).outcome == "completed"


def test_fifty_followers_get_the_same_bytes_of_one_call(world, stepped):
    leader, stream, followers = followed(world, stepped, 50)
    for number in range(20):
        stream.send(part(f"word{number} "))
    followers[0].leave()
    stream.finish()
    with_leader = [leader, *followers[1:]]
    assert len({one.read() for one in with_leader}) == 1
    assert len(stepped.streams) == 1
    outcomes = [world.entry(one.id).outcome for one in with_leader]
    assert outcomes == ["completed"] * 50


DOORS = {
    "/work": lambda body, follower: error_in(body)["exception"] == "ProviderError",
    "/v1/chat/completions": lambda body, follower: json.loads(datas(body)[-1])["error"]["code"] == "provider_error",
    "/v1/messages": lambda body, follower: json.loads(datas(body)[-1])["request_id"] == follower.id,
}


@pytest.mark.parametrize("path", DOORS)
@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_an_error_in_the_middle_goes_to_each_in_its_own_shape(world, stepped, path, version):
    leader, stream, followers = followed(world, stepped, 2, path=path, version=version)
    stream.send(part("two "), CUT)
    for one in (leader, *followers):
        body = one.read()
        assert b"two" in body
        assert DOORS[path](body, one), body
        entry = world.entry(one.id)
        assert (entry.outcome, entry.exception, entry.status) == ("truncated", "ProviderError", 200)
    assert world.entry(followers[0].id).cost_status == ""
    again = Client(world, path=path)
    stepped.stream(1).finish()
    assert again.begin().response.status == 200
    again.leave()


@pytest.mark.parametrize("path", list(DOORS)[1:])
def test_doors_are_followed_live(world, stepped, path):
    leader, stream, followers = followed(world, stepped, 2, path=path)
    stream.send(part("two "))
    for one in (leader, *followers):
        one.read_until(b"two")
    stream.finish()
    assert len({one.read() for one in (leader, *followers)}) == 1
    assert len(stepped.streams) == 1
    assert {world.entry(one.id).entry_source for one in followers} == {"Cache"}


def test_followers_learn_what_the_provider_got_besides(world):
    stepped = SteppedProvider()
    world.allow()
    world.provider(url=stepped.url, format_name="anthropic", **PATIENT)
    body, start = {"max_tokens": None}, {"type": "message_start", "message": {"id": "1", "usage": {"input_tokens": 1}}}
    leader = Client(world, body)
    stepped.stream().send(start, {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "one"}})
    leader.read_until(b"one")
    follower = Client(world, body)
    follower.read_until(b"one")
    for client in (leader, follower):
        assert client.response.headers["X-Svc-Added"] == "max_tokens=8192"
    assert (len(stepped.streams), follower.response.headers["X-Svc-Cache"]) == (1, "HIT")
    stepped.close()


def test_a_stop_of_the_server_ends_all_of_them_in_good_order(own_gateway):
    world = own_gateway(GATEWAY_GRACEFUL_TIMEOUT="4")
    stepped = SteppedProvider()
    world.allow()
    world.provider(url=stepped.url, **PATIENT)
    leader, _, followers = followed(world, stepped, 3)
    leader.leave()
    world.gateway.process.send_signal(signal.SIGTERM)
    for follower in followers:
        assert error_in(follower.read())["code"] == 503
    assert world.gateway.process.wait(10) == 0
    assert world.entry(leader.id).outcome == "client_closed"
    assert {world.entry(one.id).outcome for one in followers} == {"truncated"}
    stepped.close()


def test_an_answer_too_long_to_be_kept_is_for_those_who_follow_already(own_gateway):
    world = own_gateway(GATEWAY_CACHE_MAX_ENTRY_BYTES="65536", GATEWAY_LOG_PAYLOAD="redacted")
    stepped = SteppedProvider()
    world.allow()
    world.provider(url=stepped.url, **PATIENT)
    leader, stream, (follower,) = followed(world, stepped)
    for number in range(10):
        stream.send(part(f"{number}" * 20_000))
    stream.send(part("last "))
    for one in (leader, follower):
        one.read_until(b"last")
    late = Client(world)
    stepped.stream(1).send(part("own"))
    late.read_until(b"own")
    stream.finish()
    assert leader.read() == follower.read()
    assert len(text(follower.read())) > 200_000
    entries = [world.entry(one.id) for one in (leader, follower)]
    assert {(entry.outcome, entry.output_tokens) for entry in entries} == {("completed", 3)}
    payloads = [json.loads(entry.payload)["response"] for entry in entries]
    assert payloads[0] == payloads[1]
    stepped.stream(1).finish()
    assert text(late.read()) == "own"
    stepped.close()
