"""Requests that were refused for other reasons than rules stay refused: drafts of rules do not deny or allow them."""

from datetime import timedelta
from decimal import Decimal

import pytest

from gateway_project import errors
from gateway_project.work.what_if.traffic import JUDGED
from licensing.services import set_limit
from tests.gateway_project.work.what_if.test_viewsets import MOMENT, allowed, bob, provider, result_of, served

pytestmark = pytest.mark.either_store
__all__ = ["allowed", "bob", "provider", "served"]

OTHERS = ["RateLimited", "GuardrailBlocked", "ValidationError", "ActiveUseLimitReached"]
NOBODY = {
    "provider_id": None,
    "served_model": None,
    "cost": None,
    "currency": "",
    "input_tokens": None,
    "output_tokens": None,
}


@pytest.fixture
def refused_entries(served):
    """One entry of each refusal, an hour apart."""
    return [
        served(1, begin=MOMENT + timedelta(hours=number), outcome="denied", exception=exception, **NOBODY)[0]
        for number, exception in enumerate(OTHERS)
    ]


@pytest.fixture
def denial(bob):
    return [{"name": "no", "effect": "deny", "userId": bob.pk}]


@pytest.fixture
def limit(bob):
    """A limit of a draft that refuses nothing here."""
    return {"userId": bob.pk, "measure": "requests", "window": "day", "amount": 100}


def test_a_denying_draft_does_not_deny_them_anew(admin, refused_entries, served, denial):
    (entry,) = served(1)
    result = result_of(admin, rules=denial)
    assert (result["requests"], result["newlyDenied"], result["refusedOtherwise"]) == (5, 1, 4)
    assert result["examples"]["newlyDenied"] == [entry.pk]
    assert result["examples"]["refusedOtherwise"] == [one.pk for one in refused_entries]
    assert "4 requests were refused for other reasons than rules: they stay refused." in result["unknown"]


def test_nor_does_one_with_limits_and_guardrails(admin, refused_entries, served, denial, limit):
    served(1)
    guardrails = [{"name": "g", "type": "words", "parameters": {"words": ["swordfish"]}}]
    result = result_of(admin, rules=denial, limits=[limit], guardrails=guardrails)
    assert (result["newlyDenied"], result["newlyAllowed"]) == (1, 0)


def test_an_allowing_draft_does_not_allow_them(admin, refused_entries, served, allowed):
    allowed.enabled = False
    allowed.save()
    served(1, outcome="denied", exception="RuleDenied", **NOBODY)
    result = result_of(admin, rules=[{"name": "yes", "userId": 0}])
    assert (result["newlyAllowed"], result["refusedOtherwise"]) == (1, 4)


def test_what_the_licence_refused_no_limit_of_a_draft_admits(admin, bob, served):
    limit = set_limit(user=bob, measure="requests", window="day", amount=Decimal(2))
    served(2)
    served(1, begin=MOMENT + timedelta(hours=1), outcome="denied", exception="ActiveUseLimitReached", **NOBODY)
    served(1, begin=MOMENT + timedelta(hours=2), outcome="denied", exception="QuotaExceeded", **NOBODY)
    result = result_of(admin, delete={"limits": [limit.pk]})
    assert (result["newlyAllowed"], result["refusedOtherwise"]) == (1, 1)


@pytest.mark.parametrize("exception", ["", "RuleDenied", "ProviderNotSelected", "ProviderError", "ClientClosed"])
def test_all_others_are_judged(admin, served, denial, exception):
    served(2, exception=exception)
    result = result_of(admin, rules=denial)
    assert (result["newlyDenied"], result["refusedOtherwise"]) == (2, 0)


def test_each_error_of_a_provider_is_one_of_an_admitted_request():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    assert {kind.exception for kind in kinds if issubclass(kind, errors.UpstreamError)} <= JUDGED
    assert not JUDGED & {kind.exception for kind in kinds if issubclass(kind, errors.LimitError)}
