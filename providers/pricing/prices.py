"""What models cost, and what a request cost: exact calculations with Decimal, no I/O.

Prices are for a million tokens of a bucket. Buckets are disjoint, but for reasoning, which is part of the output, and
for what is kept in a cache for an hour, which is part of what is written into it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from math import inf
from typing import NamedTuple

from providers.formats.usage import MONEY_DECIMALS, MOST_MONEY, Usage

KNOWN, ESTIMATED, UNKNOWN = "known", "estimated", "unknown"
NOTHING = Decimal(0)
# One token at a price with six decimals for a million: the cost has twelve decimals, and none is rounded.
PRICE_DECIMALS = 6
# The currency of a cost that a provider reports (OpenRouter's credits are US dollars).
REPORTED_CURRENCY = "USD"
MIXED = "mixed currencies"  # of costs that limits add up, in more than two currencies
REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Price:
    """What one model costs: for a million tokens of each bucket, and for each request, in one currency."""

    currency: str
    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None  # None: as input
    cache_write: Decimal | None = None  # None: as input
    cache_write_hour: Decimal | None = None  # None: as cache_write
    reasoning: Decimal | None = None  # None: as output
    request: Decimal = NOTHING
    above_input_tokens: int = 0  # the price is for requests with more input than this, cached input included
    longer: "Price | None" = None  # for requests with more input than its own bound: that price, for all their tokens

    def for_input(self, tokens: int) -> "Price":
        """The price of a request with so much input."""
        price = self
        while price.longer is not None and tokens > price.longer.above_input_tokens:
            price = price.longer
        return price


class Cost(NamedTuple):
    """What a request cost, and how sure that is; `amount` is None exactly where the status is unknown."""

    amount: Decimal | None
    currency: str
    status: str


NOT_KNOWN = Cost(None, "", UNKNOWN)


def cost_of(usage: Usage, price: Price) -> Decimal:
    """The cost of the tokens in these buckets, exactly, in the price's currency; a bucket not reported is empty."""
    write, output = usage.cache_write or 0, usage.output or 0
    reasoning, hour = min(usage.reasoning or 0, output), min(usage.cache_write_hour or 0, write)
    price = price.for_input(usage.all_input)
    write_price = price.input if price.cache_write is None else price.cache_write
    buckets = (
        (usage.input, price.input),
        (usage.cache_read, price.input if price.cache_read is None else price.cache_read),
        (write - hour, write_price),
        (hour, write_price if price.cache_write_hour is None else price.cache_write_hour),
        (output - reasoning, price.output),
        (reasoning, price.output if price.reasoning is None else price.reasoning),
    )
    millionths = 0
    for tokens, amount in buckets:
        if tokens:
            millionths += tokens * int(amount.scaleb(PRICE_DECIMALS))
    return price.request + Decimal(millionths).scaleb(-MONEY_DECIMALS)


def cost(usage: Usage | None, price: Price | None, *, estimated: bool = False) -> Cost:
    """The provider's own word on the cost where it gave one, else the usage at this price, else unknown.

    `estimated` says that the usage, or a part of it, was not reported but estimated.
    """
    if usage is not None and usage.cost is not None:
        return _plausible_cost(usage.cost, REPORTED_CURRENCY, KNOWN)
    if usage is None or price is None:
        return NOT_KNOWN
    return _plausible_cost(cost_of(usage, price), price.currency, ESTIMATED if estimated else KNOWN)


def _plausible_cost(amount: Decimal, currency: str, status: str) -> Cost:
    return Cost(amount, currency, status) if amount < MOST_MONEY else NOT_KNOWN


