"""Moving averages: older measurements weigh less. Averages of several processes can be added."""

from typing import NamedTuple

HALF_LIFE_SECONDS = 5.0  # after which a measurement weighs half
MAX_WEIGHT = 40.0  # more measurements than these weigh no more: after a pause a few new ones are enough
MIN_WEIGHT = 1e-3  # of measurements that are long over: what was slow is not forgotten


class Average(NamedTuple):
    """The sum of the measurements and of their weights, both at one time."""

    total: float = 0.0
    weight: float = 0.0
    at: float = 0.0

    def aged_to(self, now: float) -> "Average":
        """The same average with the weights of a later time."""
        if not self.weight or now <= self.at:
            return self
        factor = max(0.5 ** ((now - self.at) / HALF_LIFE_SECONDS), min(MIN_WEIGHT / self.weight, 1.0))
        return Average(self.total * factor, self.weight * factor, now)

    def with_measurement(self, value: float, now: float) -> "Average":
        """The average with one more measurement."""
        total, weight, at = self.aged_to(now)
        if weight > MAX_WEIGHT - 1:
            total, weight = total * (MAX_WEIGHT - 1) / weight, MAX_WEIGHT - 1
        return Average(total + value, weight + 1, max(at, now))

    def merged_with(self, other: "Average", now: float) -> "Average":
        """The average over both."""
        mine, others = self.aged_to(now), other.aged_to(now)
        return Average(mine.total + others.total, mine.weight + others.weight, now)

    @property
    def mean(self) -> float | None:
        """The average; None without measurements."""
        return self.total / self.weight if self.weight else None
