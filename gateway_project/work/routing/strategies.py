"""In which order the targets of a tier are asked. Pure."""

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from enum import StrEnum
from hashlib import blake2b
from typing import Generic, NamedTuple, Protocol, TypeVar

from gateway_project.work.routing.signals import Key, Signals

# Targets that are slower than the fastest by less than this share the requests.
EQUAL_SPEED = 1.2
LEAST_WEIGHT = 1e-9  # in the place of 0
DRAWABLE = 1e-6  # targets with less weight are drained, perhaps within an alias in an alias


class Strategy(StrEnum):
    """How the first of several targets is chosen; the others follow as they would be chosen without it."""

    WEIGHTED = "weighted"  # at random by weight
    FASTEST = "fastest"  # the least time to the first token
    CHEAPEST = "cheapest"  # the least estimated cost
    LEAST_BUSY = "least-busy"  # the fewest requests in flight, for its weight
    STICKY = "sticky"  # the same for all requests of a session


# The strategies that need measurements.
MEASURED = frozenset((Strategy.FASTEST, Strategy.LEAST_BUSY))
# Those whose first target is chosen by weight alone.
BY_WEIGHT = frozenset((Strategy.WEIGHTED, Strategy.STICKY))


class Provider(Protocol):
    """A provider as the strategies need it."""

    @property
    def id(self) -> int: ...


class Choice(Protocol):
    """A target: a model of a provider."""

    @property
    def provider(self) -> Provider: ...

    @property
    def model(self) -> str: ...


T = TypeVar("T", bound=Choice)


class Weighted(NamedTuple, Generic[T]):
    """A target with its weight; one of weight 0 serves only if no other does."""

    target: T
    weight: float


Cost = Callable[[T], Decimal | None]  # what a request would cost at a target; None if no price is known


def order_targets(
    strategy: Strategy,
    targets: Sequence[Weighted[T]],
    seed: bytes,
    signals: Signals,
    *,
    cost: Cost[T],
    is_streamed: bool = False,
) -> list[T]:
    """The targets, the first choice first. Where nothing else decides, the seed and the weights do.

    The seed is a digest of the request, or of its session for `sticky`: the same seed gives the same order.
    """
    drawn = sorted(targets, key=lambda one: _draw(one, seed)) if len(targets) > 1 else targets
    return rank_targets(strategy, drawn, signals, cost=cost, is_streamed=is_streamed)


def rank_targets(
    strategy: Strategy, drawn: Sequence[Weighted[T]], signals: Signals, *, cost: Cost[T], is_streamed: bool = False
) -> list[T]:
    """The targets in the order of the strategy; those that it takes for equal stay as they were drawn."""
    if len(drawn) < 2 or strategy in BY_WEIGHT:
        return [one.target for one in drawn]
    if strategy is Strategy.CHEAPEST:
        return sorted((one.target for one in drawn), key=lambda target: _cost_rank(cost(target)))
    if strategy is Strategy.LEAST_BUSY:
        return [one.target for one in sorted(drawn, key=lambda one: _load(one, signals))]
    return _by_speed([one.target for one in drawn], signals, is_streamed=is_streamed)


def first_choices(strategy: Strategy, targets: Sequence[Weighted[T]]) -> list[T]:
    """The targets of a tier that may be asked first: one without weight is not drawn while another has some."""
    drawn = [one.target for one in targets if one.weight >= DRAWABLE] if strategy in BY_WEIGHT else []
    return drawn or [one.target for one in targets]


def signal_key(target: Choice, *, is_streamed: bool) -> Key:
    """Under which the target is measured."""
    return target.provider.id, target.model, is_streamed


def _draw(choice: Weighted[T], seed: bytes) -> float:
    provider, model = choice.target.provider, choice.target.model
    return rendezvous_hash(provider.id.to_bytes(8, "big"), seed + model.encode(), choice.weight or LEAST_WEIGHT)


def rendezvous_hash(name: bytes, seed: bytes, weight: float) -> float:
    """Weighted rendezvous hashing: of several names each has the smallest value with a probability by its weight.

    Without one of them the others keep their order, so that only its own requests move, and move back.
    """
    digest = blake2b(seed, digest_size=8, key=name).digest()
    return -math.log((int.from_bytes(digest, "big") + 1) / 2**64) / weight


def _cost_rank(cost: Decimal | None) -> tuple[bool, Decimal]:
    """By cost; those without a known price last, as they may be the dearest."""
    return cost is None, cost or Decimal(0)


def _load(choice: Weighted[T], signals: Signals) -> float:
    return signals.in_flight(choice.target.provider.id, choice.target.model) / (choice.weight or LEAST_WEIGHT)


def _by_speed(targets: list[T], signals: Signals, *, is_streamed: bool) -> list[T]:
    """The fastest first; one that was not measured for a while now and then; those never measured as the fastest."""
    keys = [signal_key(target, is_streamed=is_streamed) for target in targets]
    views = [signals.view(key) for key in keys]
    seconds = [view.expected_seconds for view in views]
    fastest = min((one for one in seconds if one is not None), default=None)
    if fastest is None:
        return targets
    explored = signals.to_explore(keys, views)
    ranks = [_rank(key == explored, one, fastest) for key, one in zip(keys, seconds, strict=True)]
    return [targets[place] for place in sorted(range(len(targets)), key=ranks.__getitem__)]


def _rank(is_explored: bool, seconds: float | None, fastest: float) -> float:
    """A target's place: -1 to measure it, 0 beside the fastest, else by its time."""
    if is_explored:
        return -1.0
    return 0.0 if seconds is None or seconds <= fastest * EQUAL_SPEED else seconds
