"""Streamed tool calls of servers that leave out `index`, or repeat it, as OpenAI's clients put them together."""

import json

import pytest

from providers.formats import FORMATS
from providers.formats.dialect import WorkRequest
from providers.formats.neutral.deltas import CallDelta, CallStart
from tests.support.streaming import event as event_of

pytestmark = pytest.mark.either_store

BODY = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
PORTO, FARO = ["Porto", '{"in":"Porto"}'], ["Faro", '{"in":"Faro"}']


def piece(arguments: str = "", **members) -> dict:
    name = {"name": members.pop("name")} if "name" in members else {}
    return {"function": {**name, "arguments": arguments}, **members}


def event(*pieces: dict, choice: int = 0, **more) -> bytes:
    choices = [{"index": choice, "delta": {"tool_calls": list(pieces)}, "finish_reason": None}]
    return b"data: " + json.dumps({"id": "c", "choices": choices, **more}).encode() + b"\n\n"


# Each is a stream of two calls in the words of some server.
STREAMS = {
    "whole, in one event": [
        event(piece('{"in":"Porto"}', id="a", name="Porto"), piece('{"in":"Faro"}', id="b", name="Faro"))
    ],
    "whole, in one event, without ids": [
        event(piece('{"in":"Porto"}', id="", name="Porto"), piece('{"in":"Faro"}', id="", name="Faro"))
    ],
    "whole, in an event each": [
        event(piece('{"in":"Porto"}', id="a", name="Porto")),
        event(piece('{"in":"Faro"}', id="b", name="Faro")),
    ],
    "whole, all with one index": [
        event(piece('{"in":"Porto"}', id="a", index=0, name="Porto")),
        event(piece('{"in":"Faro"}', id="b", index=0, name="Faro")),
    ],
    "in pieces, each with its id": [
        event(piece(id="a", name="Porto"), piece(id="b", name="Faro")),
        event(piece('{"in":', id="b")),
        event(piece('{"in":', id="a"), piece('"Faro"}', id="b")),
        event(piece('"Porto"}', id="a")),
    ],
    "in pieces that only continue": [
        event(piece(id="a", name="Porto")),
        event(piece('{"in":')),
        event(piece('"Porto"}')),
        event(piece('{"in":', id="b", name="Faro")),
        event(piece('"Faro"}', index=None)),
    ],
    "in pieces that only continue, by name": [
        event(piece(name="Porto")),
        event(piece('{"in":"Porto"}')),
        event(piece('{"in":', name="Faro")),
        event(piece('"Faro"}')),
    ],
    "in pieces, all with one index": [
        event(piece(id="a", index=0, name="Porto")),
        event(piece('{"in":"Porto"}', index=0)),
        event(piece(id="b", index=0, name="Faro")),
        event({"index": 0, "function": {"arguments": '{"in":"Faro"}'}}),
    ],
}
GOOD = [
    event({"index": 0, "id": "a", "type": "function", "function": {"name": "Porto", "arguments": ""}}),
    event({"index": 0, "function": {"arguments": '{"in":"Porto"}'}}),
    event({"index": 1, "id": "b", "type": "function", "function": {"name": "Faro", "arguments": ""}}),
    event({"index": 1, "function": {"arguments": '{"in":"Faro"}'}}),
]


def reader(*, via_door: bool = True, translated: bool = False):
    work = WorkRequest("chat", "m", BODY, json.dumps(BODY).encode(), True, via_door=via_door)
    made = FORMATS["openai"].native_reader(work)
    made.deltas = [] if translated else None
    return made


def put_together(stream: bytes, choice: int = 0) -> list[list[str]]:
    """Name and arguments of each call, as OpenAI's SDK accumulates them: by index alone."""
    calls: dict[int, list[str]] = {}
    for line in stream.split(b"\n\n"):
        for one in json.loads(line.removeprefix(b"data: "))["choices"] if line else []:
            for delta in one["delta"]["tool_calls"] if one["index"] == choice else []:
                call = calls.setdefault(delta["index"], ["", ""])
                call[0] += delta["function"].get("name", "")
                call[1] += delta["function"]["arguments"]
    assert sorted(calls) == list(range(len(calls)))
    return [calls[index] for index in sorted(calls)]


@pytest.mark.parametrize("name", STREAMS)
def test_a_client_of_openai_gets_every_call_by_its_index(name):
    made = reader()
    assert put_together(b"".join(map(made.feed, STREAMS[name]))) == [PORTO, FARO]


@pytest.mark.parametrize("name", STREAMS)
def test_a_client_of_another_shape_does_too(name):
    made, calls = reader(translated=True), {}
    for one in STREAMS[name]:
        made.feed(one)
    for delta in made.take_deltas():
        if isinstance(delta, CallStart):
            calls[delta.index] = [delta.name, ""]
        elif isinstance(delta, CallDelta):
            calls[delta.index][1] += delta.arguments
    assert list(calls.values()) == [PORTO, FARO]


def test_each_choice_counts_its_own_calls():
    made = reader()
    stream = b"".join(made.feed(event(piece("{}", id=f"{n}", name="f"), choice=n % 2)) for n in range(4))
    assert put_together(stream, 0) == put_together(stream, 1) == [["f", "{}"]] * 2


@pytest.mark.parametrize("spaced", [True, False])
def test_what_is_right_passes_byte_for_byte(spaced):
    stream = GOOD if spaced else [one.replace(b'": ', b'":').replace(b", ", b",") for one in GOOD]
    made = reader()
    assert list(map(made.feed, stream)) == stream
    assert put_together(b"".join(stream)) == [PORTO, FARO]


def test_a_continued_call_passes_without_being_parsed(monkeypatch):
    made = reader()
    made.feed(GOOD[0])
    monkeypatch.setattr(made, "parse_json", None)
    assert made.feed(GOOD[1]) == GOOD[1]


def test_work_answers_in_the_words_of_the_provider():
    made, stream = reader(via_door=False), STREAMS["whole, in one event"]
    assert list(map(made.feed, stream)) == stream


def test_an_event_that_also_holds_the_usage_has_both_corrected():
    made = reader()
    usage = {"prompt_tokens": 1, "completion_tokens": 2}
    passed = made.feed(event(piece("{}", id="a", name="f"), usage=usage))
    assert put_together(passed) == [["f", "{}"]]
    assert b"usage" not in passed
    assert (made.usage.input, made.usage.output) == (1, 2)


def test_words_beside_a_piece_of_a_call_do_not_fix_its_index():
    def with_words(words, arguments):
        delta = {"content": words, "tool_calls": [{"index": 0, "function": {"arguments": arguments}}]}
        return event_of({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})

    stream = [
        event(piece(id="a", index=0, name="Porto")),
        with_words("x", "{}"),
        event(piece(id="b", index=0, name="Faro")),  # a second call with the same index
        with_words("y", "{}"),
    ]
    corrected = reader()
    output = b"".join(map(corrected.feed, stream))
    assert put_together(output) == [["Porto", "{}"], ["Faro", "{}"]]
