"""Quota usage recalculated from the log, for counters that were lost.

Hours in which every request has ended are read from the usage tables (rollups.py), the last hours from log entries. The
result is exact, and the time that it takes does not depend on the number of entries.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Max

from providers.formats.usage import MONEY_DECIMALS
from providers.models import Provider
from telemetry.usage import rollups
from telemetry.usage.rollups import SUM_OF_COSTS, TOKENS

# A request lasts at most its timeout and this margin, which covers the time before and after the call.
SPAN_MARGIN = timedelta(minutes=10)
_REQUESTS = 'coalesce(sum("requests"), 0) - coalesce(sum("limited"), 0)'
_ASKED = 'coalesce(sum("asked"), 0)'
_UNPRICED = 'coalesce(sum("unpriced_tokens"), 0)'
_ALL_TOKENS = " + ".join(f'coalesce(sum("{name}"), 0)' for name in TOKENS)


@dataclass(frozen=True)
class QuotaUsage:
    """Requests, tokens and cost, and the number of tokens without a price."""

    requests: int
    tokens: int
    cost: Decimal
    unpriced_tokens: int = 0


NO_USAGE = QuotaUsage(0, 0, Decimal(0))


def quota_usage(subject: str, ids: Iterable[int], *, begin: float, until: float) -> dict[int, QuotaUsage]:
    """The usage of keys, users, groups or providers by id: requests that began from `begin` on and ended by `until`.

    Times are seconds since 1970. It is fastest if `begin` is a full hour: otherwise the entries up to the next full
    hour are read, as far as they are kept. A cached answer counts as a request of its caller and costs nothing. The
    requests of a provider are those that were sent to it. A request that a limit refused uses nothing.
    """
    ids = [int(number) for number in ids]
    listed = ", ".join(map(str, ids))
    whose, number, each = subject_sql(subject, listed)
    start, end = datetime.fromtimestamp(begin, UTC), datetime.fromtimestamp(until, UTC)
    first = rollups.ceil_hour(start)
    recent = max(first, rollups.floor_hour(end - _max_request_span()))
    hours, parameters = rollups.usage_rows(first, recent)
    times, bounds = '"timestamp" >= %s', [recent]
    if start < first:
        times, bounds = f'({times} OR "timestamp" >= %s AND "timestamp" < %s)', [recent, start, first]
    ended = _DIALECTS[connection.vendor]["ended"]
    maybe = f'({whose} OR "asked_before" IS NOT NULL)' if subject == "provider" else whose
    entries = rollups.log_rows(f'{maybe} AND {times} AND "timestamp" <= %s AND {ended} <= %s')
    parts = f"SELECT * FROM {hours} WHERE {whose} UNION ALL {rollups.aggregation_sql(entries)}"
    count = _ASKED if subject == "provider" else _REQUESTS
    query = (
        f"SELECT {number}, {count}, {_ALL_TOKENS}, {SUM_OF_COSTS}, {_UNPRICED} FROM ({parts}) AS used {each}"
        f" WHERE {number} IN ({listed}) GROUP BY {number}"
    )
    with connection.cursor() as cursor:
        # One statement reads one snapshot, so no entry is counted in both parts or in none.
        cursor.execute(query, [*parameters, *map(rollups.sql_timestamp, [*bounds, end]), until])
        return dict.fromkeys(ids, NO_USAGE) | {row_id: _quota_usage(*sums) for row_id, *sums in cursor.fetchall()}


def subject_sql(subject: str, listed: str) -> tuple[str, str, str]:
    """SQL for rows of these subjects: the condition, the expression of the id, and the join that both need."""
    if subject != "group":
        return f'"{subject}_id" IN ({listed})', f'"{subject}_id"', ""
    dialect = _DIALECTS[connection.vendor]
    return dialect["some group"].format(listed), dialect["group"], dialect["each group"]


def _quota_usage(requests: Any, tokens: Any, cost: Any, unpriced_tokens: Any) -> QuotaUsage:
    return QuotaUsage(int(requests), int(tokens), round(Decimal(str(cost)), MONEY_DECIMALS), int(unpriced_tokens))


def _max_request_span() -> timedelta:
    """The greatest age of a request that has not ended."""
    own = Provider.objects.aggregate(most=Max("total_timeout_seconds"))["most"] or 0
    return timedelta(seconds=max(own, settings.GATEWAY_TOTAL_TIMEOUT)) + SPAN_MARGIN


_GROUPS = 'jsonb_array_elements_text("group_ids") AS one(id)'
_DIALECTS = {
    "postgresql": {
        "some group": f"EXISTS (SELECT 1 FROM {_GROUPS} WHERE one.id::bigint IN ({{}}))",
        "each group": f"CROSS JOIN LATERAL {_GROUPS}",
        "group": "one.id::bigint",
        "ended": 'extract(epoch FROM "timestamp")::float8 + coalesce(duration_ms, 0) / 1000.0',
    },
    "sqlite": {
        "some group": 'EXISTS (SELECT 1 FROM json_each("group_ids") WHERE value IN ({}))',
        "each group": ', json_each("group_ids") AS one',
        "group": "one.value",
        # The fraction is cut from the text: julianday() has no microseconds.
        "ended": (
            "CAST(strftime('%%s', \"timestamp\") AS REAL) + CAST('0' || substr(\"timestamp\", 20) AS REAL)"
            " + coalesce(duration_ms, 0) / 1000.0"
        ),
    },
}
