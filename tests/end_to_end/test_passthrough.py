"""Streams of providers whose protocol nobody knows."""

import json

import pytest

from tests.support.provider_answers import Answer
from tests.support.streaming import arrivals, read

pytestmark = pytest.mark.either_store


@pytest.fixture
def provider(world):
    world.allow()
    return world.provider(format_name="passthrough")


def test_an_event_stream_passes_as_it_is(world, provider):
    requests = [b'event: message_start\ndata: {"type": "message_start"}\n\n', b'data: {"type":"message_stop"}\n\n']
    provider.answers(stream=requests)
    response = world.stream()
    assert read(response) == b"".join(requests)
    assert world.entry(response).outcome == "completed"


@pytest.mark.parametrize("kind", ["application/x-ndjson", "application/jsonl"])
def test_lines_of_json_pass_as_they_are_and_are_replayed(world, provider, kind):
    lines = [b'{"response": "a"}\n', b'{"response": "b"}\n', b'{"done": true}\n']
    provider.answers(stream=lines, headers={"Content-Type": kind}, pace=0.1)
    first, second = world.stream(), world.stream()
    assert arrivals(first)[0][1] == lines[0]
    assert read(second) == b"".join(lines)
    assert first.headers["Content-Type"] == second.headers["Content-Type"] == kind
    assert (second.headers["X-Svc-Cache"], len(provider.seen)) == ("HIT", 1)


def test_a_stream_that_is_cut_is_truncated(world, provider):
    kind = {"Content-Type": "application/x-ndjson"}
    provider.answers(stream=[b'{"response": "a"}\n', b'{"respon'], cut_after=22, headers=kind)
    response = world.stream()
    lines = read(response).splitlines()
    assert lines[0] == b'{"response": "a"}'
    assert json.loads(lines[1])["exception"] == "ProviderError"  # half a line would only be in its way
    assert world.entry(response).outcome == "truncated"
    assert world.stream().headers["X-Svc-Cache"] == "MISS"


def test_an_error_stands_in_a_line_of_its_own_however_long_the_stream_was(own_gateway):
    world = own_gateway(GATEWAY_CACHE_MAX_ENTRY_BYTES="100", GATEWAY_LOG_PAYLOAD_MAX_BYTES="100")
    world.allow()
    lines, kind = (
        [b'{"response": "%d"}\n' % (10**4) for _ in range(5_000)],
        {"Content-Type": "application/x-ndjson"},
    )
    answer = Answer(stream=[b"".join(lines), *[b'{"respon'] * 2], cut_after=len(lines[0]) * 5_000 + 4, headers=kind)
    world.provider(format_name="passthrough").answers(**vars(answer))
    *whole, result = read(world.stream()).splitlines()
    assert len(whole) == 5_000
    assert json.loads(result)["exception"] == "ProviderError"


def test_lines_of_json_stay_lines_of_json_through_silence_and_failure(world, provider):
    kind = {"Content-Type": "application/x-ndjson"}
    provider.answers(stream=[b'{"a": 1}\n', b'{"b": 2}\n', b""], headers=kind, pace=1.2, framing="close")
    response = world.stream()
    lines = [json.loads(line) for line in read(response).splitlines()]
    assert lines[:2] == [{"a": 1}, {"b": 2}]
    assert (len(lines), lines[2]["code"], lines[2]["exception"]) == (3, 502, "ProviderError")


def test_its_error_in_the_middle_is_told(world, provider):
    provider.answers(stream=[b'data: {"a": 1}\n\n', b'data: {"error": {"message": "sorry"}}\n\n'], pace=0.05)
    response = world.stream()
    assert b"sorry" in read(response)
    assert world.entry(response).outcome == "failed"
