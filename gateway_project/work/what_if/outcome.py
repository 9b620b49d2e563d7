"""What a replay counts: in all, by user, group and model, with entries behind each number."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import NamedTuple

from gateway_project.json_types import JsonObject
from gateway_project.work.snapshot.records import Caller
from gateway_project.work.what_if.guardrail_counts import GuardrailCounts
from gateway_project.work.what_if.traffic import Traffic

MAX_EXAMPLES, MAX_ROW_EXAMPLES, MAX_ROWS = 20, 5, 1000
DECIMALS = 9  # SQLite adds up money as floating-point numbers


class Change(Enum):
    """What a draft would have changed for a request."""

    NONE = "none"
    ALLOWED = "newlyAllowed"
    DENIED = "newlyDenied"
    REROUTED = "rerouted"
    REPRICED = "repriced"  # nothing but its cost


COUNTED = (Change.ALLOWED, Change.DENIED, Change.REROUTED, Change.REPRICED)


class Cause(Enum):
    """What refuses a request that is newly denied, other than a rule."""

    LIMIT = "refusedByLimits"
    GUARDRAIL = "blockedByGuardrails"


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
    hits_before: int = 0
    hits_after: int = 0
    before: dict[str, Decimal] = field(default_factory=dict)
    after: dict[str, Decimal] = field(default_factory=dict)
    examples: dict[Change, list[int]] = field(default_factory=lambda: {change: [] for change in COUNTED})

    def add(self, traffic: Traffic, judgement: Judgement) -> None:
        change, cost, cause = judgement
        self.requests += traffic.requests
        if traffic.is_from_cache:
            self.hits_before += traffic.requests
            self.hits_after += traffic.requests if judgement.keeps_cache else 0
        if change is not Change.NONE:
            self.changes[change] += traffic.requests
            if len(self.examples[change]) < self.max_examples:
                self.examples[change].append(traffic.example)
        if cause is not None:
            self.causes[cause] += traffic.requests
        if traffic.cost:
            self.before[traffic.currency] = self.before.get(traffic.currency, Decimal(0)) + traffic.cost
        if cost is not None and cost.amount:
            self.after[cost.currency] = self.after.get(cost.currency, Decimal(0)) + cost.amount

    def document(self) -> JsonObject:
        return {
            "requests": self.requests,
            **{change.value: number for change, number in self.changes.items()},
            **{cause.value: number for cause, number in self.causes.items()},
            "costBefore": _amounts(self.before),
            "costAfter": _amounts(self.after),
            "cacheShareBefore": _share(self.hits_before, self.requests),
            "cacheShareAfter": _share(self.hits_after, self.requests),
            "examples": {change.value: ids for change, ids in self.examples.items()},
        }


@dataclass(slots=True)
class Outcome:
    """The result of a replay."""

    total: Counts = field(default_factory=lambda: Counts(MAX_EXAMPLES))
    skipped: int = 0  # requests of nobody that is active now
    unknown_costs: int = 0
    unknown_usage: int = 0  # newly allowed requests that limits counted with the usual use of their model
    unknown_texts: int = 0  # requests of which nobody knows whether guardrails would block them
    has_limits: bool = False
    users: dict[int, tuple[str, Counts]] = field(default_factory=dict)
    groups: dict[int, Counts] = field(default_factory=dict)
    models: dict[str, Counts] = field(default_factory=dict)
    guardrails: Mapping[int, GuardrailCounts] = field(default_factory=dict)  # those that the draft touches

    def skip(self, traffic: Traffic) -> None:
        """Requests that cannot be judged."""
        self.skipped += traffic.requests

    def count(self, traffic: Traffic, caller: Caller, judgement: Judgement) -> None:
        """Add requests of a caller that are alike."""
        self.total.add(traffic, judgement)
        if judgement.change is Change.NONE:
            return
        self.unknown_costs += traffic.requests if judgement.cost is None else 0
        if caller.id in self.users or len(self.users) < MAX_ROWS:
            self.users.setdefault(caller.id, (caller.name, Counts()))[1].add(traffic, judgement)
        for group_id in caller.group_ids:
            if group_id in self.groups or len(self.groups) < MAX_ROWS:
                self.groups.setdefault(group_id, Counts()).add(traffic, judgement)
        if traffic.model in self.models or len(self.models) < MAX_ROWS:
            self.models.setdefault(traffic.model, Counts()).add(traffic, judgement)

    def document(self, group_names: dict[int, str] | None = None) -> JsonObject:
        """The result as data; users, groups and models for which something would have changed."""
        names = group_names or {}
        return {
            **self.total.document(),
            "skipped": self.skipped,
            "unknownCosts": self.unknown_costs,
            "unknownTexts": self.unknown_texts,
            "byUser": [
                {"userId": user_id, "userName": name, **counts.document()}
                for user_id, (name, counts) in sorted(self.users.items())
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
        yield "How long another model's answers would have been is unknown: its cost is that of the same tokens."
        if self.skipped:
            yield f"{self.skipped:,} requests of users who are not active now were not judged."
        if self.unknown_costs:
            yield f"The cost of {self.unknown_costs:,} requests under the draft is unknown."
        if self.has_limits:
            yield "What requests reserve while they are in flight is not recorded: limits count what they then used."
        if self.unknown_usage:
            yield (
                f"{self.unknown_usage:,} requests that were refused then have no usage: limits count the average of "
                "their model for them."
            )
        for counts in self.guardrails.values():
            yield from counts.unknown()
        if self.guardrails:
            yield "Guardrails that the draft does not have are taken as they were; requests that they blocked stay so."
            yield "What was blocked has no answer: guardrails of the draft could not search one."
        if max(len(self.users), len(self.groups), len(self.models)) >= MAX_ROWS:
            yield f"At most {MAX_ROWS:,} users, groups and models are listed."


def _amounts(costs: dict[str, Decimal]) -> dict[str, str]:
    return {currency: f"{round(cost, DECIMALS).normalize():f}" for currency, cost in sorted(costs.items())}


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
