"""What requests for a model usually use, for those that were refused and of which that is not known."""

from gateway_project.work.what_if.traffic import Traffic
from providers.formats import Usage
from providers.formats.usage import COUNTS


class Averages:
    """The mean use of the served requests so far, by model."""

    def __init__(self) -> None:
        self._sums: dict[str, list[int]] = {}  # their number, and the sum of each bucket

    def with_usual_use(self, traffic: Traffic) -> Traffic:
        """The request as it was; with the usual use of its model if no provider served it."""
        if traffic.provider_id is not None or traffic.is_from_cache:
            self._add(traffic.model, traffic.usage)
            return traffic
        mean = self._mean(traffic.model)
        return traffic._replace(usage=mean, longest_input=mean.all_input)

    def _add(self, model: str, usage: Usage) -> None:
        sums = self._sums.get(model)
        if sums is None:
            sums = self._sums[model] = [0] * (1 + COUNTS)
        plain, read, write, output, reasoning, hour, _ = usage
        sums[0] += 1
        sums[1] += plain or 0
        sums[4] += output or 0
        if read or write or reasoning:
            sums[2] += read or 0
            sums[3] += write or 0
            sums[5] += reasoning or 0
            sums[6] += hour or 0

    def _mean(self, model: str) -> Usage:
        number, *sums = self._sums.get(model, (1, *[0] * COUNTS))
        return Usage.of_counts(tokens // number for tokens in sums)
