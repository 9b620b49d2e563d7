"""Equal requests share a cache key, and no two others do."""

import json
import unicodedata

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from gateway_project.api.strict_json import parse_object
from gateway_project.work.cache.key import LONGEST_COMPOSED, cache_key, canonical_json, digest
from tests.support.promises import promise
from tests.support.thoroughness import number_of

pytestmark = pytest.mark.embedded

TEXT = st.text(st.characters(blacklist_categories=["Cs"]), max_size=8)
# Letters that have two spellings, and the marks that make them.
ACCENTED = st.text(st.sampled_from('aeno\u0301\u0303\u0308éñöÅ\u212bﬁ\n\\"<=\u0338'), max_size=8)
NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT | ACCENTED,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXT.filter(lambda name: name != "model"), VALUES, max_size=4)
PARTS = st.lists(TEXT | st.integers(0, 2**53), max_size=5)


def read(value):
    return parse_object(json.dumps(value).encode())


def key(value, *parts):
    return cache_key(digest(read(value)), *parts)


def same(one, other):
    """Whether two values are one request: types count, order does not, nor how an accent is spelled."""
    return plain(one) == plain(other)


def plain(value):
    """A value as nested tuples that tell 1 from true."""
    if isinstance(value, dict):
        return ("object", tuple(sorted((unicodedata.normalize("NFC", n), plain(item)) for n, item in value.items())))
    if isinstance(value, list):
        return ("list", tuple(map(plain, value)))
    return (type(value).__name__, unicodedata.normalize("NFC", value) if isinstance(value, str) else repr(value))


@pytest.mark.long
@given(OBJECTS, st.randoms())
@settings(max_examples=number_of(100), deadline=None)
def test_the_order_of_names_does_not_matter(value, random):
    names = list(value)
    random.shuffle(names)
    assert key(value, "m") == key({name: value[name] for name in names}, "m")


@pytest.mark.parametrize("spelling", ["1.0", "1e0", "10E-1", "0.01e2"])
def test_the_spelling_of_a_number_does_not_matter(spelling):
    plain_one = canonical_json(parse_object(b'{"temperature": 1, "deep": [{"n": 1}]}'))
    other = b'{"temperature": %b, "deep": [{"n": %b}]}' % (spelling.encode(), spelling.encode())
    assert canonical_json(parse_object(other)) == plain_one


@pytest.mark.long
@given(st.integers(-(2**53) + 1, 2**53 - 1))
@settings(max_examples=number_of(50), deadline=None)
def test_an_integer_written_as_a_float_is_the_same_number(number):
    assert canonical_json(parse_object(b'{"n": %d}' % number)) == canonical_json(parse_object(b'{"n": %d.0}' % number))


@given(st.lists(ACCENTED | TEXT, max_size=4))
@settings(max_examples=number_of(100), deadline=None)
def test_the_spelling_of_a_letter_does_not_matter(texts):
    composed = [unicodedata.normalize("NFC", text) for text in texts]
    apart = [unicodedata.normalize("NFD", text) for text in composed]
    assert key({"messages": composed}) == key({"messages": apart})


def test_the_model_counts_by_the_name_that_the_provider_is_asked_for():
    assert key({"model": "p/fast", "n": 1}, "fast") == key({"model": "fast", "n": 1}, "fast")
    assert key({"model": "fast"}, "fast") != key({"model": "fast"}, "slow")
    assert key({"a": {"model": "x"}}) != key({"a": {"model": "y"}})


def test_a_number_a_text_and_a_truth_are_three_requests():
    assert len({key({"a": value}) for value in ("1", 1, True, None, [1], {"1": 1}, "true", 1.5, "")}) == 9


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**63) - 1, 10**40])
def test_integers_beyond_64_bits_count_to_the_last_digit(number):
    assert key({"seed": number}) == key({"seed": number})
    assert len({key({"seed": number + step}) for step in (-1, 0, 1)}) == 3
    assert key({"a": "é", "seed": number}) == key({"seed": number, "a": "e\u0301"})


@given(OBJECTS, OBJECTS)
@example({"a": "\n\u0303"}, {"a": "ñ"})
@example({"a": "\\n\u0303"}, {"a": "\n\u0303"})
@example({"a": [1, 2]}, {"a": [[1], 2]})
@example({"a": "b\n"}, {"a": "b"})
@example({"a": {"é": 1, "e\u0301": 2}}, {"a": {"é": 2}})
@settings(max_examples=number_of(200), deadline=None)
@promise("V-L24, V-K1, V-T1, S9: the cache key is injective", target="another content, another key", suite="attack")
def test_another_content_is_another_key(one, other):
    assume(not same(read(one), read(other)))
    assert key(one, "m", 1) != key(other, "m", 1)


@given(PARTS, PARTS)
@example(["a", "b"], ["ab"])
@example(["a", ""], ["", "a"])
@example([1], ["1"])
@example(["a\n{}"], ["a"])
@settings(max_examples=number_of(200), deadline=None)
@promise("V-L24, V-K1, V-T1, S9: the cache key is injective", target="another content, another key", suite="attack")
def test_other_parts_are_another_key(one, other):
    assume(one != other)
    assert cache_key(b"{}", *one) != cache_key(b"{}", *other)


@given(OBJECTS, PARTS)
@settings(max_examples=number_of(50), deadline=None)
def test_a_key_is_64_hexadecimal_digits(value, parts):
    assert set(key(value, *parts)) <= set("0123456789abcdef")
    assert len(key(value, *parts)) == 64


def test_very_long_texts_are_taken_as_they_are():
    """Composing them would keep everybody else waiting."""
    long = "e\u0301" * (LONGEST_COMPOSED // 2)
    assert unicodedata.normalize("NFC", long).encode() not in canonical_json({"text": long})
    assert canonical_json({"text": "e\u0301"}) == canonical_json({"text": "é"})


@pytest.mark.parametrize(("marks", "composed"), [(29, True), (31, False), (32, False)])
def test_runs_of_marks_that_no_language_has_are_taken_as_they_are(marks, composed):
    """To compose them takes quadratic time."""
    text = "e" + "\u0301" * marks
    assert (canonical_json({"text": text}) == canonical_json({"text": unicodedata.normalize("NFC", text)})) == composed
