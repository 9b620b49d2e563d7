"""`make test` tries a part, in turns; what tries more behind `make test-slow` is known by what it calls."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.hostile import WRONG, try_wrong
from tests.support.thoroughness import PART, THOROUGH, number_of, some, tries_more


@given(st.none())
def by_hypothesis(value):
    pass


def by_wrong_values():
    try_wrong(lambda **sent: None, [], dict)


def once():
    pass


@pytest.mark.parametrize(("test", "expected"), [(by_hypothesis, True), (by_wrong_values, True), (once, False)])
def test_a_test_that_tries_more_is_known(test, expected):
    assert tries_more(test) is expected


@pytest.mark.skipif(THOROUGH, reason="all are tried")
def test_turns_try_everything_between_them():
    parts = [some(WRONG, turn) for turn in range(PART)]
    assert sorted(map(repr, WRONG)) == sorted(repr(value) for part in parts for value in part)
    assert max(map(len, parts)) <= len(WRONG) // PART + 1
    assert [number_of(thorough) for thorough in (1, 8, 100)] == [1, 5, 25]
