"""What the aggregation of usage has to say differently to each database."""

from collections.abc import Sequence

from django.db.backends.base.base import BaseDatabaseWrapper

from telemetry.usage.models import LATENCY_MS
from telemetry.usage.tags import OTHER


def dialect_of(connection: BaseDatabaseWrapper) -> dict[str, str]:
    """The database's SQL expressions by name; templates have `{}` for what they are applied to."""
    return _DIALECTS[connection.vendor]


def _latency_bucket(bounds: Sequence[int]) -> str:
    cases = " ".join(f"WHEN duration_ms < {bound} THEN {number}" for number, bound in enumerate(bounds))
    return f"CASE {cases} ELSE {len(bounds)} END"


_DIALECTS = {
    "postgresql": {
        "hour": "date_trunc('hour', \"timestamp\", 'UTC')",
        "day": "date_trunc('day', \"hour\", 'UTC')",
        "whole": "({})::bigint",
        "length": "jsonb_array_length(asked_before)",
        "others": "jsonb_array_elements_text(asked_before) AS one(id)",
        "other": "one.id::bigint",
        "calls": "jsonb_array_elements(provider_calls) AS call",
        "call": "(call ->> {})",
        "latency": f"width_bucket(duration_ms, ARRAY{list(map(float, LATENCY_MS))})",
        "tags": "(SELECT coalesce(jsonb_object_agg(key, {}), '{{}}') FROM jsonb_each(tags) AS tag WHERE {})",
        "text": "tag.value #>> '{}'",
        "surplus": f"'\"{OTHER}\"'::jsonb",
    },
    "sqlite": {
        "hour": "substr(\"timestamp\", 1, 13) || ':00:00'",
        "day": "substr(\"hour\", 1, 10) || ' 00:00:00'",
        "whole": "CAST(round({}) AS INTEGER)",
        "length": "json_array_length(asked_before)",
        "others": "json_each(asked_before) AS one",
        "other": "one.value",
        "calls": "json_each(provider_calls) AS call",
        "call": "json_extract(call.value, '$[{}]')",
        "latency": _latency_bucket(LATENCY_MS),
        "tags": "(SELECT json_group_object(key, {}) FROM json_each(tags) AS tag WHERE {})",
        "text": "tag.value",
        "surplus": f"'{OTHER}'",
    },
}
