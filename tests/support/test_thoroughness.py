"""`make test` tries a part, in turns; what tries more behind `make test-slow` is known by what it calls."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.hostile import WRONG, try_wrong
from tests.support.thoroughness import (
    PART,
    QUICK_CASES,
    THOROUGH,
    few_cases,
    first_of,
    number_of,
    quarter_of,
    some,
    tries_more,
)


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
    assert [number_of(thorough) for thorough in (1, 8, 100)] == [1, 5, 12]


def test_daily_work_has_a_few_cases_of_each_test():
    items = [SimpleNamespace(nodeid=f"test_a.py::{name}") for name in ("one", *(f"many[{case}]" for case in range(20)))]
    names = [item.nodeid.partition("::")[2] for item in few_cases(items)]
    assert names == ["one", *(f"many[{case}]" for case in range(0, 20, 5))]
    assert len(names) - 1 <= QUICK_CASES


def test_the_first_cases_of_a_test_are_tried_and_the_others_are_slow():
    cases = first_of("one", ("two", 2), "three", values=2)
    assert [case.values for case in cases] == [("one",), ("two", 2), ("three",)]
    assert [[mark.name for mark in case.marks] for case in cases] == [[], [], ["slow"]]


def test_a_quarter_of_all_cases_is_tried_and_no_case_is_lost():
    cases = quarter_of(*range(10))
    assert [case.values[0] for case in cases if not case.marks] == [0, 4, 8]
    assert sorted(case.values[0] for case in cases) == [*range(10)]
