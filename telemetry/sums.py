"""Numbers by labels that only grow: counters and histograms, to be added up over threads, processes and time."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

# Upper bounds of a histogram's buckets, in seconds.
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
# Of one metric. Labels come from the configuration, which may change a thousand times in the life of a process.
MOST_SERIES = 1000
OTHER = "other"

Labels = tuple[str, ...]


class Sums:
    """Metrics by name: each is a mapping of label values to numbers. Not for several threads at once.

    A counter is one number. A histogram is the count in each bucket, the one beyond all bounds last, and then the
    sum of all that was observed.
    """

    def __init__(self) -> None:
        self.metrics: dict[str, dict[Labels, list[float]]] = {}

    def count(self, name: str, labels: Labels, amount: float = 1) -> None:
        """Add to a counter."""
        self._numbers(name, labels, 1)[0] += amount

    def observe(self, name: str, labels: Labels, seconds: float) -> None:
        """Add one observation to a histogram."""
        numbers = self._numbers(name, labels, len(BOUNDS) + 2)
        numbers[bisect_left(BOUNDS, seconds)] += 1
        numbers[-1] += seconds

    def add(self, other: "Sums") -> None:
        """Add everything that the other one holds."""
        for name, series in other.metrics.items():
            for labels, more in series.items():
                numbers = self._numbers(name, labels, len(more))
                for place, number in enumerate(more):
                    numbers[place] += number

    def to_json(self) -> dict[str, list]:
        """The same as plain lists."""
        return {name: [list(pair) for pair in series.items()] for name, series in self.metrics.items()}

    @classmethod
    def from_json(cls, told: dict[str, list[tuple[Sequence[str], list[Any]]]]) -> "Sums":
        """What to_json() told."""
        made = cls()
        made.metrics = {name: {tuple(labels): numbers for labels, numbers in series} for name, series in told.items()}
        return made

    def _numbers(self, name: str, labels: Labels, length: int) -> list[float]:
        try:
            return self.metrics[name][labels]
        except KeyError:
            series = self.metrics.setdefault(name, {})
            if len(series) >= MOST_SERIES:
                labels = (OTHER,) * len(labels)
            return series.setdefault(labels, [0] * length)
