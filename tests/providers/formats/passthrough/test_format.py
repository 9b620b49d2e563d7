"""A stream in a protocol that nobody knows: its lines go on as they came, once they are whole."""

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.formats.dialect import WorkRequest
from providers.formats.passthrough.reply import familiar_usage
from providers.formats.passthrough.stream import LINE_LIMIT, PassthroughReader
from providers.formats.usage import Usage

pytestmark = pytest.mark.embedded

WORK = WorkRequest("chat", "x", {"model": "x"}, b'{"model": "x"}', stream=True)
EVENTS = b'data: {"a": 1}\n\ndata: {"b": 2}\r\n\r\n: ping\n\ndata: [DONE]\n\n'


def handed_on(*pieces):
    reader = PassthroughReader(WORK)
    told = [reader.feed(piece) for piece in pieces]
    return [*told, reader.end(True)], reader


@given(st.lists(st.integers(0, len(EVENTS)), max_size=6))
def test_nothing_is_lost_or_changed_wherever_it_is_cut(cuts):
    places = [0, *sorted(cuts), len(EVENTS)]
    told, reader = handed_on(*(EVENTS[begin:end] for begin, end in pairwise(places)))
    assert b"".join(told) == EVENTS
    assert reader.done
    assert reader.error is None


def test_a_line_waits_until_it_is_whole():
    told, _ = handed_on(b'data: {"a"', b": 1}", b'\n\ndata: {"b": 2}\r', b"\n\r\n", b'{"c":')
    assert told == [b"", b"", b'data: {"a": 1}\n\n', b'data: {"b": 2}\r\n\r\n', b"", b'{"c":']


@pytest.mark.parametrize("pieces", [[b'data: {"error": {"mess', b'age": "no"}}\n\n'], [b'{"error": "no"}\n']])
def test_nothing_of_an_error_goes_on(pieces):
    told, reader = handed_on(b"data: 1\n\n", *pieces)
    assert b"".join(told) == b"data: 1\n\n"
    assert "no" in reader.error.message


def test_what_stands_before_an_error_goes_on():
    told, reader = handed_on(b'data: {"a": 1}\n\ndata: {"error": "no"}\n\ndata: 2\n\n')
    assert told == [b'data: {"a": 1}\n\n', b""]
    assert reader.is_over


@pytest.mark.parametrize("line", [b"\n", b": x\n\n"])
def test_many_short_lines_in_one_piece_take_no_longer_than_they_are_long(line):
    def seconds(size):
        piece, begun = line * (size // len(line)), time.process_time()
        handed_on(piece)
        return time.process_time() - begun

    assert seconds(512 * 1024) < 20 * max(seconds(64 * 1024), 0.005)


def test_an_overload_is_told_as_one():
    _, reader = handed_on(b'data: {"error": {"code": 429, "message": "slow down"}}\n\n')
    assert (reader.error.code, reader.error.exception) == (429, "ProviderOverloaded")


def test_cached_input_of_responses_is_counted_once():
    usage = {"input_tokens": 100, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 90}}
    assert familiar_usage({"usage": usage}) == Usage(10, 90, None, 5, None)


def test_cached_input_that_only_an_earlier_event_tells_is_counted_once():
    first = b'{"usage": {"prompt_tokens": 100, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 80}}}'
    last = b'{"usage": {"prompt_tokens": 100, "completion_tokens": 9, "prompt_tokens_details": null}}'
    _, reader = handed_on(b"data: %b\n\ndata: %b\n\n" % (first, last))
    assert reader.usage == Usage(20, 80, None, 9)


def test_a_line_that_is_far_too_long_goes_on_unread():
    long = b'data: {"a": "' + b"x" * LINE_LIMIT
    told, reader = handed_on(long, b"y", b'z"}\n{"done": true}\n')
    assert told == [long, b"y", b'z"}\n{"done": true}\n', b""]
    assert reader.done
