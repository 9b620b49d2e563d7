"""Usage aggregated from its days and hours by one or two dimensions, such as day, user, model or alias.

A user in several groups counts for each group, and a request with several tags for each tag. So the rows by group or by
tag can sum up to more than the total. Usage without a group or tag is a row with null.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import orjson
from django.db import connection

from gateway_project.json_types import JsonObject
from providers.formats.usage import MONEY_DECIMALS
from telemetry.usage import rollups
from telemetry.usage.models import LATENCY_COLUMNS, LATENCY_MS
from telemetry.usage.rollups import MEASURES, MONEY, SUM_OF_COSTS, columns

# What usage can be aggregated by, with the column's name in the answer.
DIMENSIONS = {
    "hour": "hour",
    "day": "day",
    "user": "user_id",
    "group": "group_id",
    "key": "key_id",
    "provider": "provider_id",
    "model": "model",
    "alias": "alias",
    "tag": "tag",
}
MAX_DIMENSIONS = 2
# The lengths of those that are times.
TIMES = {"hour": timedelta(hours=1), "day": timedelta(days=1)}
# Those that may have thousands of values.
LARGE = {"user", "key", "group", "tag"}
LATENCIES = ("average_ms", "p50_ms", "p95_ms", "average_first_byte_ms")
SORTED_BY = (
    *("requests", "completed", "denied", "client_closed", "errors", "cache_hits", "saved_tokens"),
    *("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens"),
    *("cost", "saved_cost", "unknown_cost_requests", "unpriced_requests", "attempts", "failed_attempts"),
    *LATENCIES,
)

# Measures that are not part of a row: costs are listed by currency, the others are for quotas.
UNLISTED = (*MONEY, "limited", "asked")
LISTED = tuple(name for name in MEASURES if name not in UNLISTED)
# The columns of a row beside its dimensions and costs.
RESULT_COLUMNS = (
    *SORTED_BY[: SORTED_BY.index("cost")],
    *("attempts", "failed_attempts", "estimated_requests", "unknown_cost_requests", "unpriced_requests"),
    *LATENCIES,
)


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """A query: the full hours from start to end, aggregated by dimensions, if the filters match."""

    start: datetime
    end: datetime
    by: tuple[str, ...]
    filters: Mapping[str, object] = field(default_factory=dict)  # names of FILTERS
    sort: str = ""  # one of SORTED_BY or of `by` (ids by their names); a minus before it: descending


class Page(NamedTuple):
    """A page of rows, and the number of all rows."""

    rows: list[JsonObject]
    total: int


def unknown_costs(start: datetime, end: datetime) -> list[JsonObject]:
    """For each provider and model with requests of unknown cost: their number, their tokens and the last hour.

    Requests without tokens are not listed: these calls failed and cost nothing, whatever the price.
    """
    usage, parameters = rollups.usage_rows(start, end, by_hour=True, dimensions=("provider_id", "model"))
    counts = ("unknown_cost_requests", "requests", "input_tokens", "output_tokens")
    sums = ", ".join(f'coalesce(sum("{name}"), 0) AS "{name}"' for name in counts)
    tokens = " + ".join(f'coalesce(sum("{name}"), 0)' for name in rollups.TOKENS)
    rows = _select(
        f'SELECT "provider_id", "model", {sums}, max("hour") AS "last_hour" FROM {usage}'
        ' WHERE "provider_id" IS NOT NULL GROUP BY "provider_id", "model"'
        f' HAVING sum("unknown_cost_requests") > 0 AND {tokens} > 0',
        parameters,
    )
    return [
        row | {name: int(row[name]) for name in counts} | {"last_hour": rollups.parse_timestamp(row["last_hour"])}
        for row in rows
    ]


def usage(query: UsageQuery, offset: int, limit: int) -> Page:
    """At most `limit` rows from `offset` on, each with its dimensions, measures, costs and latencies."""
    if _has_many_rows_by_time(query):
        return _usage_by_time(query, offset, limit)
    statement, parameters = _statement(query)
    rows = _select(f"{statement} LIMIT {limit} OFFSET {offset}", parameters)
    return Page([_result_row(row) for row in rows], rows[0]["total"] if rows else 0)


def _has_many_rows_by_time(query: UsageQuery) -> bool:
    """Whether the rows are in the order of their times, so many that adding up all of them takes long."""
    first, *others = query.by
    is_large = first == "hour" or not LARGE.isdisjoint(others)
    return first in TIMES and bool(others) and is_large and query.sort.removeprefix("-") in ("", first)


def _usage_by_time(query: UsageQuery, offset: int, limit: int) -> Page:
    """The same rows, added up for those times alone that the page has rows of."""
    by_time = query.by[0]
    counts = _select(*_rows_by_time(query))
    passed, skipped, times = 0, 0, []
    for row in counts:
        if passed + row["rows"] <= offset:
            skipped += row["rows"]
        elif passed < offset + limit:
            times.append(rollups.parse_timestamp(row[by_time]))
        passed += row["rows"]
    if not times:
        return Page([], 0)
    start, end = max(query.start, min(times)), min(query.end, max(times) + TIMES[by_time])
    statement, parameters = _statement(replace(query, start=start, end=end))
    rows = _select(f"{statement} LIMIT {limit} OFFSET {offset - skipped}", parameters)
    return Page([_result_row(row) for row in rows], passed)


def _select(statement: str, parameters: Sequence[Any]) -> list[JsonObject]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        names = [column.name if hasattr(column, "name") else column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def percentile(counts: Sequence[int], share: float) -> float | None:
    """The percentile of latencies counted by bucket, in milliseconds, interpolated within its bucket; None for none."""
    rank, passed = share * sum(counts), 0
    for number, count in enumerate(counts):
        if count and passed + count >= rank:
            low = LATENCY_MS[number - 1] if number else 0.0
            high = LATENCY_MS[number] if number < len(LATENCY_MS) else low
            return round(low + (high - low) * (rank - passed) / count, 1)
        passed += count
    return None


def _statement(query: UsageQuery) -> tuple[str, list[Any]]:
    dialect, names = _DIALECTS[connection.vendor], [DIMENSIONS[name] for name in query.by]
    groups = columns(names)
    hours, parameters = _rows(query, MEASURES)
    sums = rollups.sums(MEASURES)
    each = f'SELECT {groups}, "currency", {sums} FROM ({hours}) AS hours GROUP BY {groups}, "currency"'
    return (
        f"SELECT {groups}, {sums}, {dialect['costs']} AS costs, count(*) OVER () AS total"
        f" FROM ({each}) AS each_currency GROUP BY {groups} {_HAS_USAGE} ORDER BY {_order(query, names)}",
        parameters,
    )


def _rows_by_time(query: UsageQuery) -> tuple[str, list[Any]]:
    """The statement for the number of rows of each time, in the order of the query."""
    first = DIMENSIONS[query.by[0]]
    groups = columns([DIMENSIONS[name] for name in query.by])
    hours, parameters = _rows(query, ("requests", "attempts"))
    each = f"SELECT {groups} FROM ({hours}) AS hours GROUP BY {groups} {_HAS_USAGE}"
    down = "DESC" if query.sort.startswith("-") else "ASC"
    return (
        f'SELECT "{first}", count(*) AS "rows" FROM ({each}) AS each_row GROUP BY "{first}" ORDER BY "{first}" {down}',
        parameters,
    )


def _rows(query: UsageQuery, measures: Sequence[str]) -> tuple[str, list[Any]]:
    """The statement for the usage that matches the query: its dimensions, the currency, and these measures."""
    dialect = _DIALECTS[connection.vendor]
    expressions = ", ".join(f'{dialect[name]} AS "{DIMENSIONS[name]}"' for name in query.by)
    joins = " ".join(dialect.get(f"join {name}", "") for name in query.by)
    sources = [_STORED_IN.get(name, DIMENSIONS[name]) for name in query.by]
    read = {*sources, *query.filters}
    rows, parameters = rollups.usage_rows(query.start, query.end, by_hour="hour" in query.by, dimensions=read)
    condition, values = _conditions({name: it for name, it in query.filters.items() if name != "model"}, dialect)
    if "model" in (*query.by, *query.filters):
        rows = rollups.with_served_models(rows, [*sources, "currency"], measures, condition)
        condition, models = _conditions({name: it for name, it in query.filters.items() if name == "model"}, dialect)
        values += models
    selected = f'SELECT {expressions}, "currency", {columns(measures)} FROM {rows} {joins} WHERE {condition}'
    return selected, [*parameters, *values]


def _conditions(filters: Mapping[str, object], dialect: Mapping[str, str]) -> tuple[str, list[Any]]:
    conditions = [dialect.get(f"has {name}", f'"{name}" = %s') for name in filters]
    parameters = [part for value in filters.values() for part in (value if type(value) is tuple else (value,))]
    return " AND ".join(conditions) or "TRUE", parameters


def _order(query: UsageQuery, names: Sequence[str]) -> str:
    sort = query.sort or (query.by[0] if query.by[0] in ("hour", "day") else "-requests")
    column, down = sort.removeprefix("-"), " DESC" if sort.startswith("-") else ""
    first = _ORDERS.get(column) or (f'coalesce(sum("{column}"), 0)' if column in SORTED_BY else f'"{column}"')
    # NULLs last in either direction: the databases' defaults differ.
    return ", ".join([f"{first}{down} NULLS LAST", *(f'"{name}" NULLS LAST' for name in names)])


def _result_row(row: JsonObject) -> JsonObject:
    """A database row as a result: counts as integers, costs by currency, averages and percentiles."""
    costs = orjson.loads(row["costs"]) if isinstance(row["costs"], str) else row["costs"]
    counts = {name: int(row[name] or 0) for name in LISTED}
    latencies = [counts.pop(name) for name in LATENCY_COLUMNS]
    took, first_bytes = counts.pop("duration_us"), counts.pop("first_byte_us")
    return {
        **{name: _dimension(name, row[name]) for name in DIMENSIONS.values() if name in row},
        **counts,
        "costs": _costs(costs),
        "average_ms": _average_ms(took, counts["completed"]),
        "average_first_byte_ms": _average_ms(first_bytes, counts["first_bytes"]),
        "p50_ms": percentile(latencies, 0.5),
        "p95_ms": percentile(latencies, 0.95),
    }


def _dimension(name: str, value: object) -> object:
    if name == "hour":
        return f"{rollups.parse_timestamp(value).astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return str(value) if name == "day" else value


def _costs(costs: Sequence[list[Any]]) -> list[dict[str, str]]:
    """The known, estimated and saved amounts in each currency; currencies without any are left out."""
    return [
        {"currency": currency, **dict(zip(("known", "estimated", "saved"), map(_money, amounts), strict=True))}
        for currency, *amounts in sorted(costs)
        if currency and any(amount is not None for amount in amounts)
    ]


def _money(amount: str | float | None) -> str:
    exact = round(Decimal(str(amount or 0)), MONEY_DECIMALS)
    return f"{exact.normalize():f}"


def _average_ms(microseconds: int, count: int) -> float | None:
    return round(microseconds / count / 1000, 1) if count else None


def _average(microseconds: str, count: str) -> str:
    return f'1.0 * sum("{microseconds}") / nullif(sum("{count}"), 0)'


def _percentile(share: float) -> str:
    """What `percentile` says of the sums of a group; NULL for none."""
    counts = [f'coalesce(sum("{name}"), 0)' for name in LATENCY_COLUMNS]
    rank = f"{share} * ({' + '.join(counts)})"
    cases = []
    for number, (count, low, high) in enumerate(
        zip(counts, (0, *LATENCY_MS), (*LATENCY_MS, LATENCY_MS[-1]), strict=True)
    ):
        missing = " - ".join([rank, *counts[:number]])
        cases.append(f"WHEN {missing} <= {count} THEN {low} + {high - low} * ({missing}) / {count}")
    return f"CASE WHEN {rank} > 0 THEN CASE {' '.join(cases)} END END"


def _name(dimension: str, table: str, key: str = 'lower("name")') -> str:
    return f'(SELECT {key} FROM "{table}" WHERE "id" = each_currency."{DIMENSIONS[dimension]}")'


# Rows without either count providers that failed before another one served. They are for quotas.
_HAS_USAGE = 'HAVING sum("requests") > 0 OR sum("attempts") > 0'
# What rows are sorted by where it is not a column or its sum.
_ORDERS = {
    "cost": SUM_OF_COSTS,
    "average_ms": _average("duration_us", "completed"),
    "average_first_byte_ms": _average("first_byte_us", "first_bytes"),
    "p50_ms": _percentile(0.5),
    "p95_ms": _percentile(0.95),
    "user": _name("user", "accounts_user", '"name_key"'),
    "group": _name("group", "accounts_group"),
    "key": _name("key", "keys_apikey"),
    "provider": _name("provider", "providers_provider"),
}
# The stored columns of dimensions that are computed.
_STORED_IN = {"day": "hour", "group": "group_ids", "tag": "tags"}
_COLUMNS = {
    "hour": '"hour"',
    "user": '"user_id"',
    "key": '"key_id"',
    "provider": '"provider_id"',
    "model": "nullif(\"model\", '')",
    "alias": '"alias"',
}
_DIALECTS = {
    "postgresql": {
        **_COLUMNS,
        "day": "(\"hour\" AT TIME ZONE 'UTC')::date",
        "group": "groups_of.value::bigint",
        "join group": 'LEFT JOIN LATERAL jsonb_array_elements_text("group_ids") AS groups_of(value) ON TRUE',
        "has group": '"group_ids" @> %s::text::jsonb',
        "tag": "tags_of.key || '=' || tags_of.value",
        "join tag": 'LEFT JOIN LATERAL jsonb_each_text("tags") AS tags_of(key, value) ON TRUE',
        "has tag": 'EXISTS (SELECT 1 FROM jsonb_each_text("tags") AS t(key, value) WHERE t.key = %s AND t.value = %s)',
        "costs": 'json_agg(json_build_array("currency", "cost"::text, "estimated_cost"::text, "saved_cost"::text))',
    },
    "sqlite": {
        **_COLUMNS,
        "day": 'substr("hour", 1, 10)',
        "group": "groups_of.value",
        "join group": 'LEFT JOIN json_each("group_ids") AS groups_of',
        "has group": 'EXISTS (SELECT 1 FROM json_each("group_ids") AS g WHERE g.value = %s)',
        "tag": "tags_of.key || '=' || tags_of.value",
        "join tag": 'LEFT JOIN json_each("tags") AS tags_of',
        "has tag": 'EXISTS (SELECT 1 FROM json_each("tags") AS t WHERE t.key = %s AND t.value = %s)',
        "costs": 'json_group_array(json_array("currency", "cost", "estimated_cost", "saved_cost"))',
    },
}
