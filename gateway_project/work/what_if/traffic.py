"""Recorded requests, counted by what a judgement depends on: a part of the period after the other."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from django.db.models import Count, F, Min, Sum

from telemetry.models import CacheStatus, EntryType, LogEntry

PART = timedelta(hours=6)


class Traffic(NamedTuple):
    """Requests that are alike: how many, what they used and cost, and one of them."""

    user_id: int | None
    key_id: int | None
    model: str
    tags: dict[str, str]
    provider_id: int | None
    served_model: str
    is_from_cache: bool
    currency: str
    requests: int
    input_tokens: int
    output_tokens: int
    cost: Decimal
    example: int  # the id of the first entry


def parts_of(start: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    """The period in parts that are counted one by one."""
    parts = []
    while start < end:
        parts.append((start, min(start + PART, end)))
        start += PART
    return parts


def traffic_of(start: datetime, end: datetime) -> Iterator[Traffic]:
    """The requests from start on and before end, counted by the database."""
    entries = LogEntry.objects.filter(entry_type=EntryType.WORK_REQUEST).between(start=start, end=end).order_by()
    columns = ("user_id", "key_id", "model", "tags", "provider_id", "served_model", "cache_status", "currency")
    sums = {
        "requests": Count("pk"),
        "input": Sum("input_tokens", default=0),
        "output": Sum("output_tokens", default=0),
        "spent": Sum("cost", default=Decimal(0)),
        "example": Min(F("pk")),
    }
    for row in entries.values_list(*columns).annotate(**sums).iterator():
        yield _traffic(*row)


def _traffic(
    user_id: int | None,
    key_id: int | None,
    model: str,
    tags: Any,
    provider_id: int | None,
    served_model: str | None,
    cache_status: str,
    currency: str,
    *sums: Any,
) -> Traffic:
    is_from_cache = cache_status == CacheStatus.HIT
    return Traffic(user_id, key_id, model, tags, provider_id, served_model or "", is_from_cache, currency, *sums)
