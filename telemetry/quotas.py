"""What was used of quotas, as the log tells it: for counts that were lost.

Hours in which every request has ended are read from usage (rollups.py), the last ones from the entries themselves: a
month of ten million of them is told as fast as one of a thousand, and as exactly.
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
from telemetry import rollups
from telemetry.rollups import SUM_OF_COSTS, TOKENS

# No request lasts longer than its time-out and this: what it waits for before that, and its last words.
LEAST_SPAN = timedelta(minutes=10)
_REQUESTS = 'coalesce(sum("requests"), 0) - coalesce(sum("limited"), 0)'
_ASKED = 'coalesce(sum("asked"), 0)'
_ALL_TOKENS = " + ".join(f'coalesce(sum("{name}"), 0)' for name in TOKENS)


@dataclass(frozen=True)
class Used:
    """Requests, tokens and money."""

    requests: int
    tokens: int
    cost: Decimal


NOTHING = Used(0, 0, Decimal(0))


def used(subject: str, ids: Iterable[int], *, begin: float, until: float) -> dict[int, Used]:
    """What each of these keys, users, groups or providers used, by its id.

    That is, by requests that began at `begin` or later and ended before `until`.

    Moments are seconds since 1970. It is fastest where `begin` is a full hour: of one that has begun before it the
    entries are read, as far as they are kept. A stored answer is a request of its caller and
    costs nothing; a provider's are the requests that it was asked. One that a limit refused has used nothing.
    """
    ids = [int(number) for number in ids]
    listed = ", ".join(map(str, ids))
    whose, number, each = _about(subject, listed)
    start, end = datetime.fromtimestamp(begin, UTC), datetime.fromtimestamp(until, UTC)
    first = rollups.hour_not_before(start)
    recent = max(first, rollups.full_hour(end - _longest_span()))
    hours, parameters = rollups.used(first, recent)
    times, bounds = '"timestamp" >= %s', [recent]
    if start < first:
        times, bounds = f'({times} OR "timestamp" >= %s AND "timestamp" < %s)', [recent, start, first]
    ended = _DIALECTS[connection.vendor]["ended"]
    maybe = f'({whose} OR "asked_before" IS NOT NULL)' if subject == "provider" else whose
    entries = rollups.of_log(f'{maybe} AND {times} AND "timestamp" <= %s AND {ended} <= %s')
    parts = f"SELECT * FROM {hours} WHERE {whose} UNION ALL {rollups.added_up(entries)}"
    counted = _ASKED if subject == "provider" else _REQUESTS
    with connection.cursor() as cursor:
        # One statement, and so one moment: no entry moves from one part to the other.
        cursor.execute(
            f"SELECT {number}, {counted}, {_ALL_TOKENS}, {SUM_OF_COSTS} FROM ({parts}) AS used {each}"
            f" WHERE {number} IN ({listed}) GROUP BY {number}",
            [*parameters, *map(rollups.moment, [*bounds, end]), until],
        )
        return dict.fromkeys(ids, NOTHING) | {found: _used(*sums) for found, *sums in cursor.fetchall()}


def _about(subject: str, listed: str) -> tuple[str, str, str]:
    """The condition that a row is about one of these, the id of the one, and from where that is taken."""
    if subject != "group":
        return f'"{subject}_id" IN ({listed})', f'"{subject}_id"', ""
    dialect = _DIALECTS[connection.vendor]
    return dialect["some group"].format(listed), dialect["group"], dialect["each group"]


def _used(requests: Any, tokens: Any, cost: Any) -> Used:
    return Used(int(requests), int(tokens), round(Decimal(str(cost)), MONEY_DECIMALS))


def _longest_span() -> timedelta:
    """How long ago a request can have begun that has not ended."""
    own = Provider.objects.aggregate(most=Max("total_timeout_seconds"))["most"] or 0
    return timedelta(seconds=max(own, settings.GATEWAY_TOTAL_TIMEOUT)) + LEAST_SPAN


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
        # The fraction is the text behind the seconds: julianday() knows no microseconds.
        "ended": (
            "CAST(strftime('%%s', \"timestamp\") AS REAL) + CAST('0' || substr(\"timestamp\", 20) AS REAL)"
            " + coalesce(duration_ms, 0) / 1000.0"
        ),
    },
}
