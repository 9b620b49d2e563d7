"""Stage 4: which of the allowed providers, best first?"""

import math
import os
from hashlib import blake2b
from itertools import groupby

from gateway_project.errors import ProviderNotSelected, ValidationError
from gateway_project.work.cache_key import digest
from gateway_project.work.candidate_outcomes import note_outcome
from gateway_project.work.exchange import Exchange
from gateway_project.work.gateway import Gateway
from gateway_project.work.snapshot import Target
from telemetry.models import Candidate


def select_provider(exchange: Exchange, gateway: Gateway) -> None:
    """Set the candidates in the order in which they are tried. Raises ProviderNotSelected."""
    usable = [target for target in exchange.offered if target.provider.format is not None]
    if not usable:
        raise ProviderNotSelected(_why_none(exchange))
    if len(usable) > 1 and (name := exchange.request.stateful_parameter):
        raise ValidationError(
            f"{name} refers to what one provider keeps, and several offer this model: name it, as in "
            f"{usable[0].provider.name}/{usable[0].model}.",
            field=name,
            reason=exchange.request.dialect.stateful_unsupported_code,
        )
    if exchange.cache_control != "bypass":
        exchange.content = digest(exchange.request.body)
    if len(usable) > 1:
        ordered = _in_order(usable, exchange.content or os.urandom(16))
        usable = _ready(ordered, exchange, gateway)
    exchange.candidates = tuple(usable)


def _in_order(targets: list[Target], seed: bytes) -> list[Target]:
    """Lowest priority first; within one, shares by weight.

    The share is drawn from the request itself: identical requests go to one provider, where its cached
    answer and its flight are.
    """
    by_priority = sorted(targets, key=lambda target: target.provider.priority)
    ordered: list[Target] = []
    for _, group in groupby(by_priority, key=lambda target: target.provider.priority):
        ordered += sorted(group, key=lambda target: _draw(target, seed))
    return ordered


def _ready(ordered: list[Target], exchange: Exchange, gateway: Gateway) -> list[Target]:
    """Without those that rest after failures, and those that are known to have no room."""
    awake = gateway.breakers.rested(ordered)
    free = gateway.full_providers.without_full(awake)
    if len(free) < len(ordered):
        for target in ordered:
            if target not in free:
                note_outcome(exchange, target, Candidate.FULL if target in awake else Candidate.RESTING)
    return free


def _draw(target: Target, seed: bytes) -> float:
    """Weighted rendezvous hashing: the smallest of these is the first with the probability of its weight."""
    digest = blake2b(seed, digest_size=8, key=target.provider.id.to_bytes(8, "big")).digest()
    uniform = (int.from_bytes(digest, "big") + 1) / 2**64
    return -math.log(uniform) / target.provider.weight


def _why_none(exchange: Exchange) -> str:
    if exchange.offered:
        formats = ", ".join(sorted({target.provider.format_name for target in exchange.offered}))
        return f"The providers of this model speak a format that this version does not: {formats}."
    if exchange.key is not None and exchange.key.provider_id is not None:
        return "The provider that this key is linked to is not enabled, or is not the one asked for."
    if exchange.wanted_provider:
        return f"No enabled provider named {exchange.wanted_provider} offers the model {exchange.model}."
    return f"No enabled provider offers the model {exchange.model}."
