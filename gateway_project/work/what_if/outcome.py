"""What a replay counts: in all, by user and by model, with entries behind each number."""

from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum

from gateway_project.json_types import JsonObject
from gateway_project.work.what_if.traffic import Traffic

MAX_EXAMPLES, MAX_ROWS = 20, 1000
DECIMALS = 9  # SQLite adds up money as floating-point numbers


class Change(Enum):
    """What a draft would have changed for a request."""

    NONE = "none"
    ALLOWED = "newlyAllowed"
    DENIED = "newlyDenied"
    REROUTED = "rerouted"


COUNTED = (Change.ALLOWED, Change.DENIED, Change.REROUTED)


@dataclass(slots=True)
class Counts:
    """Requests by what would have changed for them, and their cost by currency."""

    requests: int = 0
    changes: dict[Change, int] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))
    before: dict[str, Decimal] = field(default_factory=dict)
    after: dict[str, Decimal] = field(default_factory=dict)

    def add(self, traffic: Traffic, change: Change, cost: Decimal | None) -> None:
        self.requests += traffic.requests
        if change in self.changes:
            self.changes[change] += traffic.requests
        if traffic.cost:
            self.before[traffic.currency] = self.before.get(traffic.currency, Decimal(0)) + traffic.cost
        if cost:
            self.after[traffic.currency] = self.after.get(traffic.currency, Decimal(0)) + cost

    def document(self) -> JsonObject:
        return {
            "requests": self.requests,
            **{change.value: number for change, number in self.changes.items()},
            "costBefore": _amounts(self.before),
            "costAfter": _amounts(self.after),
        }


@dataclass(slots=True)
class Outcome:
    """The result of a replay."""

    total: Counts = field(default_factory=Counts)
    skipped: int = 0  # requests of nobody that is active now
    unknown_costs: int = 0
    users: dict[int, tuple[str, Counts]] = field(default_factory=dict)
    models: dict[str, Counts] = field(default_factory=dict)
    examples: dict[Change, list[int]] = field(default_factory=lambda: {change: [] for change in COUNTED})

    def skip(self, traffic: Traffic) -> None:
        """Requests that cannot be judged."""
        self.skipped += traffic.requests

    def count(self, traffic: Traffic, user_name: str, change: Change, cost: Decimal | None) -> None:
        """Add requests that are alike; None is a cost that cannot be known."""
        assert traffic.user_id is not None
        self.total.add(traffic, change, cost)
        if change is Change.NONE:
            return
        self.unknown_costs += traffic.requests if cost is None else 0
        if len(self.examples[change]) < MAX_EXAMPLES:
            self.examples[change].append(traffic.example)
        if traffic.user_id in self.users or len(self.users) < MAX_ROWS:
            self.users.setdefault(traffic.user_id, (user_name, Counts()))[1].add(traffic, change, cost)
        if traffic.model in self.models or len(self.models) < MAX_ROWS:
            self.models.setdefault(traffic.model, Counts()).add(traffic, change, cost)

    def document(self) -> JsonObject:
        """The result as data; users and models for whom something would have changed."""
        return {
            **self.total.document(),
            "skipped": self.skipped,
            "unknownCosts": self.unknown_costs,
            "byUser": [
                {"userId": user_id, "userName": name, **counts.document()}
                for user_id, (name, counts) in sorted(self.users.items())
            ],
            "byModel": [{"model": model, **counts.document()} for model, counts in sorted(self.models.items())],
            "examples": {change.value: ids for change, ids in self.examples.items()},
            "unknown": list(self.unknown()),
        }

    def unknown(self) -> list[str]:
        """What the replay cannot know, in sentences."""
        sentences = ["Limits, licence, cache and failures of providers are taken as they were."]
        if self.skipped:
            sentences.append(f"{self.skipped:,} requests of users who are not active now were not judged.")
        if self.unknown_costs:
            sentences.append(f"The cost of {self.unknown_costs:,} requests under the draft is unknown.")
        return sentences


def _amounts(costs: dict[str, Decimal]) -> dict[str, str]:
    return {currency: f"{round(cost, DECIMALS).normalize():f}" for currency, cost in sorted(costs.items())}
