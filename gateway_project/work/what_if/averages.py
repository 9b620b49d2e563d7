"""What requests for a model usually use, for those that were refused and of which that is not known."""

from gateway_project.work.what_if.traffic import Traffic
from providers.formats import Usage

NO_TOKENS = Usage(0, 0, 0, 0, 0)


class Averages:
    """The mean use of the served requests so far, by model."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[int, Usage]] = {}

    def usual(self, traffic: Traffic) -> Traffic:
        """The request as it was; with the usual use of its model if no provider served it."""
        number, total = self._sums.get(traffic.model, (0, NO_TOKENS))
        if traffic.provider_id is not None or traffic.is_from_cache:
            self._sums[traffic.model] = number + 1, _plus(total, traffic.usage)
            return traffic
        mean = Usage(*((tokens or 0) // number for tokens in total[:5])) if number else NO_TOKENS
        return traffic._replace(usage=mean, longest_input=mean.all_input)


def _plus(one: Usage, other: Usage) -> Usage:
    return Usage(*((first or 0) + (second or 0) for first, second in zip(one[:5], other[:5], strict=True)))
