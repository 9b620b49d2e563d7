"""Server-sent events, wherever the network cut them."""

import time
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from providers.formats.sse import BYTE_ORDER_MARK, EventSplitter, data_of
from tests.support.pace import slowness
from tests.support.promises import parses
from tests.support.thoroughness import number_of

pytestmark = pytest.mark.embedded

LINES = st.sampled_from(
    [b"data: a", b"data:b", b"data:  c", b"data", b": ping", b"event: x", b"id: 7", b"data: \xc3\xa9"]
)
EVENTS = st.lists(st.lists(LINES, min_size=1, max_size=4), min_size=1, max_size=5)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


def events(*pieces):
    splitter = EventSplitter()
    found = [event for piece in pieces for event in splitter.feed(piece)]
    return found, splitter.end()


def data(*pieces):
    """The data of each event that has any."""
    return [text for event in events(*pieces)[0] if (text := data_of(event))]


def written(blocks, end):
    return b"".join(end.join(lines) + end * 2 for lines in blocks)


@pytest.mark.parametrize("cut", range(5))
def test_a_byte_order_mark_is_no_part_of_the_first_event(cut):
    stream = b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n"
    assert events(stream[:cut], stream[cut:])[0] == [b"data: a\n\n", b"\xef\xbb\xbfdata: b\n\n"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_the_data_lines_of_an_event_belong_together(end):
    stream = written([[b"event: x", b"data: a", b"data: b"], [b"data: c"]], end)
    assert data(stream) == [b"a\nb", b"c"]
    assert len(events(stream)[0]) == 2


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (b"data: a\n\n", b"a"),
        (b"data:a\n\n", b"a"),
        (b"data:  a\n\n", b" a"),
        (b"data:\n\n", b""),
        (b"data\ndata\n\n", b"\n"),
        (b"data: a\ndata:\ndata: b\n\n", b"a\n\nb"),
        (b": ping\n\n", b""),
        (b": ping\ndata: a\n\n", b"a"),
        (b"event: x\nid: 7\nretry: 3\ndata: a\n\n", b"a"),
        (b"database: a\n\n", b""),
        (b" data: a\n\n", b""),
        (b"\xef\xbb\xbfdata: a\n\n", b"a"),
        (b"data: a: b\r\n\r\n", b"a: b"),
        (b"\n\n", b""),
    ],
)
def test_the_data_of_an_event(event, text):
    assert data_of(event) == text
    assert data(event) == ([text] if text else [])


def test_lines_may_end_in_different_ways():
    assert data(b"data: a\n\r\ndata: b\r\r\ndata: c\r\n\n") == [b"a", b"b", b"c"]


def test_what_no_blank_line_ends_is_no_event():
    assert events(b"data: a\n\ndata: b\n") == ([b"data: a\n\n"], b"data: b\n")


@parses
@given(EVENTS, ENDS, st.data())
@settings(max_examples=number_of(150), deadline=None)
def test_every_cut_gives_the_same_events(blocks, end, draw):
    stream = written(blocks, end)
    whole = data(stream)
    assert whole == [text for lines in blocks if (text := data_of(b"\n".join(lines) + b"\n\n"))]
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert data(*pieces) == whole
    assert data(*[bytes([byte]) for byte in stream]) == whole


@parses
@given(st.lists(st.binary(max_size=30) | st.sampled_from([b"\r", b"\n", b"\r\n", b"\n\n", b"data: a"]), max_size=12))
@example([b"\xef\xbb\xbf", b"\r", b"\r"])
@settings(max_examples=number_of(200), deadline=None)
def test_not_a_byte_is_lost_or_made_up(pieces):
    found, rest = events(*pieces)
    sent = b"".join(pieces)
    assert b"".join(found) + rest == (sent.removeprefix(BYTE_ORDER_MARK) if found else sent)


@pytest.mark.long
@pytest.mark.parametrize("size", [1, 17, 1000])
def test_a_megabyte_in_small_pieces_takes_linear_time(size):
    event = b"data: " + b"x" * 1_000_000 + b"\n\n"
    begun = time.process_time()
    assert data(*[event[at : at + size] for at in range(0, len(event), size)]) == [event[6:-2]]
    assert time.process_time() - begun < 3 * slowness()


def test_an_event_of_very_many_lines_takes_the_memory_of_its_data_alone():
    event = b"ab\n" * 1_000_000 + b"data: x\n\n"
    tracemalloc.start()
    assert data_of(event) == b"x"
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < len(event)


def test_many_small_events_in_one_piece_take_linear_time():
    begun = time.process_time()
    assert len(data(b"data: x\r\n\r\n" * 50_000)) == 50_000
    assert time.process_time() - begun < 3 * slowness()
