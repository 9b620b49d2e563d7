"""What keys have cost lately, for the console's list of keys."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, timedelta
from decimal import Decimal

from django.db import connection
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html_join

from gateway_project.console.display.money import join_figures, money, of_unknown_cost, without_price
from gateway_project.console.links import link
from gateway_project.console.period import with_query
from telemetry.paging import QueryTimeout, statement_timeout
from telemetry.usage import rollups

PERIOD = timedelta(days=29)  # and today
QUERY_MS = 300  # the list is shown without costs rather than late


def costs_of_keys(key_ids: Sequence[int]) -> dict[int, str] | None:
    """The costs of 30 days by key, today included, as texts for a page; keys without requests are left out.

    None if the query takes too long.
    """
    if not key_ids:
        return {}
    try:
        with statement_timeout(QUERY_MS):
            rows = _sums(key_ids)
    except QueryTimeout:
        return None
    by_key = defaultdict(list)
    for key_id, *sums in rows:
        by_key[key_id].append(sums)
    return {key_id: _text(key_id, sums) for key_id, sums in by_key.items()}


def _sums(key_ids: Sequence[int]) -> list[tuple]:
    """For each key and currency: the cost, and the numbers of requests of unknown cost, and without a price."""
    now = timezone.now()
    usage, parameters = rollups.usage_rows(rollups.floor_day(now) - PERIOD, rollups.ceil_hour(now))
    sql = (
        f'SELECT "key_id", "currency", {rollups.SUM_OF_COSTS}, coalesce(sum("unknown_cost_requests"), 0),'
        f' coalesce(sum("unpriced_requests"), 0)'
        f' FROM {usage} WHERE "key_id" IN ({", ".join(["%s"] * len(key_ids))})'
        ' GROUP BY "key_id", "currency" ORDER BY "key_id", "currency"'
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [*parameters, *key_ids])
        return cursor.fetchall()


def _text(key_id: int, sums: Sequence[Sequence]) -> str:
    amounts = join_figures([money(Decimal(str(cost)), currency) for currency, cost, *_ in sums if currency])
    unknown, unpriced = (int(sum(counts)) for counts in list(zip(*sums, strict=True))[2:])
    form = link(without_price(unpriced), _unpriced_models(key_id)) if unpriced else ""
    parts = (amounts, form, of_unknown_cost(unknown - unpriced))
    return format_html_join(", ", "{}", ((part,) for part in parts if part))


def _unpriced_models(key_id: int) -> str:
    """The statistics of the key's models, those with the most requests without a price first."""
    today = timezone.now().astimezone(UTC).date()
    query = {"by": "model", "key": key_id, "start": today - PERIOD, "end": today, "sort": "-unpriced_requests"}
    return with_query(reverse("admin:statistics"), query)
