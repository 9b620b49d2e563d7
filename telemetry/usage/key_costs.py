"""What keys have cost lately, for the console's list of keys."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal

from django.db import connection
from django.utils import timezone

from gateway_project.console.display.money import Figure, joined, money, without_price
from telemetry.paging import QueryTimeout, statement_timeout
from telemetry.usage import rollups

PERIOD = timedelta(days=29)  # and today
QUERY_MS = 300  # the list is shown without costs rather than late


def costs_of_keys(key_ids: Sequence[int]) -> dict[int, str]:
    """The costs of 30 days by key, today included, as texts for a page; keys without requests are left out.

    Empty if the query takes too long.
    """
    if not key_ids:
        return {}
    try:
        with statement_timeout(QUERY_MS):
            rows = _sums(key_ids)
    except QueryTimeout:
        return {}
    by_key = defaultdict(list)
    for key_id, *sums in rows:
        by_key[key_id].append(sums)
    return {key_id: _text(sums) for key_id, sums in by_key.items()}


def _sums(key_ids: Sequence[int]) -> list[tuple]:
    """For each key and currency: the cost, and the number of requests whose cost is not known."""
    now = timezone.now()
    used, parameters = rollups.usage_rows(rollups.floor_day(now) - PERIOD, rollups.ceil_hour(now))
    sql = (
        f'SELECT "key_id", "currency", {rollups.SUM_OF_COSTS}, coalesce(sum("unknown_cost_requests"), 0)'
        f' FROM {used} WHERE "key_id" IN ({", ".join(["%s"] * len(key_ids))})'
        ' GROUP BY "key_id", "currency" ORDER BY "key_id", "currency"'
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [*parameters, *key_ids])
        return cursor.fetchall()


def _text(sums: Sequence[Sequence]) -> str:
    amounts = [money(Decimal(str(cost)), currency) for currency, cost, _ in sums if currency]
    unpriced = without_price(sum(int(count) for *_, count in sums))
    return joined([*amounts, *([Figure(unpriced, unpriced)] if unpriced else [])])
