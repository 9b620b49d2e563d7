"""Which target of an alias would serve now, and why."""

from types import SimpleNamespace

import pytest

from gateway_project.work.routing.alias_preview import preview_alias
from gateway_project.work.routing.full_providers import FullProviders
from gateway_project.work.routing.signals import Signals
from gateway_project.work.snapshot.records import Snapshot
from providers.health.breakers import Breakers
from providers.health.rests import Rests
from tests.gateway_project.work.routing.test_aliases import Condition, provider, row, to

pytestmark = pytest.mark.embedded


@pytest.fixture
def gateway():
    snapshot = Snapshot()
    snapshot.put_providers([provider(number, "a") for number in (1, 2, 3)])
    breakers = Breakers(failures=1, cooldown=60)
    parts = {"breakers": breakers, "rests": Rests(), "full_providers": FullProviders(), "signals": Signals()}
    return SimpleNamespace(snapshot=snapshot, **parts)


def shown(gateway, *targets, **options):
    gateway.snapshot.put_aliases([row(5, "x", *targets, **options)])
    return [(one.provider, one.serves, one.reason) for one in preview_alias(gateway, 5)]


def test_the_first_tier_serves_and_the_others_wait(gateway):
    rows = shown(gateway, to(1, "a", 3), to(2, "a", 1), to(3, "a", tier=1))
    share = "serves its share of the requests"
    assert rows == [("p1", True, share), ("p2", True, share), ("p3", False, "waits for the tiers before it to fail")]
    assert [one.share for one in preview_alias(gateway, 5)] == [75, 25, 100]


def test_what_rests_or_fails_or_is_full_does_not_serve(gateway):
    one, two = (gateway.snapshot.providers[number] for number in (1, 2))
    gateway.rests.begin(one, 429, 30)
    gateway.breakers.failed(two)
    gateway.full_providers.is_full = lambda account: account.id == 3
    rows = shown(gateway, to(1, "a"), to(2, "a"), to(3, "a", tier=1))
    assert [serves for _, serves, _ in rows] == [False, False, False]
    assert "Retry-After" in rows[0][2]
    assert "circuit is open" in rows[1][2]
    assert "used up" in rows[2][2]


def test_conditions_are_named_and_a_tier_of_conditions_serves_nobody_else(gateway):
    beta = Condition((("stage", "beta"),), 7)
    rows = shown(gateway, to(1, "a", condition=beta), to(2, "a", tier=1))
    assert rows[0][:2] == ("p1", False)
    assert rows[0][2] == "serves the requests that meet its conditions"
    assert rows[1][1] is True
    assert preview_alias(gateway, 5)[0].conditions == "tag stage=beta, group=7"


@pytest.mark.parametrize("strategy", ["fastest", "cheapest", "least-busy"])
def test_a_strategy_that_measures_prefers_one(gateway, strategy):
    rows = shown(gateway, to(1, "a"), to(2, "a"), strategy=strategy)
    assert sorted(serves for _, serves, _ in rows) == [False, True]
    assert "the strategy prefers another target" in [reason for *_, reason in rows]


def test_an_alias_that_is_not_in_memory_has_no_preview(gateway):
    assert preview_alias(gateway, 6) is None
