"""The present status of limits."""

from collections.abc import Sequence

from gateway_project.hooks import Hook
from licensing.models import Limit, LimitStatus

# The status of each limit, over all processes.
read_limit_statuses: Hook[[Sequence[Limit]], list[LimitStatus]] = Hook("read_limit_statuses")

# How many requests a cost limit does not count in its present window, because their model has no price.
count_unpriced: Hook[[Limit], int] = Hook("count_unpriced")


def limit_statuses(limits: Sequence[Limit]) -> list[LimitStatus]:
    """The status of each limit."""
    return read_limit_statuses(limits) if limits else []
