"""AWS's binary event stream, compared with what botocore reads."""

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from providers.formats import FORMATS
from providers.formats.bedrock.event_stream import FrameSplitter, InvalidFrame, read_frame, write_frame
from providers.formats.dialect import WorkRequest
from tests.support.promises import parses

pytestmark = pytest.mark.embedded

HEADERS = {":message-type": "event", ":event-type": "contentBlockDelta", ":content-type": "application/json"}
RAW = write_frame(HEADERS, b'{"delta":{"text":"Lisbon"}}')
texts = st.text(max_size=40)
frames = st.builds(write_frame, st.dictionaries(st.text(min_size=1, max_size=20), texts, max_size=4), st.binary())


def by_botocore(raw):
    buffer = EventStreamBuffer()
    buffer.add_data(raw)
    return [(message.headers, message.payload) for message in buffer]


@given(frames)
def test_botocore_reads_what_we_write_and_so_do_we(raw):
    assert by_botocore(raw) == [tuple(read_frame(raw))]


@parses
@given(st.lists(frames, max_size=4), st.data())
def test_frames_are_whole_wherever_the_stream_is_cut(whole, data):
    stream, splitter, found, start = b"".join(whole), FrameSplitter(), [], 0
    while start < len(stream):
        end = data.draw(st.integers(start + 1, len(stream)))
        found += splitter.feed(stream[start:end])
        start = end
    assert (found, splitter.end()) == (whole, b"")


def test_a_stream_that_was_cut_has_a_rest():
    splitter = FrameSplitter()
    assert splitter.feed(RAW + RAW[:20]) == [RAW]
    assert splitter.end() == RAW[:20]


@pytest.mark.parametrize("at", range(len(RAW)))
def test_no_wrong_byte_is_overlooked(at):
    damaged = RAW[:at] + bytes([RAW[at] ^ 1]) + RAW[at + 1 :]
    splitter = FrameSplitter()
    found = splitter.feed(damaged + RAW)
    if not splitter.problem:
        with pytest.raises(InvalidFrame):
            read_frame(found[0])


def test_headers_of_other_types_are_stepped_over():
    values = b"".join(
        bytes([len(name)]) + name + bytes([kind]) + value
        for name, kind, value in [
            (b"a", 0, b""), (b"b", 1, b""), (b"c", 2, b"x"), (b"d", 3, b"xx"), (b"e", 4, b"xxxx"), (b"f", 5, b"x" * 8),
            (b"g", 6, b"\0\2xx"), (b"h", 8, b"x" * 8), (b"i", 9, b"x" * 16), (b":event-type", 7, b"\0\4text"),
        ]
    )  # fmt: skip
    assert read_frame(framed(values)).headers == {":event-type": "text"}
    assert by_botocore(framed(values))[0][0][":event-type"] == "text"


@pytest.mark.parametrize(
    "headers", [b"\5", b"\1a", b"\1a\7", b"\1a\7\0\5xx", b"\1a\x63", b"\1\xff\0", b"\1a\7\0\1\xff", b"\1a\5x"]
)
def test_headers_that_are_none(headers):
    with pytest.raises(InvalidFrame):
        read_frame(framed(headers))


def framed(headers):
    """A frame with these bytes as its headers."""
    from struct import pack
    from zlib import crc32

    lengths = pack(">II", 16 + len(headers), len(headers))
    frame = lengths + pack(">I", crc32(lengths)) + headers
    return frame + pack(">I", crc32(frame))


@pytest.mark.parametrize("lengths", [(0, 0), (15, 0), (16, 1), (2**32 - 1, 0), (2**20, 2**18)])
def test_a_length_that_cannot_be_ends_the_stream_at_once(lengths):
    from struct import pack
    from zlib import crc32

    prelude = pack(">II", *lengths)
    splitter = FrameSplitter()
    assert splitter.feed(RAW + prelude + pack(">I", crc32(prelude))) == [RAW]
    assert splitter.problem
    assert splitter.feed(RAW) == []


@pytest.mark.parametrize(
    ("kind", "code"), [("validationException", 400), ("throttlingException", 429), ("modelStreamErrorException", 502)]
)
def test_an_exception_in_the_stream_says_whose_fault_it_is(kind, code):
    reader = FORMATS["bedrock"].native_reader(WorkRequest("chat", "m", {}, b"{}", stream=True))
    reader.feed(write_frame({":message-type": "exception", ":exception-type": kind}, b'{"message":"no"}'))
    assert reader.error.code == code
