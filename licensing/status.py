"""The present status of limits."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from django.conf import settings
from django.utils.module_loading import import_string

from licensing.models import Limit


class LimitStatus(NamedTuple):
    """The amount used, reservations included, and when its window ends; None where unknown."""

    used: Decimal | None
    resets_at: datetime | None


def limit_statuses(limits: Sequence[Limit]) -> list[LimitStatus]:
    """The status of each limit, from the callable that GATEWAY_LIMIT_STANDING names."""
    return import_string(settings.GATEWAY_LIMIT_STANDING)(limits) if limits else []
