"""What requests for a model usually use, for those that were refused and of which that is not known."""

from collections.abc import Callable
from operator import add

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
        mean = _each(total, NO_TOKENS, lambda tokens, _: tokens // max(number, 1))
        return traffic._replace(usage=mean, longest_input=mean.all_input)


def _plus(one: Usage, other: Usage) -> Usage:
    return _each(one, other, add)


def _each(one: Usage, other: Usage, do: Callable[[int, int], int]) -> Usage:
    """What a function makes of each bucket of both."""
    return Usage(
        do(one.input or 0, other.input or 0),
        do(one.cache_read or 0, other.cache_read or 0),
        do(one.cache_write or 0, other.cache_write or 0),
        do(one.output or 0, other.output or 0),
        do(one.reasoning or 0, other.reasoning or 0),
    )
