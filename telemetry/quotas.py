"""What was used of quotas, as the log tells it: for counts that were lost.

Hours in which every request has ended are read from usage (rollups.py), the last ones from the entries themselves: a
month of ten million of them is told as fast as one of a thousand, and as exactly.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Max

from providers.formats.usage import MONEY_DECIMALS
from providers.models import Provider
from telemetry import rollups
from telemetry.rollups import TOKENS

# No request lasts longer than its time-out and this: what it waits for before that, and its last words.
LEAST_SPAN = timedelta(minutes=10)
_REQUESTS = 'coalesce(sum("requests"), 0) - coalesce(sum("limited"), 0)'
_ASKED = 'coalesce(sum("asked"), 0)'
_ALL_TOKENS = " + ".join(f'coalesce(sum("{name}"), 0)' for name in TOKENS)
_COST = 'coalesce(sum("cost"), 0) + coalesce(sum("estimated_cost"), 0)'


@dataclass(frozen=True)
class Used:
    """Requests, tokens and money."""

    requests: int
    tokens: int
    cost: Decimal


def used(subject: str, subject_id: int, *, begin: float, until: float) -> Used:
    """What a key, user, group or provider used by requests that began at `begin` or later and ended before `until`.

    Moments are seconds since 1970, and `begin` that of a full hour. A stored answer is a request of its caller and
    costs nothing; a provider's are the requests that it was asked. One that a limit refused has used nothing.
    """
    dialect = _DIALECTS[connection.vendor]
    whose = dialect["group"] if subject == "group" else f'"{subject}_id" = %s'
    start, end = datetime.fromtimestamp(begin, UTC), datetime.fromtimestamp(until, UTC)
    recent = max(start, rollups.full_hour(end - _longest_span()))
    hours, parameters = rollups.used(start, recent)
    entries = rollups.of_log(f'{whose} AND "timestamp" >= %s AND "timestamp" <= %s AND {dialect["ended"]} <= %s')
    parts = f"SELECT * FROM {hours} WHERE {whose} UNION ALL {rollups.added_up(entries)}"
    counted = _ASKED if subject == "provider" else _REQUESTS
    with connection.cursor() as cursor:
        # One statement, and so one moment: no entry moves from one part to the other.
        cursor.execute(
            f"SELECT {counted}, {_ALL_TOKENS}, {_COST} FROM ({parts}) AS used",
            [*parameters, subject_id, subject_id, rollups.moment(recent), rollups.moment(end), until],
        )
        return _used(*cursor.fetchone())


def _used(requests: Any, tokens: Any, cost: Any) -> Used:
    return Used(int(requests), int(tokens), round(Decimal(str(cost)), MONEY_DECIMALS))


def _longest_span() -> timedelta:
    """How long ago a request can have begun that has not ended."""
    own = Provider.objects.aggregate(most=Max("total_timeout_seconds"))["most"] or 0
    return timedelta(seconds=max(own, settings.GATEWAY_TOTAL_TIMEOUT)) + LEAST_SPAN


_DIALECTS = {
    "postgresql": {
        "group": '"group_ids" @> to_jsonb(%s::bigint)',
        "ended": 'extract(epoch FROM "timestamp")::float8 + coalesce(duration_ms, 0) / 1000.0',
    },
    "sqlite": {
        "group": 'EXISTS (SELECT 1 FROM json_each("group_ids") WHERE value = %s)',
        # The fraction is the text behind the seconds: julianday() knows no microseconds.
        "ended": (
            "CAST(strftime('%%s', \"timestamp\") AS REAL) + CAST('0' || substr(\"timestamp\", 20) AS REAL)"
            " + coalesce(duration_ms, 0) / 1000.0"
        ),
    },
}
