"""The results of each guardrail by hour, which the database counts from the lists in the log's own rows.

As with usage (usage/rollups.py) the same SQL counts a batch of new entries and an hour of the log. Rows are inserted
and never updated; rows of the same hour are merged later.
"""

from collections.abc import Sequence
from datetime import datetime

from django.db import connection

from telemetry.guardrails.models import GuardrailHour
from telemetry.usage.rollups import (
    HOUR,
    IS_WORK_REQUEST,
    LOG,
    columns,
    hour_expression,
    replace_rows,
    sql_timestamp,
)

TABLE = GuardrailHour._meta.db_table
RESULTS = ("passed", "blocked", "redacted", "monitored", "failed")
DIMENSIONS = ("hour", "guardrail_id", "guardrail_name", "direction")
MEASURES = ("searched", *RESULTS, "duration_us")
# In the text of a client quotation marks are escaped, so this is the column of the log.
HAS_GUARDRAILS = b'"guardrails":[{'
_COUNTED = f"{IS_WORK_REQUEST} AND guardrails IS NOT NULL"
_COLUMNS = columns((*DIMENSIONS, *MEASURES))


def have_guardrails(records: Sequence[bytes]) -> bool:
    """Whether a guardrail ran in one of these journal records."""
    return any(HAS_GUARDRAILS in record for record in records)


def insert_counts(rows: str) -> str:
    """The INSERT of the counts of such rows as counting_sql() takes."""
    return f'INSERT INTO "{TABLE}" ({_COLUMNS}) {counting_sql(rows)}'


def counting_sql(rows: str) -> str:
    """The SELECT that counts rows with the columns entry_type, hour and guardrails, those of messages left out."""
    dialect = _DIALECTS[connection.vendor]
    name, direction, result = (dialect["text"].format(member) for member in ("name", "direction", "result"))
    by_result = [f"nullif(count(*) FILTER (WHERE {result} = '{one}'), 0) AS \"{one}\"" for one in RESULTS]
    return (
        f'SELECT "hour", {dialect["id"]} AS "guardrail_id", {name} AS "guardrail_name", {direction} AS "direction",'
        f' count(*) AS "searched", {", ".join(by_result)}, sum({dialect["microseconds"]}) AS "duration_us"'
        f" FROM {rows}, {dialect['each']} WHERE {_COUNTED} GROUP BY 1, 2, 3, 4"
    )


def log_rows(condition: str) -> str:
    """The log entries under a condition, as a subquery for counting_sql()."""
    selected = f'entry_type, {hour_expression()} AS "hour", guardrails'
    return f'(SELECT {selected} FROM "{LOG}" WHERE guardrails IS NOT NULL AND {condition}) AS guarded'


def merge_hour(hour: datetime) -> None:
    """Merge the rows of one hour into one for each guardrail and direction."""
    sums = ", ".join(f'sum("{name}")' for name in MEASURES)
    groups = columns(DIMENSIONS)
    summed = f"SELECT {groups}, {sums}, TRUE FROM gone GROUP BY {groups}"
    replace_rows(TABLE, hour, hour + HOUR, f'INSERT INTO "{TABLE}" ({_COLUMNS}, "merged") {summed}')


def rebuild_hour(hour: datetime) -> None:
    """Replace the rows of one hour with ones counted from the log."""
    insert = insert_counts(log_rows('"timestamp" >= %s AND "timestamp" < %s'))
    bounds = hour, hour + HOUR
    replace_rows(TABLE, *bounds, insert, parameters=[*map(sql_timestamp, bounds)])


_DIALECTS = {
    "postgresql": {
        "each": "jsonb_array_elements(guardrails) AS ran(value)",
        "id": "(ran.value ->> 'id')::bigint",
        "text": "(ran.value ->> '{}')",
        "microseconds": "round((ran.value ->> 'milliseconds')::numeric * 1000)::bigint",
    },
    "sqlite": {
        "each": "json_each(guardrails) AS ran",
        "id": "json_extract(ran.value, '$.id')",
        "text": "json_extract(ran.value, '$.{}')",
        "microseconds": "CAST(round(json_extract(ran.value, '$.milliseconds') * 1000) AS INTEGER)",
    },
}
