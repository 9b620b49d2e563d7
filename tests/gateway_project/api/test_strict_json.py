"""JSON that two parsers could read differently never gets past the door."""

import json
import math
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway_project.api.strict_json import EXACT, MAX_DEPTH, parse_object
from gateway_project.errors import ValidationError
from tests.support.promises import promise
from tests.support.thoroughness import number_of

pytestmark = pytest.mark.either_store

TEXT = st.text(st.characters(blacklist_categories=["Cs"]))
NUMBERS = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)
OBJECTS = st.dictionaries(TEXT, VALUES, max_size=5)


def refusal(raw):
    with pytest.raises(ValidationError) as caught:
        parse_object(raw)
    return caught.value.message


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"nonsense", "not JSON"),
        (b"{'a': 1}", "not JSON"),
        (b'{"a": 1,}', "not JSON"),
        (b'{"a": 1} {"b": 2}', "not JSON"),
        (b'{"a": 01}', "not JSON"),
        (b'{"a": "\n"}', "not JSON"),
        (b'\xef\xbb\xbf{"a": 1}', "not JSON: it begins with a byte order mark"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b'{"a": "\xed\xa0\x80"}', "not UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"\\udfff": 1}', "surrogate"),
        (b'{"a": "\\ude00\\ud83d"}', "surrogate"),
        (b'{"a": 1, "a": 1}', "twice"),
        (b'{"a": {"b": 1, "\\u0062": 2}}', "twice"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": [-Infinity]}', "-Infinity"),
        (b'{"a": 1e400}', "too large"),
        (b'{"a": -1e400}', "too large"),
        (b'{"a": ' + b"9" * 5000 + b"}", "too many digits"),
        (b"[]", "must be a JSON object"),
        (b'"text"', "must be a JSON object"),
        (b"null", "must be a JSON object"),
        (b"7", "must be a JSON object"),
    ],
)
@promise("V-E1: two members of one name are refused", target="400", suite="attack")
def test_what_is_wrong_is_said(raw, told):
    assert told in refusal(raw)


def nested(depth):
    return b'{"a":' * (depth - 1) + b"{}" + b"}" * (depth - 1)


@pytest.mark.parametrize("many", [b"{}," * 100_001, b"[]," * 100_001, b"[],{}," * 50_001, b"1," * 2_000_001])
def test_a_body_of_very_many_values_is_refused_before_it_takes_memory(many):
    assert "objects and lists" in refusal(b'{"a":[' + many + b"1]}")


def test_it_may_be_nested_so_deep_and_no_deeper():
    assert parse_object(nested(MAX_DEPTH))
    assert "nested" in refusal(nested(MAX_DEPTH + 1))
    assert "nested" in refusal(b'{"a":' + b"[" * 90_000 + b"]" * 90_000 + b"}")


def test_brackets_inside_a_text_are_no_nesting():
    assert parse_object(json.dumps({"a": "[{" * 500}).encode()) == {"a": "[{" * 500}


def test_many_siblings_are_no_nesting():
    assert len(parse_object(json.dumps({"a": [[]] * 500}).encode())["a"]) == 500


@pytest.mark.parametrize("spelling", ["1", "1.0", "1e0", "10e-1", "0.1e1", "1.000"])
def test_one_number_has_one_reading(spelling):
    value = parse_object(b'{"a": %b}' % spelling.encode())["a"]
    assert (value, type(value)) == (1, int)


def test_zero_has_no_sign_and_a_fraction_stays_one():
    result = parse_object(b'{"a": -0.0, "b": -0, "c": 0.5, "d": 1e300, "e": 1e-400}')
    assert [math.copysign(1, result[name]) for name in "abe"] == [1, 1, 1]
    assert (result["c"], result["d"]) == (0.5, 1e300)


def test_integers_of_any_size_keep_all_their_digits():
    assert parse_object(b'{"a": 123456789012345678901234567890}') == {"a": 123456789012345678901234567890}
    assert type(parse_object(b'{"a": %d.0}' % EXACT)["a"]) is float


def test_a_pair_of_surrogates_is_one_character():
    assert parse_object(b'{"a": "\\ud83d\\ude00"}') == {"a": "😀"}


@pytest.mark.long
@given(OBJECTS)
@settings(max_examples=number_of(100), deadline=None)
def test_every_json_object_comes_back_as_it_was(value):
    assert parse_object(json.dumps(value).encode()) == value
    assert parse_object(json.dumps(value, ensure_ascii=False, indent=1).encode()) == value


@given(st.binary(max_size=200) | TEXT.map(str.encode) | VALUES.map(lambda value: json.dumps(value).encode()))
@settings(max_examples=number_of(200), deadline=None)
@promise("A parser of arbitrary input ends well", target="a value or its own refusal", suite="attack")
def test_whatever_comes_is_an_object_or_refused(raw):
    with suppress(ValidationError):
        assert type(parse_object(raw)) is dict


@given(OBJECTS, st.data())
@settings(max_examples=number_of(100), deadline=None)
@promise("A parser of arbitrary input ends well", target="a value or its own refusal", suite="attack")
def test_a_damaged_object_is_an_object_or_refused(value, data):
    raw = bytearray(json.dumps(value).encode())
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ValidationError):
        assert type(parse_object(bytes(raw))) is dict
