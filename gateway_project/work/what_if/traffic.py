"""Recorded requests: counted by what a judgement depends on, or one by one, a part of the period after the other."""

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from json import loads
from typing import Any, NamedTuple

from django.db.models import (
    Case,
    Count,
    F,
    FloatField,
    Func,
    IntegerField,
    Max,
    Min,
    QuerySet,
    Sum,
    TextField,
    Value,
    When,
)
from django.db.models.functions import Cast, Coalesce
from django.db.models.sql.compiler import SQLCompiler

from providers.formats import Usage
from telemetry.models import CacheStatus, EntryType, LogEntry

PART, SHORTEST_PART, PARTS = timedelta(hours=6), timedelta(minutes=1), 20
CHUNK = 2000  # entries that are read at once
COLUMNS = ("user_id", "key_id", "model", "tags", "provider_id", "served_model", "cache_status", "currency")
BUCKETS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
RECORDED = ("timestamp", "duration_ms", "exception", "outcome", "rule_id", "alias")


class Seconds(Func):
    """A time in seconds since 1970, calculated by the database: a million of them take seconds in Python."""

    template = "CAST(EXTRACT(EPOCH FROM %(expressions)s) AS double precision)"
    output_field = FloatField()

    def as_sqlite(self, compiler: SQLCompiler, connection: Any, **context: Any) -> Any:
        """From text like 2026-11-01 08:30:00.25; the fraction may be missing."""
        whole, fraction = "strftime('%%%%s', %(expressions)s)", "substr(%(expressions)s, 20)"
        template = f"(CAST({whole} AS REAL) + CAST('0' || {fraction} AS REAL))"
        return self.as_sql(compiler, connection, template=template, **context)


class Recorded(NamedTuple):
    """What is known of a single request only."""

    at: float  # when it began, in seconds since 1970
    seconds: float
    exception: str
    outcome: str
    rule_id: int | None
    alias: str
    payload: str = ""
    guardrails: list[dict[str, Any]] | None = None  # what they did with it


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
    usage: Usage  # of all of them
    longest_input: int
    cost: Decimal | None  # None: unknown
    example: int  # the id of the first entry
    recorded: Recorded | None = None  # if it is one request

    @property
    def served(self) -> tuple[int, str]:
        """Provider and model that served, as Target.key has them."""
        return self.provider_id or 0, self.served_model


def parts_of(start: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    """The period in parts that are read one by one: enough to see how far it is, none longer than PART."""
    parts, length = [], min(PART, max((end - start) / PARTS, SHORTEST_PART))
    while start < end:
        parts.append((start, min(start + length, end)))
        start += length
    return parts


def traffic_of(start: datetime, end: datetime, tiers: Collection[int] = ()) -> Iterator[Traffic]:
    """The requests from start on and before end, counted by the database.

    Those with more input than one of the `tiers`, and those with less, are not alike: they have other prices.
    """
    sums = {
        "requests": Count("pk"),
        **{f"sum_{name}": Sum(name, default=0) for name in BUCKETS},
        "longest": Max("all_input"),
        "spent": Sum("cost"),
        "example": Min(F("pk")),
    }
    entries = _entries(start, end).order_by().annotate(all_input=_all_input()).annotate(tier=_tier(tiers))
    rows = entries.values_list(*COLUMNS, "tier").annotate(**sums)
    for row in rows.iterator():
        yield _traffic(row[:8], row[9], Usage(*row[10:15]), row[15], row[16], row[17])


def requests_of(start: datetime, end: datetime, *, with_payload: bool = False) -> Iterator[Traffic]:
    """The same requests one by one, in the order in which they began."""
    names = (*COLUMNS, *BUCKETS, "cost", "pk", *RECORDED, *(("payload", "guardrails") if with_payload else ()))
    # Tags as text: there are few different ones, and each is read once.
    expressions = {"tags": Cast("tags", TextField()), "timestamp": Seconds("timestamp")}
    columns = [expressions.get(name, name) for name in names]
    rows = _entries(start, end).order_by("timestamp", "id").values_list(*columns)
    for row in rows.iterator(chunk_size=CHUNK):
        usage = Usage(*row[8:13])
        at, milliseconds, exception, outcome, rule_id, alias, *texts = row[15:]
        recorded = Recorded(at, (milliseconds or 0) / 1000, exception, outcome, rule_id, alias or "", *texts)
        place = (*row[:3], _tags(row[3]), *row[4:8])
        yield _traffic(place, 1, usage, usage.all_input, row[13], row[14], recorded)


@lru_cache(maxsize=10_000)
def _tags(text: str) -> dict[str, str]:
    tags: dict[str, str] = loads(text)
    return tags


def _entries(start: datetime, end: datetime) -> "QuerySet[LogEntry]":
    return LogEntry.objects.filter(entry_type=EntryType.WORK_REQUEST).between(start=start, end=end)


def _all_input() -> Any:
    return sum((Coalesce(F(name), 0) for name in BUCKETS[1:3]), start=Coalesce(F(BUCKETS[0]), 0))


def _tier(tiers: Collection[int]) -> Any:
    if not tiers:
        return Value(0, IntegerField())
    steps = [When(all_input__gt=tier, then=Value(tier)) for tier in sorted(tiers, reverse=True)]
    return Case(*steps, default=Value(0), output_field=IntegerField())


def _traffic(
    columns: tuple[Any, ...],
    requests: int,
    usage: Usage,
    longest: int,
    cost: Decimal | None,
    example: int,
    recorded: Recorded | None = None,
) -> Traffic:
    user_id, key_id, model, tags, provider_id, served_model, cache_status, currency = columns
    is_hit = cache_status == CacheStatus.HIT
    return Traffic(
        user_id, key_id, model, tags, provider_id, served_model or "", is_hit, currency, requests, usage, longest,
        cost, example, recorded,
    )  # fmt: skip
