"""What a replay counts: in all, by user, group and model, with entries behind each number."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import NamedTuple, TypeVar

from gateway_project.json_types import JsonObject
from gateway_project.wording import plural
from gateway_project.work.snapshot.records import Caller
from gateway_project.work.what_if.examples import Examples
from gateway_project.work.what_if.guardrails.counts import GuardrailCounts
from gateway_project.work.what_if.traffic import MAX_EXAMPLES, Traffic

MAX_ROW_EXAMPLES, MAX_ROWS = 5, 1000
Key = TypeVar("Key", int, str)  # of a row
DECIMALS = 9  # SQLite adds up money as floating-point numbers


class Change(Enum):
    """What a draft would have changed for a request."""

    NONE = "none"
    ALLOWED = "newlyAllowed"
    DENIED = "newlyDenied"
    REROUTED = "rerouted"
    REPRICED = "repriced"  # nothing but its cost

    __hash__ = object.__hash__  # Enum's own is Python code, and takes longer than the look-up


COUNTED = (Change.ALLOWED, Change.DENIED, Change.REROUTED, Change.REPRICED)


class Cause(Enum):
    """What refuses a request that is newly denied, other than a rule."""

    LIMIT = "refusedByLimits"
    GUARDRAIL = "blockedByGuardrails"

    __hash__ = object.__hash__


class CacheShare(Enum):
    """Requests that were answered from the cache, and those of them that still would have been."""

    BEFORE = "cacheShareBefore"
    AFTER = "cacheShareAfter"

    __hash__ = object.__hash__


CACHE_SHARES = tuple(CacheShare)  # an Enum is slow to iterate over


class Gap(Enum):
    """What cannot be judged, or not wholly."""

    SKIPPED = "skipped"  # requests of nobody that is active now
    COST = "unknownCosts"
    REFUSED = "refusedOtherwise"  # requests that something else than rules refused: they stay refused
    TEXT = "unknownTexts"  # nobody knows whether guardrails would block them

    __hash__ = object.__hash__


NUMBERS = (*COUNTED, *Cause, *CacheShare)  # the entries of which each Counts has


class Money(NamedTuple):
    """An amount in a currency; "" if nothing is known of it."""

    amount: Decimal
    currency: str


class Judgement(NamedTuple):
    """What would have become of requests that are alike; a cost of None cannot be known."""

    change: Change = Change.NONE
    cost: Money | None = None
    cause: Cause | None = None

    @property
    def keeps_cache(self) -> bool:
        """Whether an answer from the cache would have been one."""
        return self.change not in (Change.DENIED, Change.REROUTED)


@dataclass(slots=True)
class Counts:
    """Requests by what would have changed for them, their cost by currency, and entries behind the numbers."""

    max_examples: int = MAX_ROW_EXAMPLES
    requests: int = 0
    changes: dict[Change, int] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))
    causes: dict[Cause, int] = field(default_factory=lambda: dict.fromkeys(Cause, 0))
    hits: dict[CacheShare, int] = field(default_factory=lambda: dict.fromkeys(CacheShare, 0))
    before: dict[str, Decimal] = field(default_factory=dict)
    after: dict[str, Decimal] = field(default_factory=dict)
    examples: Examples[Enum] = field(init=False)

    def __post_init__(self) -> None:
        self.examples = Examples(NUMBERS, self.max_examples)

    def add(self, traffic: Traffic, judgement: Judgement) -> None:
        change, cost, cause = judgement
        number = traffic.requests
        self.requests += number
        if traffic.is_from_cache:
            self._add_hits(traffic, judgement)
        if change is not Change.NONE:
            self.changes[change] += number
            self.examples.add(change, traffic)
        if cause is not None:
            self.causes[cause] += number
            self.examples.add(cause, traffic)
        if traffic.cost:
            _add_money(self.before, traffic.currency, traffic.cost)
        if cost is not None and cost.amount:
            _add_money(self.after, cost.currency, cost.amount)

    def _add_hits(self, traffic: Traffic, judgement: Judgement) -> None:
        for share in CACHE_SHARES if judgement.keeps_cache else CACHE_SHARES[:1]:
            self.hits[share] += traffic.requests
            self.examples.add(share, traffic)

    def document(self) -> JsonObject:
        return {
            "requests": self.requests,
            **{change.value: number for change, number in self.changes.items()},
            **{cause.value: number for cause, number in self.causes.items()},
            "costBefore": _amounts(self.before),
            "costAfter": _amounts(self.after),
            **{share.value: _share(number, self.requests) for share, number in self.hits.items()},
            "examples": {number.value: ids for number, ids in self.examples.sorted_ids().items()},
        }


@dataclass(slots=True)
class Outcome:
    """The result of a replay."""

    total: Counts = field(default_factory=lambda: Counts(MAX_EXAMPLES))
    gaps: dict[Gap, int] = field(default_factory=lambda: dict.fromkeys(Gap, 0))
    gap_examples: Examples[Gap] = field(default_factory=lambda: Examples(Gap, MAX_EXAMPLES))
    unknown_usage: int = 0  # newly allowed requests that limits counted with the usual use of their model
    unknown_before: int = 0  # requests whose cost at the time is unknown
    has_limits: bool = False
    redraws: bool = False  # an alias of the draft chooses otherwise among the targets of a tier
    misses_named_providers: bool = False  # which provider a request named would make a difference
    names: dict[int, str] = field(default_factory=dict)  # of users
    users: dict[int, Counts] = field(default_factory=dict)
    groups: dict[int, Counts] = field(default_factory=dict)
    models: dict[str, Counts] = field(default_factory=dict)
    guardrails: Mapping[int, GuardrailCounts] = field(default_factory=dict)  # those that the draft touches

    def note(self, gap: Gap, traffic: Traffic) -> None:
        """Add requests that cannot be judged, or not wholly."""
        self.gaps[gap] += traffic.requests
        self.gap_examples.add(gap, traffic)

    def count(self, traffic: Traffic, caller: Caller, judgement: Judgement) -> None:
        """Add requests of a caller that are alike."""
        self.total.add(traffic, judgement)
        self.unknown_before += traffic.unknown_costs
        if judgement.change is Change.NONE:
            return
        if judgement.cost is None:
            self.note(Gap.COST, traffic)
        self.names[caller.id] = caller.name
        _add(self.users, caller.id, traffic, judgement)
        for group_id in caller.group_ids:
            _add(self.groups, group_id, traffic, judgement)
        _add(self.models, traffic.model, traffic, judgement)

    def document(self, group_names: dict[int, str] | None = None) -> JsonObject:
        """The result as data; users, groups and models for which something would have changed."""
        names, total = group_names or {}, self.total.document()
        gap_examples = {gap.value: ids for gap, ids in self.gap_examples.sorted_ids().items()}
        return {
            **total,
            "examples": {**total["examples"], **gap_examples},
            **{gap.value: number for gap, number in self.gaps.items()},
            "byUser": [
                {"userId": user_id, "userName": self.names[user_id], **counts.document()}
                for user_id, counts in sorted(self.users.items())
            ],
            "byGroup": [
                {"groupId": group_id, "groupName": names.get(group_id, ""), **counts.document()}
                for group_id, counts in sorted(self.groups.items())
            ],
            "byModel": [{"model": model, **counts.document()} for model, counts in sorted(self.models.items())],
            "byGuardrail": [counts.document() for counts in self.guardrails.values()],
            "unknown": list(self.unknown()),
        }

    def unknown(self) -> Iterable[str]:
        """What the replay cannot know, in sentences."""
        others = "Limits that the draft does not have" if self.has_limits else "Limits"
        yield f"{others}, licence, cache and failures of providers are taken as they were."
        yield "The length of another model's answers is unknown. The cost is that of the same number of tokens."
        yield from self._unknown_targets()
        if skipped := self.gaps[Gap.SKIPPED]:
            yield plural(
                skipped,
                "request of a user who is not active now was left out.",
                "requests of users who are not active now were left out.",
            )
        if refused := self.gaps[Gap.REFUSED]:
            yield plural(
                refused,
                "request was refused for other reasons than rules: it stays refused.",
                "requests were refused for other reasons than rules: they stay refused.",
            )
        yield from self._unknown_costs()
        if self.has_limits:
            yield (
                "The log does not record reservations of requests in flight. Limits count what the requests used in "
                "the end."
            )
        if self.unknown_usage:
            yield plural(
                self.unknown_usage,
                "request that was refused at the time has no usage. Limits count the average of its model.",
                "requests that were refused at the time have no usage. Limits count the averages of their models.",
            )
        for counts in self.guardrails.values():
            yield from counts.unknown()
        if self.guardrails:
            yield (
                "The results of guardrails that are not in the draft are taken as they were. Requests that they "
                "blocked stay blocked."
            )
            yield "Blocked requests have no answer that guardrails of the draft could search."
        if max(len(self.users), len(self.groups), len(self.models)) >= MAX_ROWS:
            yield f"At most {MAX_ROWS:,} users, groups and models are listed."

    def _unknown_costs(self) -> Iterator[str]:
        if self.unknown_before:
            yield f"The cost before does not contain {plural(self.unknown_before, 'request')} of unknown cost."
        if unknown_costs := self.gaps[Gap.COST]:
            yield f"The cost of {plural(unknown_costs, 'request')} under the draft is unknown."

    def _unknown_targets(self) -> Iterable[str]:
        if self.misses_named_providers:
            header = "X-Svc-Provider"
            yield (
                f"The log does not keep which provider a request named ({header}). Requests are judged as if they "
                "named none."
            )
        if self.redraws:
            yield "The target that other weights or another strategy would have chosen in a tier is unknown."


def _add(rows: dict[Key, Counts], key: Key, traffic: Traffic, judgement: Judgement) -> None:
    """Add requests to the row of this key, as long as there are not too many rows."""
    counts = rows.get(key)
    if counts is None and len(rows) < MAX_ROWS:
        counts = rows[key] = Counts()
    if counts is not None:
        counts.add(traffic, judgement)


def _add_money(sums: dict[str, Decimal], currency: str, amount: Decimal) -> None:
    sums[currency] = sums[currency] + amount if currency in sums else amount


def _amounts(costs: dict[str, Decimal]) -> dict[str, str]:
    return {currency: f"{round(cost, DECIMALS).normalize():f}" for currency, cost in sorted(costs.items())}


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