@dataclass(frozen=True, slots=True)
class Offer:
    """A price as the table has it: for whom, for which models, and from when until when (seconds since 1970)."""

    price: Price
    model: str  # in lower case; * stands for any characters
    provider_id: int | None = None
    host: str = ""  # of the provider's URL, in lower case; * stands for any characters, nothing for any host
    valid_from: float = 0.0
    valid_until: float = inf
    is_public: bool = False  # whether it is of the public table, which knows the provider's own names alone

    def holds(self, at: float) -> bool:
        return self.valid_from <= at < self.valid_until

    def fits(self, subject: "PricedModel") -> bool:
        if self.provider_id is not None and self.provider_id != subject.provider_id:
            return False
        if self.host and not matches_pattern(self.host, subject.host):
            return False
        return matches_pattern(self.model, subject.upstream) or (
            not self.is_public and matches_pattern(self.model, subject.model)
        )

    def closeness(self, subject: "PricedModel") -> tuple:
        """How closely it says what it is a price of; of two names of one model, ours is the closer one."""
        provider, *host, is_exact, length, pattern = self.subject
        names_ours = not matches_pattern(self.model, subject.upstream)
        return provider, *host, names_ours, is_exact, length, pattern

    @property
    def subject(self) -> tuple:
        """What it is a price of; greater the more closely it says so: a provider, then a host, then a model."""
        return (self.provider_id or 0, *_pattern_closeness(self.host), *_pattern_closeness(self.model))


class PricedModel(NamedTuple):
    """A model at a provider, by our name and by the provider's; names in lower case."""

    provider_id: int
    host: str
    model: str
    upstream: str


class PriceBook:
    """All prices that hold or will hold; asked for one model again and again, it looks only once.

    `currency` is that of all prices, such as EUR, EUR+USD or MIXED; '' without prices.
    """

    def __init__(self, offers: Iterable[Offer] = (), currency: str = "") -> None:
        self._offers, self.currency = list(offers), currency
        self._era = Era(inf, -inf, {})

    @property
    def tiers(self) -> set[int]:
        """The bounds of input above which other prices hold."""
        return {offer.price.above_input_tokens for offer in self._offers} - {0}

    def price(self, provider_id: int, host: str, model: str, at: float, upstream: str = "") -> Price | None:
        """What a model costs at a provider at this moment; None where nobody said.

        `upstream` is the provider's name of the model (default: ours): public prices are looked up by that name.
        """
        since, until, prices = era = self._era
        if not since <= at < until or len(prices) >= REMEMBERED:
            since, until, prices = era = self._era = self._era_around(at)
        key = provider_id, host, model, upstream
        try:
            return prices[key]
        except KeyError:
            subject = PricedModel(provider_id, host, model.lower(), (upstream or model).lower())
            price = prices[key] = self._find(subject, era.since)
            return price

    def _era_around(self, at: float) -> "Era":
        """The time around a moment in which no price begins or ends."""
        turns = [moment for offer in self._offers for moment in (offer.valid_from, offer.valid_until)]
        since = max((moment for moment in turns if moment <= at), default=-inf)
        return Era(since, min((moment for moment in turns if moment > at), default=inf), {})

    def _find(self, subject: PricedModel, at: float) -> Price | None:
        fitting = [offer for offer in self._offers if offer.holds(at) and offer.fits(subject)]
        # A price of longer input goes on from one of the same models; alone it is none.
        first_steps = (offer for offer in fitting if not offer.price.above_input_tokens)
        closest = max(first_steps, key=lambda offer: offer.closeness(subject), default=None)
        if closest is None:
            return None
        steps = {offer.price.above_input_tokens: offer.price for offer in fitting if offer.subject == closest.subject}
        return _chain_prices([steps[above] for above in sorted(steps)])


class Era(NamedTuple):
    """A time in which all prices stay as they are, and the prices that were looked up in it."""

    since: float
    until: float
    prices: dict[tuple[int, str, str, str], Price | None]


def matches_pattern(pattern: str, text: str) -> bool:
    """Whether the whole text fits the pattern, where * stands for any characters; in linear time."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *middle, last = rest
    position, end = len(first), len(text) - len(last)
    if position > end or not text.startswith(first) or not text.endswith(last):
        return False
    for part in middle:
        index = text.find(part, position, end)
        if index < 0:
            return False
        position = index + len(part)
    return True


def _chain_prices(steps: list[Price]) -> Price | None:
    """One price out of those for ever longer input."""
    chain = None
    for step in reversed(steps):
        chain = replace(step, longer=chain)
    return chain


def _pattern_closeness(pattern: str) -> tuple[bool, int, str]:
    return bool(pattern) and "*" not in pattern, len(pattern), pattern
