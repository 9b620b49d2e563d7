"""Drafts that change which of several possible targets is asked first, and what that costs."""

from decimal import Decimal

import pytest

from licensing.services import set_limit
from providers.services import create_provider, set_price, update_provider
from rules.aliases.drafts import TargetDraft
from rules.aliases.services import create_alias
from rules.services import create_rule, update_rule
from tests.gateway_project.work.what_if.test_viewsets import bob, result_of, served

pytestmark = pytest.mark.either_store
__all__ = ["bob", "served"]

NAMED = (
    "The log does not keep which provider a request named (X-Svc-Provider). Requests are judged as if they named none."
)
DRAWN = "The target that other weights or another strategy would have chosen in a tier is unknown."


def priced(name, price, **values):
    """A provider of m1 at so much a million tokens."""
    provider = create_provider(name=name, url=f"https://{name}.example.org/v1", format_name="openai", models=["m1"])
    for attribute, value in values.items():
        setattr(provider, attribute, value)
    provider.save()
    set_price(provider=provider, model="m1", currency="USD", input=Decimal(price), output=Decimal(price))
    return provider


@pytest.fixture
def provider(db):
    """The one that has served."""
    return priced("dear", 100_000, priority=10)


@pytest.fixture
def cheap(db):
    return priced("cheap", 10_000, priority=0)


@pytest.fixture
def allowed(bob):
    return create_rule(name="all", user_id=bob.pk)


@pytest.fixture
def bound(allowed, provider):
    """The rule, for one provider alone."""
    update_rule(allowed, provider_id=provider.pk)
    return allowed


def alias_of(*targets, **values):
    """The attributes of an alias m1, with targets in JSON."""
    rows = [
        {"provider": provider.pk, "model": "m1", "tier": tier, "weight": weight} for provider, tier, weight in targets
    ]
    return {"name": "m1", "targets": rows, **values}


@pytest.fixture
def alias(provider, cheap, allowed):
    targets = [TargetDraft(one.pk, "m1", tier=tier) for tier, one in enumerate((provider, cheap))]
    return create_alias(name="m1", targets=targets)


def test_a_provider_of_a_better_priority_that_the_draft_allows_is_asked_first(admin, served, bob, bound, cheap):
    served(3)
    result = result_of(admin, rules=[{"id": bound.pk, "name": "all", "userId": bob.pk}])
    assert (result["rerouted"], result["newlyAllowed"], result["newlyDenied"]) == (3, 0, 0)
    assert (result["costBefore"], result["costAfter"]) == ({"USD": "1.5"}, {"USD": "0.45"})


def test_one_of_a_worse_priority_changes_nothing(admin, served, bob, bound, provider):
    priced("last", 1, priority=20)
    served(3)
    result = result_of(admin, rules=[{"id": bound.pk, "name": "all", "userId": bob.pk}])
    assert (result["rerouted"], result["costAfter"]) == (0, {"USD": "1.5"})


def test_swapped_tiers_of_an_alias(admin, served, alias, provider, cheap):
    served(3)
    draft = alias_of((provider, 1, 1), (cheap, 0, 1), id=alias.pk)
    result = result_of(admin, aliases=[draft])
    assert (result["rerouted"], result["costAfter"]) == (3, {"USD": "0.45"})
    assert DRAWN not in result["unknown"]
    assert NAMED in result["unknown"]  # one that named its provider would have stayed there


def test_what_a_fallback_has_served_stays_while_it_is_possible(admin, served, alias, provider, cheap):
    served(2, provider_id=cheap.pk, provider_name="cheap")
    assert result_of(admin, aliases=[alias_of((provider, 0, 1), (cheap, 2, 1), id=alias.pk)])["rerouted"] == 0
    assert result_of(admin, aliases=[alias_of((provider, 0, 1), id=alias.pk)])["rerouted"] == 2


def test_a_drained_target_is_not_asked_first(admin, served, alias, provider, cheap):
    served(2)
    draft = alias_of((provider, 0, 0), (cheap, 0, 1), id=alias.pk)
    assert result_of(admin, aliases=[draft])["rerouted"] == 2


@pytest.mark.parametrize(("weight", "strategy"), [(3, "weighted"), (1, "cheapest")])
def test_of_other_weights_and_of_another_strategy_it_is_said_that_the_draw_is_unknown(
    admin, served, allowed, provider, cheap, weight, strategy
):
    targets = [TargetDraft(one.pk, "m1") for one in (provider, cheap)]
    alias = create_alias(name="m1", targets=targets)
    served(2)
    same = alias_of((provider, 0, 1), (cheap, 0, 1), id=alias.pk)
    assert DRAWN not in result_of(admin, aliases=[same])["unknown"]
    other = alias_of((provider, 0, 1), (cheap, 0, weight), id=alias.pk, strategy=strategy)
    result = result_of(admin, aliases=[other])
    assert (result["rerouted"], DRAWN in result["unknown"]) == (0, True)


def test_limits_of_the_new_first_target_are_counted(admin, served, bob, alias, provider, cheap):
    stored = set_limit(provider=cheap, measure="requests", window="day", amount=Decimal(100))
    served(5)
    swapped = alias_of((provider, 1, 1), (cheap, 0, 1), id=alias.pk)
    limit = {"id": stored.pk, "providerId": cheap.pk, "measure": "requests", "window": "day", "amount": 2}
    result = result_of(admin, aliases=[swapped], limits=[limit])
    assert (result["rerouted"], result["newlyDenied"]) == (2, 0)
    assert result["costAfter"] == {"USD": "1.8"}  # two at the new one, three where they were


def test_it_is_said_that_named_providers_are_unknown_where_that_matters(admin, served, bob, allowed, provider, cheap):
    served(2)
    denial = {"name": "no", "effect": "deny", "userId": bob.pk, "providerId": provider.pk}
    assert NAMED in result_of(admin, rules=[denial])["unknown"]
    assert NAMED not in result_of(admin, rules=[{**denial, "regex": "m2"}])["unknown"]
    update_provider(cheap, enabled=False)
    assert NAMED not in result_of(admin, rules=[denial])["unknown"]
