"""A cached answer comes back as it was stored, and whatever else lies in the cache is a miss."""

import pickle
from dataclasses import replace

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway_project.work.cache.packing import CachedAnswer, pack_answer, unpack_answer
from providers.formats.usage import MOST_TOKENS
from tests.support.promises import promise
from tests.support.thoroughness import number_of

pytestmark = pytest.mark.embedded

BODY = b'{"a": "\xc3\xa4\\n"}\n'
WHOLE = CachedAnswer(
    BODY, "application/json", None, 7, "Küche 1", [1, None, 2, 3, None, 2], True, "stop", "eos", "store, user"
)
STREAM = CachedAnswer(
    b"data: a\n\ndata: b\n\n", "text/event-stream; charset=utf-8", [9, 9], 7, "p", None, False, "", ""
)
BOUNDED = replace(WHOLE, added="max_tokens=8192")
COUNTS = st.none() | st.integers(0, MOST_TOKENS - 1)
NAMES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60)


def about(**changes):
    """The packed stream with some of its first line changed."""
    fields = ["version", "content_type", "chunks", "provider_id", "provider", "usage", "estimated"]
    fields += ["finish", "provider_finish", "dropped"]
    line, _, body = pack_answer(STREAM).partition(b"\n")
    values = dict(zip(fields, orjson.loads(line), strict=True)) | changes
    return orjson.dumps(list(values.values())) + b"\n" + body


@pytest.mark.parametrize("stored", [WHOLE, STREAM, BOUNDED])
def test_an_answer_comes_back_as_it_was(stored):
    assert unpack_answer(pack_answer(stored)) == stored


@given(st.lists(st.binary(max_size=50), max_size=5), NAMES, st.none() | st.lists(COUNTS, min_size=5, max_size=5))
@settings(max_examples=number_of(100), deadline=None)
def test_every_answer_comes_back_as_it_was(chunks, name, usage):
    for sizes in (None, [len(chunk) for chunk in chunks]):
        stored = CachedAnswer(b"".join(chunks), "application/json", sizes, 1, name, usage, False, "stop", name)
        assert unpack_answer(pack_answer(stored)) == stored


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 1},
        {"dropped": None},
        {"dropped": "a\r\nb"},
        {"dropped": "ü"},
        {"dropped": "x" * 2001},
        {"version": "1"},
        {"content_type": None},
        {"content_type": "text/html\r\nSet-Cookie: a=b"},
        {"content_type": "text/ünicode"},
        {"content_type": "x" * 300},
        {"chunks": [9, 8]},
        {"chunks": [9, 9, 9]},
        {"chunks": [19, -1]},
        {"chunks": [9, None, 9]},
        {"chunks": [9.0, 9.0]},
        {"chunks": "99"},
        {"chunks": {"9": 9}},
        {"chunks": 18},
        {"provider_id": "7"},
        {"provider_id": True},
        {"provider_id": None},
        {"provider_id": 2**63},
        {"provider": None},
        {"provider": "a\nb"},
        {"usage": [1, 2, 3]},
        {"usage": [1, 2, 3, 4, "5"]},
        {"usage": [1, 2, 3, 4, -5]},
        {"usage": [1, 2, 3, 4, True]},
        {"usage": [1, 2, 3, 4, 2**63]},
        {"usage": [1, 2, 3, 4, MOST_TOKENS]},  # of so many a month's sum would be none that a column holds
        {"usage": {}},
        {"estimated": 1},
        {"estimated": None},
        {"finish": None},
        {"finish": 3},
        {"finish": "x" * 65},
        {"provider_finish": []},
        {"added": 1},
        {"added": "a\r\nb"},
        {"added": "a=1", "more": ""},
    ],
)
def test_a_field_of_a_wrong_kind_is_a_miss(changes):
    assert unpack_answer(about()) == STREAM
    assert unpack_answer(about(**changes)) is None


def test_answers_that_were_stored_with_a_count_less_are_read():
    assert unpack_answer(about(usage=[1, None, 2, 3, None])).usage == [1, None, 2, 3, None]
    assert unpack_answer(about(usage=[1, None, 2, 3, None, 2, 7])) is None


def test_what_is_cut_off_is_a_miss_at_every_byte():
    packed = pack_answer(STREAM)
    assert [size for size in range(len(packed)) if unpack_answer(packed[:size]) is not None] == []


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\n",
        b"null\n",
        b"{}\n",
        b"[]\n",
        b'"12345678"\nabc',
        b'{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8}\n',
        b"[" * 100_000,
        pickle.dumps(WHOLE),
        pickle.dumps([1, "application/json", None, 1, "p", None, "", ""], protocol=0),
        pack_answer(STREAM).partition(b"\n")[0],
    ],
)
def test_what_was_not_packed_is_a_miss(value):
    assert unpack_answer(value) is None


@given(st.binary(max_size=300))
@settings(max_examples=number_of(200), deadline=None)
@promise("S1: nonsense in Redis is a miss", target="no code, no error", suite="attack")
def test_arbitrary_bytes_are_a_miss(value):
    assert unpack_answer(value) is None


@given(st.integers(0, len(pack_answer(STREAM)) - 1), st.integers(0, 255))
@settings(max_examples=number_of(300), deadline=None)
@promise("S1: nonsense in Redis is a miss", target="no code, no error", suite="attack")
def test_a_flipped_byte_never_raises(place, byte):
    value = bytearray(pack_answer(STREAM))
    value[place] = byte
    result = unpack_answer(bytes(value))
    assert result is None or (
        result.content_type.isascii() and sum(result.chunk_sizes or [len(result.body)]) == len(result.body)
    )
