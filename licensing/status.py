"""The present status of limits."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from gateway_project.hooks import Hook
from licensing.models import Limit


class LimitStatus(NamedTuple):
    """The amount used, reservations included, and when its window ends; None where unknown."""

    used: Decimal | None
    resets_at: datetime | None


# The status of each limit, over all processes.
read_limit_statuses: Hook[[Sequence[Limit]], list[LimitStatus]] = Hook("read_limit_statuses")


def limit_statuses(limits: Sequence[Limit]) -> list[LimitStatus]:
    """The status of each limit."""
    return read_limit_statuses(limits) if limits else []
