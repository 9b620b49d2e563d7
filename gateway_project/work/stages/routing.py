"""Stage 4: which of the allowed providers, best first?"""

import math
import os
from hashlib import blake2b
from itertools import groupby

from gateway_project.errors import ProviderNotSelected, ValidationError
from gateway_project.work.cache.key import digest
from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.routing.outcomes import note_outcome
from gateway_project.work.snapshot.records import Target
from providers.catalogue import servable
from telemetry.models import Candidate


def select_provider(exchange: Exchange, gateway: Gateway) -> None:
    """Set the candidates in the order in which they are tried. Raises ProviderNotSelected."""
    request, usable = exchange.request, list(servable(exchange.allowed))
    assert request is not None
    if not usable:
        raise ProviderNotSelected(_why_none(exchange))
    if len(usable) > 1 and (name := request.stateful_parameter):
        raise ValidationError(
            f"{name} refers to what one provider keeps, and several offer this model: name it, as in "
            f"{usable[0].provider.name}/{usable[0].model}.",
            field=name,
            reason=request.dialect.stateful_unsupported_code,
        )
    if exchange.cache_control != "bypass":
        exchange.request_digest = digest(request.body)
    if len(usable) > 1:
        ordered = _in_order(usable, exchange.request_digest or os.urandom(16))
        usable = _ready(ordered, exchange, gateway)
    exchange.candidates = tuple(usable)


def _in_order(targets: list[Target], seed: bytes) -> list[Target]:
    """Lowest priority number first; among equals a random order by weight.

    The random value is a hash of the request: identical requests go to the same provider, whose cached answer and
    flight they share.
    """
    by_priority = sorted(targets, key=lambda target: target.provider.priority)
    ordered: list[Target] = []
    for _, group in groupby(by_priority, key=lambda target: target.provider.priority):
        ordered += sorted(group, key=lambda target: _draw(target, seed))
    return ordered


def _ready(ordered: list[Target], exchange: Exchange, gateway: Gateway) -> list[Target]:
    """Those that do not rest and whose limits are not known to be full; all of them if each is."""
    awake = gateway.breakers.with_closed_breakers(gateway.rests.without_resting(ordered))
    free = gateway.full_providers.without_full(awake)
    if len(free) < len(ordered):
        for target in ordered:
            if target not in free:
                note_outcome(exchange, target, Candidate.FULL if target in awake else Candidate.RESTING)
    return free


def _draw(target: Target, seed: bytes) -> float:
    """Weighted rendezvous hashing: each target's value is the smallest with a probability by its weight."""
    digest = blake2b(seed, digest_size=8, key=target.provider.id.to_bytes(8, "big")).digest()
    uniform = (int.from_bytes(digest, "big") + 1) / 2**64
    return -math.log(uniform) / target.provider.weight


def _why_none(exchange: Exchange) -> str:
    if exchange.allowed:
        formats = ", ".join(sorted({target.provider.format_name for target in exchange.allowed}))
        return f"The providers of this model speak a format that this version does not: {formats}."
    if exchange.key is not None and exchange.key.provider_id is not None:
        return "The provider that this key is linked to is disabled, or is not the one requested."
    if exchange.requested_provider:
        return f"No enabled provider named {exchange.requested_provider} offers the model {exchange.model}."
    return f"No enabled provider offers the model {exchange.model}."
