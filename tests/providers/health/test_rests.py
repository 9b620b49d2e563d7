"""Rests that providers ask for, and pauses of those that limit us, by a clock that stands still."""

from types import SimpleNamespace

import pytest

from providers.health.rests import Rests

pytestmark = pytest.mark.either_store


def target(number, model="a", **changes):
    values = {"account": (number, 0), "url": "https://here", "credential": "sk", "models": {"a", "b"}}
    return SimpleNamespace(provider=SimpleNamespace(**values | changes), model=model)


ONE, TWO = target(1), target(2)


@pytest.fixture
def clock():
    return SimpleNamespace(now=100.0)


@pytest.fixture
def rests(clock):
    return Rests(lambda: clock.now)


def test_it_rests_until_then_and_no_longer(rests, clock):
    rests.begin(ONE, 429, 30)
    assert rests.without_resting([ONE, TWO]) == [TWO]
    assert (rests.seconds_left(ONE), rests.seconds_left(TWO)) == (30, 0)
    clock.now += 30
    assert rests.current(ONE) is None
    assert rests.without_resting([ONE, TWO]) == [ONE, TWO]


def test_when_all_rest_all_are_candidates(rests):
    rests.begin(ONE, 429, 30)
    assert rests.without_resting([ONE]) == [ONE]


@pytest.mark.parametrize(("seconds", "left"), [(10, 30), (50, 50)])
def test_the_longer_rest_holds(rests, seconds, left):
    """Answers to requests that were sent together arrive in any order."""
    rests.begin(ONE, 429, 30)
    rests.begin(ONE, 503, seconds)
    assert rests.seconds_left(ONE) == left


@pytest.mark.parametrize("change", [{"url": "https://there"}, {"credential": "sk-2"}])
def test_another_account_does_not_rest(rests, change):
    rests.begin(ONE, 429, 30)
    rests.pause(ONE)
    other = target(1, **change)
    assert rests.current(other) is rests.pause_of(other) is None
    rests.begin(other, 429, 5)
    assert rests.seconds_left(other) == 5
    rests.pause(other)
    assert rests.pause_of(other).seconds == 1


def test_models_that_the_provider_does_not_list_let_no_others_rest(rests):
    """Clients with linked keys may invent any number of them."""
    rests.begin(target(1, "invented"), 503, 3600)
    assert (rests.seconds_left(ONE), rests.seconds_left(target(1, "b"))) == (0, 0)
    assert rests.seconds_left(target(1, "another one")) == 3600


def test_a_limit_is_about_one_model_and_an_overload_about_all(rests):
    rests.begin(ONE, 429, 30)
    assert (rests.seconds_left(ONE), rests.seconds_left(target(1, "b"))) == (30, 0)
    assert rests.account_seconds_left(ONE.provider) == 0
    rests.begin(target(1, "b"), 429, 20)
    assert rests.account_seconds_left(ONE.provider) == 20
    rests.begin(ONE, 503, 40)
    assert rests.seconds_left(target(1, "b")) == rests.account_seconds_left(ONE.provider) == 40


def test_names_that_the_provider_does_not_have_share_one_rest(rests):
    for number in range(100):
        rests.begin(target(1, f"made up {number}"), 429, 30 + number)
        rests.pause(target(1, f"made up {number}"))
    assert rests.current(target(1, "another")) is not None
    assert rests.current(ONE) is None
    assert (len(rests._rests), len(rests._pauses)) == (1, 1)


def test_a_pause_doubles_as_long_as_it_is_in_vain(rests, clock):
    lengths = []
    for _ in range(8):
        rests.pause(ONE)
        rests.pause(ONE)  # that of a request that was sent together with the first
        lengths.append(rests.pause_of(ONE).seconds)
        clock.now += lengths[-1]
        assert rests.pause_of(ONE) is None
    assert lengths == [1, 2, 4, 8, 16, 32, 32, 32]
    rests.record_success(ONE)
    rests.pause(ONE)
    assert rests.pause_of(ONE).seconds == 1


def test_an_answer_to_an_earlier_request_ends_no_pause(rests):
    rests.pause(ONE)
    rests.record_success(ONE)
    assert rests.pause_of(ONE) is not None


def test_one_that_pauses_comes_last(rests):
    rests.pause(ONE)
    assert rests.with_pausing_last([ONE, TWO]) == [TWO, ONE]
    assert rests.without_resting([ONE]) == [ONE]
    assert rests.current(ONE) is None


def test_credentials_of_a_provider_stay_side_by_side(rests):
    first, second = target(1, account=(1, 1)), target(1, account=(1, 2))
    rests.pause(first)
    assert rests.with_pausing_last([first, second, TWO]) == [second, first, TWO]
    rests.pause(second)
    assert rests.with_pausing_last([first, second, TWO]) == [TWO, first, second]
