"""Requests of unknown cost, by whose they are and by model: what costs do not contain."""

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from django.db import connection

from telemetry.paging import QueryTimeout, statement_timeout
from telemetry.usage import rollups
from telemetry.usage.key_costs import QUERY_MS
from telemetry.usage.quotas import subject_sql


class UnpricedModel(NamedTuple):
    """A model of a provider: its requests of unknown cost, and those of them that it answered without a price."""

    unknown_cost_requests: int
    unpriced_requests: int
    model: str
    provider_id: int | None


def unpriced_models(
    subject: str, ids: Collection[int], start: datetime, end: datetime
) -> dict[int, list[UnpricedModel]] | None:
    """For keys, users, groups or providers by id: the models with requests of unknown cost, in full hours.

    Those with the most requests without a price are first. None if the query takes too long.
    """
    try:
        with statement_timeout(QUERY_MS):
            rows = _rows(subject, ids, start, end)
    except QueryTimeout:
        return None
    models = defaultdict(list)
    for row_id, model, provider_id, unknown, unpriced in rows:
        models[row_id].append(UnpricedModel(int(unknown), int(unpriced), model, provider_id))
    return {row_id: sorted(of_one, key=lambda one: -one.unpriced_requests) for row_id, of_one in models.items()}


def _rows(subject: str, ids: Collection[int], start: datetime, end: datetime) -> list[tuple]:
    listed = ", ".join(str(int(number)) for number in ids)
    whose, number, each = subject_sql(subject, listed)
    usage, parameters = rollups.usage_rows(rollups.floor_hour(start), rollups.ceil_hour(end))
    unknown, unpriced = 'coalesce(sum("unknown_cost_requests"), 0)', 'coalesce(sum("unpriced_requests"), 0)'
    column = "group_ids" if subject == "group" else f"{subject}_id"
    served = rollups.with_served_models(usage, [column], ("unknown_cost_requests", "unpriced_requests"), whose)
    sql = (
        f'SELECT {number}, "model", "provider_id", {unknown}, {unpriced} FROM {served} {each}'
        f' WHERE {number} IN ({listed}) GROUP BY {number}, "model", "provider_id" HAVING {unknown} > 0'
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()
