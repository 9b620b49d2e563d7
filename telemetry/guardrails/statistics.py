"""The results of guardrails within full hours, for each guardrail and direction, by hour or day."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db.models import DateTimeField, Max, Sum
from django.db.models.functions import TruncDay
from django.db.models.query import QuerySet

from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from telemetry.guardrails.models import GuardrailHour
from telemetry.guardrails.rollup import RESULTS

TIMES = ("hour", "day")
BY = ("guardrail", "direction", *TIMES)
MAX_ROWS = 20_000
_SUMMED = ("searched", *RESULTS, "duration_us")
_FORMATS = {"hour": "%Y-%m-%dT%H:%M:%SZ", "day": "%Y-%m-%d"}
_FIELDS = {"guardrail": "guardrail_id"}


class GuardrailQuery(NamedTuple):
    """The full hours from start to end, by some of BY; `guardrail_id`: of one guardrail alone."""

    start: datetime
    end: datetime
    by: tuple[str, ...] = ("guardrail",)
    guardrail_id: int | None = None


def guardrail_counts(query: GuardrailQuery) -> list[JsonObject]:
    """A row for each combination, times first, then those that searched the most.

    Raises ValidationError for more than MAX_ROWS.
    """
    hours = _hours(query)
    names = [_FIELDS.get(name, name) for name in query.by]
    rows = hours.annotate(day=TruncDay("hour", tzinfo=UTC, output_field=DateTimeField())).values(*names)
    sums = rows.annotate(**{f"all_{name}": Sum(name) for name in _SUMMED}).order_by()
    counts = list(sums[: MAX_ROWS + 1])
    if len(counts) > MAX_ROWS:
        remedy = "ask for a shorter period (from, to), for one guardrail, or by day instead of by hour"
        raise ValidationError(f"would give more than {MAX_ROWS:,} counts: {remedy}.", parameter="by")
    latest_names = _latest_names(hours) if "guardrail" in query.by else {}
    return sorted((_row(row, latest_names) for row in counts), key=lambda row: _order(row, query.by))


def _hours(query: GuardrailQuery) -> QuerySet[GuardrailHour]:
    # `merged` makes databases use the index.
    hours = GuardrailHour.objects.filter(merged__in=(True, False), hour__gte=query.start, hour__lt=query.end)
    return hours if query.guardrail_id is None else hours.filter(guardrail_id=query.guardrail_id)


def _latest_names(hours: QuerySet[GuardrailHour]) -> dict[int, str]:
    """The name that each guardrail had last in this time."""
    rows = hours.values_list("guardrail_id", "guardrail_name").annotate(last=Max("hour")).order_by("last")
    return {number: name for number, name, _ in rows}


def _row(row: Mapping[str, Any], names: Mapping[int, str]) -> JsonObject:
    counts = {name: int(row[f"all_{name}"] or 0) for name in _SUMMED}
    duration_us, searched = counts.pop("duration_us"), counts["searched"]
    times = {name: f"{row[name].astimezone(UTC):{_FORMATS[name]}}" for name in TIMES if name in row}
    return {
        **times,
        **{name: row[name] for name in ("guardrail_id", "direction") if name in row},
        **({"guardrail_name": names[row["guardrail_id"]]} if "guardrail_id" in row else {}),
        **counts,
        "average_ms": round(duration_us / searched / 1000, 3) if searched else None,
    }


def _order(row: JsonObject, by: Sequence[str]) -> tuple[object, ...]:
    times = [row[name] for name in TIMES if name in by]
    return (*times, -row["searched"], row.get("guardrail_id", 0), row.get("direction", ""))
