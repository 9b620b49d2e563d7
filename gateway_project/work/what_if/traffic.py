"""Recorded requests: counted by what a judgement depends on, or one by one, a part of the period after the other."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from json import loads
from typing import Any, NamedTuple, TypeAlias

from django.db.models import (
    Case,
    Count,
    F,
    FloatField,
    Func,
    IntegerField,
    Max,
    Min,
    Q,
    QuerySet,
    Sum,
    TextField,
    Value,
    When,
)
from django.db.models.expressions import Combinable
from django.db.models.functions import Cast, Coalesce
from django.db.models.sql.compiler import SQLCompiler

from gateway_project.errors import (
    ClientClosed,
    CredentialRevoked,
    GatewayError,
    Outpaced,
    ProviderNotSelected,
    RuleDenied,
    UpstreamError,
)
from gateway_project.json_types import JsonObject
from providers.formats import Usage
from telemetry.models import CacheStatus, CostStatus, EntryType, LogEntry

PART, SHORTEST_PART, PARTS = timedelta(hours=6), timedelta(minutes=1), 20
HIT, UNKNOWN = CacheStatus.HIT.value, CostStatus.UNKNOWN.value  # a member of an enum takes longer to compare
CHUNK = 2000  # entries that are read at once
MAX_EXAMPLES = 20  # entries behind a number
COLUMNS = ("user_id", "key_id", "model", "tags", "provider_id", "served_model", "cache_status", "currency")
ALIKE = ("user_id", "key_id", "model", "tags_text", *COLUMNS[4:], "tier", "was_judged")  # what they share
BUCKETS = (
    *("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens"),
    "cache_write_hour_tokens",
)  # in the order of Usage
TargetKey: TypeAlias = tuple[int, str]  # the provider's id and its name of the model
RECORDED = ("timestamp", "duration_ms", "exception", "outcome", "rule_id", "alias")


# The errors of requests that rules alone refused, and of those that were admitted and then failed or were given up.
RULE_ERRORS: tuple[type[GatewayError], ...] = (RuleDenied, ProviderNotSelected)
LATER_ERRORS: tuple[type[GatewayError], ...] = (
    UpstreamError,
    *UpstreamError.__subclasses__(),
    ClientClosed,
    Outpaced,
    CredentialRevoked,
)
JUDGED = frozenset(("", *(error.exception for error in (*RULE_ERRORS, *LATER_ERRORS))))


class Seconds(Func):
    """A time in seconds since 1970, calculated by the database: a million of them take seconds in Python."""

    template = "CAST(EXTRACT(EPOCH FROM %(expressions)s) AS double precision)"
    output_field = FloatField()

    def as_sqlite(self, compiler: SQLCompiler, connection: Any, **context: Any) -> Any:
        """From text like 2026-11-01 08:30:00.25; the fraction may be missing."""
        whole, fraction = "strftime('%%%%s', %(expressions)s)", "substr(%(expressions)s, 20)"
        template = f"(CAST({whole} AS REAL) + CAST('0' || {fraction} AS REAL))"
        return self.as_sql(compiler, connection, template=template, **context)


class RequestRecord(NamedTuple):
    """What is known of a single request only."""

    at: float  # when it began, in seconds since 1970
    seconds: float
    exception: str
    outcome: str
    rule_id: int | None
    alias: str
    payload: str = ""
    guardrails: list[JsonObject] | None = None  # what they did with it


class RequestGroup:
    """Entries of requests that are alike, by the values that they share; looked up once, if anybody asks for them."""

    __slots__ = ("_entries", "_ids", "_values")

    def __init__(self, entries: "QuerySet[LogEntry]", values: Sequence[object]) -> None:
        self._entries, self._values = entries, values
        self._ids: list[int] | None = None

    def ids(self) -> list[int]:
        """The first ones, at most MAX_EXAMPLES."""
        if self._ids is None:
            rows = self._entries.filter(**dict(zip(ALIKE, self._values, strict=True)))
            self._ids = list(rows.order_by("timestamp", "id").values_list("pk", flat=True)[:MAX_EXAMPLES])
        return self._ids


class Traffic(NamedTuple):
    """Requests that are alike: how many, what they used and cost, and where their entries are."""

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
    record: RequestRecord | None = None  # if it is one request
    group: RequestGroup | None = None  # if it is several
    was_judged: bool = True  # False: refused, but not by rules
    unknown_costs: int = 0  # requests whose cost is unknown

    @property
    def served(self) -> TargetKey:
        """Provider and model that served, as Target.key has them."""
        return self.provider_id or 0, self.served_model

    def entries(self, number: int) -> Sequence[int]:
        """The ids of so many of its entries, as far as there are as many; at most MAX_EXAMPLES."""
        ids = self.group.ids() if self.group is not None else ()
        return ids[:number] or (self.example,)


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
        "unknown_costs": Count("pk", filter=Q(cost_status=UNKNOWN)),
    }
    texts = {"tags_text": Cast("tags", TextField()), "all_input": _all_input()}
    entries = _entries(start, end).order_by().annotate(**texts).annotate(tier=_tier(tiers), was_judged=_was_judged())
    rows = entries.values_list(*ALIKE).annotate(**sums)
    for row in rows.iterator():
        user_id, key_id, model, tags, provider_id, served_model, cache_status, currency = row[:8]
        usage, (longest, cost, example, unknown) = Usage.of_counts(row[11:17]), row[17:21]
        yield Traffic(
            user_id, key_id, model, _tags(tags), provider_id, served_model or "", cache_status == HIT, currency,
            row[10], usage, longest, cost, example, group=RequestGroup(entries, row[:10]) if row[10] > 1 else None,
            was_judged=bool(row[9]), unknown_costs=unknown,
        )  # fmt: skip


def requests_of(start: datetime, end: datetime, *, with_payload: bool = False) -> Iterator[Traffic]:
    """The same requests one by one, in the order in which they began."""
    names = (
        *COLUMNS,
        *BUCKETS,
        "cost",
        "pk",
        "cost_status",
        *RECORDED,
        *(("payload", "guardrails") if with_payload else ()),
    )
    # Tags and costs as text: there are few different ones, and each is read once.
    texts = {name: Cast(name, TextField()) for name in ("tags", "cost")}
    columns = [(texts | {"timestamp": Seconds("timestamp")}).get(name, name) for name in names]
    rows = _entries(start, end).order_by("timestamp", "id").values_list(*columns)
    for row in rows.iterator(chunk_size=CHUNK):
        user_id, key_id, model, tags, provider_id, served_model, cache_status, currency = row[:8]
        usage, cost, example = Usage.of_counts(row[8:14]), row[14], row[15]
        yield Traffic(
            user_id, key_id, model, _tags(tags), provider_id, served_model or "", cache_status == HIT, currency,
            1, usage, usage.all_input, None if cost is None else _money(cost), example, _recorded_decision(*row[17:]),
            was_judged=(row[19] or "") in JUDGED, unknown_costs=int(row[16] == UNKNOWN),
        )  # fmt: skip


def _recorded_decision(
    at: float, milliseconds: float | None, exception: str, outcome: str, rule_id: int, alias: str, *texts: Any
) -> RequestRecord:
    return RequestRecord(at, (milliseconds or 0) / 1000, exception, outcome, rule_id, alias or "", *texts)


@lru_cache(maxsize=10_000)
def _money(text: str) -> Decimal:
    return Decimal(text)


@lru_cache(maxsize=10_000)
def _tags(text: str) -> dict[str, str]:
    tags: dict[str, str] = loads(text)
    return tags


def _entries(start: datetime, end: datetime) -> "QuerySet[LogEntry]":
    return LogEntry.objects.filter(entry_type=EntryType.WORK_REQUEST).between(start=start, end=end)


def _all_input() -> Combinable:
    return sum((Coalesce(F(name), 0) for name in BUCKETS[1:3]), start=Coalesce(F(BUCKETS[0]), 0))


def _was_judged() -> Case:
    return Case(When(exception__in=sorted(JUDGED), then=Value(1)), default=Value(0), output_field=IntegerField())


def _tier(tiers: Collection[int]) -> Case | Value:
    if not tiers:
        return Value(0, IntegerField())
    steps = [When(all_input__gt=tier, then=Value(tier)) for tier in sorted(tiers, reverse=True)]
    return Case(*steps, default=Value(0), output_field=IntegerField())
