"""`make test` tries a part, in turns; what tries more behind `make test-slow` is known by what it calls."""

from collections import defaultdict
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.hostile import WRONG, try_wrong
from tests.support.order import TESTS
from tests.support.thoroughness import (
    MANY,
    PART,
    QUICK_CASES,
    THOROUGH,
    few_cases,
    first_of,
    leave_most_cases,
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
    assert [number_of(thorough) for thorough in (1, 8, 100)] == [1, 5, 25]


def test_daily_work_has_a_few_cases_of_each_test():
    items = [SimpleNamespace(nodeid=f"test_a.py::{name}") for name in ("one", *(f"many[{case}]" for case in range(20)))]
    names = [item.nodeid.partition("::")[2] for item in few_cases(items)]
    assert names == ["one", *(f"many[{case}]" for case in range(0, 20, 5))]
    assert len(names) - 1 <= QUICK_CASES


def test_each_case_of_a_matrix_meets_a_third_of_the_tests_and_small_tests_stay_as_they_are():
    left = defaultdict(list)

    def case(file, test, number):
        return SimpleNamespace(
            path=TESTS / file,
            nodeid=f"{file}::{test}[{number}]",
            add_marker=lambda mark: left[test].append((number, mark.name)),
        )

    numbers = {"first": 7, "second": 7, "small": MANY - 1}
    items = [case("clients/test_a.py", test, number) for test, count in numbers.items() for number in range(count)]
    items += [case("keys/test_a.py", "other", number) for number in range(7)]
    leave_most_cases(items, TESTS)
    assert left == {
        "first": [(number, "slow") for number in (1, 2, 4, 5)],
        "second": [(number, "slow") for number in (0, 1, 3, 4, 6)],
    }


def test_the_first_cases_of_a_test_are_tried_and_the_others_are_slow():
    cases = first_of("one", ("two", 2), "three", values=2)
    assert [case.values for case in cases] == [("one",), ("two", 2), ("three",)]
    assert [[mark.name for mark in case.marks] for case in cases] == [[], [], ["slow"]]


def test_a_quarter_of_all_cases_is_tried_and_no_case_is_lost():
    cases = quarter_of(*range(10))
    assert [case.values[0] for case in cases if not case.marks] == [0, 4, 8]
    assert sorted(case.values[0] for case in cases) == [*range(10)]
