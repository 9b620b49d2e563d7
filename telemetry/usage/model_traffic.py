"""How many requests models had lately, for the console's list of models."""

from collections.abc import Collection

from django.db import connection
from django.utils import timezone

from telemetry.paging import QueryTimeout, statement_timeout
from telemetry.usage import rollups
from telemetry.usage.key_costs import PERIOD, QUERY_MS

Names = Collection[tuple[int, str]]  # providers' ids and the names of their models


def requests_of_models(models: Names) -> dict[tuple[int, str], int] | None:
    """The requests of 30 days, today included; models without any are left out. None if the query takes too long."""
    if not models:
        return {}
    try:
        with statement_timeout(QUERY_MS):
            return _counts(models)
    except QueryTimeout:
        return None


def _counts(models: Names) -> dict[tuple[int, str], int]:
    now = timezone.now()
    period = rollups.floor_day(now) - PERIOD, rollups.ceil_hour(now)
    usage, parameters = rollups.usage_rows(*period, dimensions=("provider_id", "model"))
    providers, names = (sorted(set(column)) for column in zip(*models, strict=True))
    served = rollups.with_served_models(usage, (), ("requests",))
    sql = (
        f'SELECT "provider_id", "model", coalesce(sum("requests"), 0) FROM {served}'
        f' WHERE "provider_id" IN ({_places(providers)}) AND "model" IN ({_places(names)})'
        ' GROUP BY "provider_id", "model"'
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [*parameters, *providers, *names])
        return {(provider_id, name): int(count) for provider_id, name, count in cursor.fetchall()}


def _places(values: Collection[object]) -> str:
    return ", ".join(["%s"] * len(values))
