"""A provider that keeps failing rests, and then has to prove itself with one request."""

from types import SimpleNamespace

import pytest

from providers.health.breakers import Breakers
from tests.support.locking import guarded

pytestmark = pytest.mark.either_store

COOLDOWN = 10


def target(number):
    return SimpleNamespace(provider=SimpleNamespace(account=(number, 0), url="https://here", credential="sk"))


ONE, TWO = target(1), target(2)


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now

    def passes(self, seconds):
        self.now += seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def breakers(clock):
    return Breakers(failures=3, cooldown=COOLDOWN, clock=clock)


def fail(breakers, target, times):
    for _ in range(times):
        breakers.record_failure(target.provider)


def test_who_never_failed_is_tried_in_the_given_order(breakers):
    assert breakers.with_closed_breakers([TWO, ONE]) == [TWO, ONE]


def test_so_many_failures_in_a_row_begin_a_rest(breakers):
    fail(breakers, ONE, 2)
    assert breakers.with_closed_breakers([ONE, TWO]) == [ONE, TWO]
    fail(breakers, ONE, 1)
    assert breakers.with_closed_breakers([ONE, TWO]) == [TWO]


def test_a_success_between_failures_forgets_them(breakers):
    fail(breakers, ONE, 2)
    breakers.record_success(ONE.provider)
    fail(breakers, ONE, 2)
    assert breakers.with_closed_breakers([ONE, TWO]) == [ONE, TWO]


def test_when_all_rest_all_are_tried(breakers):
    fail(breakers, ONE, 3)
    fail(breakers, TWO, 3)
    assert breakers.with_closed_breakers([ONE, TWO]) == [ONE, TWO]
    assert breakers.with_closed_breakers([ONE]) == [ONE]


def test_after_the_rest_one_request_tries_and_the_others_wait(breakers, clock):
    fail(breakers, ONE, 3)
    clock.passes(COOLDOWN - 1)
    assert breakers.with_closed_breakers([ONE, TWO]) == [TWO]
    clock.passes(1)
    assert breakers.with_closed_breakers([ONE, TWO]) == [ONE, TWO]
    assert breakers.admits(ONE.provider)
    assert not breakers.admits(ONE.provider)
    assert breakers.admits(TWO.provider)


def test_to_be_a_candidate_uses_no_probe_up(breakers, clock):
    fail(breakers, ONE, 3)
    clock.passes(COOLDOWN)
    assert [breakers.with_closed_breakers([ONE, TWO]) for _ in range(3)] == [[ONE, TWO]] * 3
    assert breakers.admits(ONE.provider)


def test_a_probe_that_succeeds_ends_the_rest_for_all(breakers, clock):
    fail(breakers, ONE, 3)
    clock.passes(COOLDOWN)
    assert breakers.admits(ONE.provider)
    breakers.record_success(ONE.provider)
    assert [breakers.with_closed_breakers([ONE, TWO]) for _ in range(2)] == [[ONE, TWO]] * 2


def test_a_probe_that_fails_begins_another_rest(breakers, clock):
    fail(breakers, ONE, 3)
    clock.passes(COOLDOWN)
    assert breakers.admits(ONE.provider)
    breakers.record_failure(ONE.provider)
    assert breakers.with_closed_breakers([ONE, TWO]) == [TWO]
    clock.passes(COOLDOWN)
    assert breakers.with_closed_breakers([ONE, TWO]) == [ONE, TWO]
    assert [breakers.admits(ONE.provider) for _ in range(2)] == [True, False]


def test_a_probe_that_never_reports_back_is_followed_by_another(breakers, clock):
    fail(breakers, ONE, 3)
    clock.passes(COOLDOWN)
    assert breakers.admits(ONE.provider)
    clock.passes(COOLDOWN - 1)
    assert not breakers.admits(ONE.provider)
    clock.passes(1)
    assert breakers.admits(ONE.provider)
    assert not breakers.admits(ONE.provider)


def test_one_providers_rest_is_nobody_elses(breakers, clock):
    fail(breakers, ONE, 3)
    fail(breakers, TWO, 2)
    assert breakers.with_closed_breakers([ONE, TWO]) == [TWO]
    assert [breakers.is_resting(target.provider) for target in (ONE, TWO)] == [True, False]
    clock.passes(COOLDOWN)
    assert not breakers.is_resting(ONE.provider)


def test_who_fails_for_good_rests_at_once(breakers, clock):
    breakers.record_failure(ONE.provider, for_good=True)
    assert breakers.with_closed_breakers([ONE, TWO]) == [TWO]
    clock.passes(COOLDOWN)
    assert breakers.admits(ONE.provider)


@pytest.mark.parametrize("change", [{"url": "https://there"}, {"credential": "sk-2"}])
def test_another_account_has_not_failed(breakers, change):
    fail(breakers, ONE, 3)
    other = SimpleNamespace(**(vars(ONE.provider) | change))
    assert not breakers.is_resting(other)
    assert all(breakers.admits(other) for _ in range(3))
    breakers.record_failure(other)
    assert not breakers.is_resting(other)
    fail(breakers, SimpleNamespace(provider=other), 2)
    assert breakers.is_resting(other)


def test_luck_is_noted_under_the_lock():
    clock = Clock()
    breakers = Breakers(failures=1, cooldown=COOLDOWN, clock=clock)
    breakers.record_failure(ONE.provider)
    breaker = guarded(breakers._breakers[1, 0], breakers._lock, "failures", "rests_until", "probing", reads=False)
    breakers.record_failure(ONE.provider)
    clock.passes(COOLDOWN)
    assert breakers.admits(ONE.provider)
    assert breaker.probing
    breakers._breakers = UnderLock(breakers._breakers, breakers._lock)
    breakers.record_success(ONE.provider)
    assert breakers.admits(ONE.provider)


class UnderLock(dict):
    """Lets go of an entry under the lock alone."""

    def __init__(self, entries, lock):
        super().__init__(entries)
        self.lock = lock

    def pop(self, *arguments):
        assert self.lock.locked()
        return super().pop(*arguments)


def test_how_long_it_still_rests(breakers, clock):
    assert breakers.seconds_left(ONE.provider) == 0
    fail(breakers, ONE, 3)
    clock.passes(4)
    assert (breakers.seconds_left(ONE.provider), breakers.seconds_left(TWO.provider)) == (COOLDOWN - 4, 0)
    clock.passes(COOLDOWN)
    assert breakers.seconds_left(ONE.provider) == 0
