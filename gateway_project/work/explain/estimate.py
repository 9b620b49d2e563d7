"""What a request would use and cost, and whether a stored answer makes that unnecessary."""

from decimal import Decimal
from time import time
from typing import NamedTuple

from django.utils import timezone

from gateway_project.json_types import JsonObject
from gateway_project.work.cache import verdict
from gateway_project.work.cache.scopes import scope_at
from gateway_project.work.cache.verdict import HIT, IN_FLIGHT
from gateway_project.work.explain.candidates import candidates_of
from gateway_project.work.explain.walk import Walk
from gateway_project.work.limits.demand import estimate_demand
from gateway_project.work.token_estimates import input_tokens
from providers.formats import Usage
from providers.pricing.prices import cost_of
from telemetry.models import CacheEntry


class Estimate(NamedTuple):
    """Tokens, and the cost at the first target for the longest answer; None where no price is known."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: Decimal | None = None
    currency: str = ""

    def row(self) -> JsonObject:
        """The estimate as data."""
        return {
            "inputTokens": self.input_tokens,
            "outputTokens": self.output_tokens,
            "cost": None if self.cost is None else f"{self.cost:f}",
            "currency": self.currency,
        }


def estimate_of(walk: Walk) -> Estimate | None:
    """The estimate; None if the request could not be read."""
    request, candidates = walk.exchange.request, candidates_of(walk)
    if request is None:
        return None
    demand, tokens = estimate_demand(request), input_tokens(request)
    if verdict_of(walk) in (HIT, IN_FLIGHT):
        return Estimate(tokens, demand.output, Decimal(0))
    price = walk.gateway.snapshot.price(candidates[0], time()) if candidates else None
    if price is None:
        return Estimate(tokens, demand.output)
    cost = cost_of(Usage(input=demand.input, output=demand.output), price)
    return Estimate(tokens, demand.output, cost.normalize(), price.currency)


def verdict_of(walk: Walk) -> str:
    """What the cache would say; `off` also if the request does not come so far."""
    return IN_FLIGHT if walk.is_waiting else verdict.verdict_of(walk.exchange)


def cache_row(walk: Walk) -> JsonObject:
    """The cache's verdict with the key, who shares it, and how old the stored answer is."""
    verdict, key = verdict_of(walk), walk.exchange.cache.key
    age = _age_seconds(key) if verdict == HIT else None
    return {"verdict": verdict, "key": key or None, "scope": _scope(walk) if key else None, "ageSeconds": age}


def _scope(walk: Walk) -> str:
    request, target = walk.exchange.request, walk.exchange.target or walk.exchange.remaining[0]
    assert request is not None
    return scope_at(request, target.provider)


def _age_seconds(key: str) -> int | None:
    """The age of the newest stored answer; None while the list does not have it yet."""
    at = CacheEntry.objects.filter(request_hash=key).order_by("-created_at").values_list("created_at", flat=True)
    return int((timezone.now() - first).total_seconds()) if (first := at.first()) is not None else None
