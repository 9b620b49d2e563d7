"""What cost limits do not count: requests of their present window whose model has no price."""

from django.utils import timezone

from licensing.models import Limit, Window
from telemetry import services
from telemetry.usage.statistics import UsageQuery

MAX_DAYS = 32


def unpriced_requests(limit: Limit) -> int:
    """Their number, in full hours; of a window of a minute, those of the present hour."""
    now = timezone.now()
    start = now if limit.window == Window.MINUTE else now.replace(hour=0)
    start = start.replace(day=1) if limit.window == Window.MONTH else start
    kind = limit.subject_kind
    filters = {"group" if kind == "group" else f"{kind}_id": limit.subject.pk}
    rows = services.usage(UsageQuery(*services.period(start, now), ("day",), filters), 0, MAX_DAYS).rows
    return sum(row["unknown_cost_requests"] for row in rows)
