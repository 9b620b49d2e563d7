"""Counters and histograms by label values, which can be summed over threads, processes and time."""

from bisect import bisect_left
from collections.abc import Sequence

# Upper bounds of histogram buckets, in seconds.
BUCKET_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
# Per metric. Labels come from the configuration, which may change a thousand times in the life of a process.
MAX_SERIES = 1000
OTHER = "other"

Labels = tuple[str, ...]
SumsAsJson = dict[str, list[tuple[Sequence[str], list[float]]]]


class Sums:
    """Metrics by name, each a mapping of label values to numbers. Not thread-safe.

    A counter is one number. A histogram is the count of each bucket, the last one without a bound, and then the sum
    of all observations.
    """

    def __init__(self) -> None:
        self.metrics: dict[str, dict[Labels, list[float]]] = {}

    def count(self, name: str, labels: Labels, amount: float = 1) -> None:
        """Add to a counter."""
        self._numbers(name, labels, 1)[0] += amount

    def observe(self, name: str, labels: Labels, seconds: float) -> None:
        """Add one observation to a histogram."""
        numbers = self._numbers(name, labels, len(BUCKET_BOUNDS) + 2)
        numbers[bisect_left(BUCKET_BOUNDS, seconds)] += 1
        numbers[-1] += seconds

    def add(self, other: "Sums") -> None:
        """Add all metrics of the other one.

        All its series: which of them counted as OTHER would depend on the order, and so on the process that is scraped.
        """
        for name, added in other.metrics.items():
            series = self.metrics.setdefault(name, {})
            for labels, more in added.items():
                numbers = series.setdefault(labels, [0] * len(more))
                for place, number in enumerate(more):
                    numbers[place] += number

    def to_json(self) -> SumsAsJson:
        """The metrics as plain lists."""
        return {name: list(series.items()) for name, series in self.metrics.items()}

    @classmethod
    def from_json(cls, data: SumsAsJson) -> "Sums":
        """The inverse of to_json()."""
        sums = cls()
        sums.metrics = {name: {tuple(labels): numbers for labels, numbers in series} for name, series in data.items()}
        return sums

    def _numbers(self, name: str, labels: Labels, length: int) -> list[float]:
        try:
            return self.metrics[name][labels]
        except KeyError:
            series = self.metrics.setdefault(name, {})
            if len(series) >= MAX_SERIES:
                labels = (OTHER,) * len(labels)
            return series.setdefault(labels, [0] * length)
