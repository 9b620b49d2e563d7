"""A provider that had no room is passed over for a while, as long as another can serve."""

from types import SimpleNamespace

import pytest

from gateway_project.work.limits.checks import CheckStatus, LimitCheck
from gateway_project.work.limits.kinds import Subject
from gateway_project.work.routing.full_providers import MAX_SECONDS, FullProviders


def target(number):
    return SimpleNamespace(provider=SimpleNamespace(account=(number, 0)))


ONE, TWO, THREE = map(target, (1, 2, 3))


def note(fullness, number, seconds, kind="provider"):
    check = LimitCheck("few", 1, limit=SimpleNamespace(subject=Subject(kind, number)))
    fullness.note(CheckStatus(check, 0, seconds))


def test_who_is_full_is_passed_over_while_another_can_serve():
    fullness = FullProviders()
    assert fullness.without_full((TWO, ONE)) == [TWO, ONE]
    note(fullness, 1, 60)
    assert fullness.without_full((ONE, TWO, THREE)) == [TWO, THREE]
    assert fullness.without_full((ONE,)) == [ONE]
    note(fullness, 2, 0)
    assert fullness.without_full((ONE, TWO)) == [TWO], "it is whole again"


@pytest.mark.parametrize(("resets", "seconds"), [(60, MAX_SECONDS), (2, 2)])
def test_that_is_until_it_is_whole_again_and_a_few_seconds_at_most(resets, seconds):
    moments = iter((100, 100 + seconds - 0.01, 100 + seconds + 0.01))
    fullness = FullProviders(clock=lambda: next(moments))
    note(fullness, 1, resets)
    assert fullness.without_full((ONE, TWO)) == [TWO]
    assert fullness.without_full((ONE, TWO)) == [ONE, TWO]


def test_a_full_credential_is_passed_over_and_its_provider_is_not():
    fullness = FullProviders()
    first, second = (SimpleNamespace(provider=SimpleNamespace(account=(1, number))) for number in (1, 2))
    note(fullness, 1, 60, "credential")
    assert fullness.without_full((first, second)) == [second]
    assert fullness.without_full((ONE, TWO)) == [ONE, TWO]
