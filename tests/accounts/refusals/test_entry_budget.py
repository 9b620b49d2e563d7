"""Which refusals have an entry of their own."""

import pytest

from accounts.refusals.entry_budget import EntryBudget

pytestmark = pytest.mark.either_store


def test_each_name_has_so_many_and_all_together_too():
    budget = EntryBudget(each=2, total=8)
    assert [budget.take("a") for _ in range(3)] == [True, True, False]
    assert [budget.take("b") for _ in range(3)] == [True, True, False]
    assert [budget.take(name) for name in "ccdefgh"] == [True, False, True, True, True, False, False]
    budget.begin()
    assert budget.take("a")


def test_all_names_of_a_refusal_need_room():
    budget = EntryBudget(each=2, total=100)
    assert [budget.take(f"address {number}", "account") for number in range(3)] == [True, True, False]
    assert budget.take("address 0", "another account")


def test_half_is_for_the_first_of_names_that_did_not_exceed_theirs_in_the_minute_before():
    budget = EntryBudget(each=1, total=4)
    for name in "aabbcd":
        budget.take(name)
    budget.begin()
    assert [budget.take(name) for name in "abcdef"] == [True, True, True, True, False, False]
    budget.begin()
    assert [budget.take(name) for name in "xyza"] == [True, True, True, True]


def test_none_at_all():
    assert not EntryBudget(each=0, total=0).take("a")
