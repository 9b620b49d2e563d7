"""The present status of limits."""

from collections.abc import Sequence

from gateway_project.hooks import Hook
from licensing.models import Limit, LimitStatus, UnpricedWork

# The status of each limit, over all processes.
read_limit_statuses: Hook[[Sequence[Limit]], list[LimitStatus]] = Hook("read_limit_statuses")

# What each limit does not count because its cost is unknown; nothing for limits of other measures. None: not known in
# time.
read_unpriced: Hook[[Sequence[Limit]], list[UnpricedWork | None]] = Hook("read_unpriced")


def limit_statuses(limits: Sequence[Limit]) -> list[LimitStatus]:
    """The status of each limit."""
    return read_limit_statuses(limits) if limits else []
