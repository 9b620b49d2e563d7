"""Rests that providers ask for, by a clock that stands still."""

from types import SimpleNamespace

import pytest

from providers.health.rests import Rests

ONE, TWO = (
    SimpleNamespace(provider=SimpleNamespace(account=(number, 0), url="https://here", credential="sk"))
    for number in (1, 2)
)


@pytest.fixture
def clock():
    return SimpleNamespace(now=100.0)


@pytest.fixture
def rests(clock):
    return Rests(lambda: clock.now)


def test_it_rests_until_then_and_no_longer(rests, clock):
    rests.begin(ONE.provider, 429, 30)
    assert rests.without_resting([ONE, TWO]) == [TWO]
    assert (rests.seconds_left(ONE.provider), rests.seconds_left(TWO.provider)) == (30, 0)
    clock.now += 30
    assert rests.current(ONE.provider) is None
    assert rests.without_resting([ONE, TWO]) == [ONE, TWO]


def test_when_all_rest_all_are_candidates(rests):
    rests.begin(ONE.provider, 429, 30)
    assert rests.without_resting([ONE]) == [ONE]


@pytest.mark.parametrize(("seconds", "left"), [(10, 30), (50, 50)])
def test_the_longer_rest_holds(rests, seconds, left):
    """Answers to requests that were sent together arrive in any order."""
    rests.begin(ONE.provider, 429, 30)
    rests.begin(ONE.provider, 503, seconds)
    assert rests.seconds_left(ONE.provider) == left


@pytest.mark.parametrize("change", [{"url": "https://there"}, {"credential": "sk-2"}])
def test_another_account_does_not_rest(rests, change):
    rests.begin(ONE.provider, 429, 30)
    other = SimpleNamespace(**(vars(ONE.provider) | change))
    assert rests.current(other) is None
    rests.begin(other, 429, 5)
    assert rests.seconds_left(other) == 5
