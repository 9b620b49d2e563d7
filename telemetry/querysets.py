"""Every question to the database about what happened."""

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import reduce
from itertools import chain
from operator import or_
from typing import Any, ClassVar, Self, TypeVar

from django.db import connection, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Q
from django.db.models.sql.compiler import SQLCompiler
from django.utils import timezone

from gateway_project.database.names import upper_case
from gateway_project.errors import AuthenticationFailed

# The newest entries are looked for in the last so many days, then in the whole log.
RECENT_DAYS = (1, 16)
# The last day may have so many times fewer entries than other days.
QUIET = 4

# How the payload of a message begins that the audit wrote, which has an entry of its own for each.
AUDIT_PAYLOAD = '{"resource":'
# What retention leaves of such a payload: the message is still known as the audit's.
ERASED_AUDIT_PAYLOAD = '{"resource":null}'

# The queryset's model, which cannot be imported here: models.py imports this module.
Row = TypeVar("Row", bound=models.Model)
Values = TypeVar("Values")


class EntryQuerySet(models.QuerySet[Row]):
    """What log and cache entries have in common: a user and a time."""

    time_field: ClassVar[str]  # the name of the field with the time

    def newest_first(self) -> Self:
        """The order of every list of entries, as their indexes have it."""
        return self.order_by(f"-{self.time_field}", "-id")

    def of_user(self, user_id: int) -> Self:
        """Entries of one user."""
        return self.filter(user_id=user_id)

    def of_groups(self, group_ids: Collection[int]) -> Self:
        """Entries of requests whose user was in one of these groups, or in one below, at that moment."""
        return self.filter(reduce(or_, (_in_list("group_ids", number) for number in group_ids), Q(pk__in=())))

    def between(self, start: datetime | None = None, end: datetime | None = None) -> Self:
        """Entries from start on and before end; either may be left open."""
        after = Q(**{f"{self.time_field}__gte": start}) if start else Q()
        return self.filter(after & (Q(**{f"{self.time_field}__lt": end}) if end else Q()))

    def slice(self, first: int, end: int) -> list[Row]:
        """The rows of the list from `first` to before `end`; the index alone is read for those before them."""
        keys = newest_of(self.values_list("pk", self.time_field), first, end)
        times = [moment for _, moment in keys]
        within = {f"{self.time_field}__range": (min(times), max(times))} if times else {}
        rows = self.order_by().filter(**within).in_bulk([row_id for row_id, _ in keys])
        return [rows[row_id] for row_id, _ in keys if row_id in rows]

    def newest(self, first: int, end: int, until: datetime | None = None) -> list[Row]:
        """The rows of the list from `first` to before `end`; `until` is the time of the newest, if known."""
        return list(self[first:end])


class LogEntryQuerySet(EntryQuerySet[Row]):
    time_field = "timestamp"
    is_read_in_order = False  # whether newest() has PostgreSQL read the entries in their order until there are enough

    def _clone(self) -> Self:
        clone = super()._clone()  # type: ignore[misc]  # the stubs leave this method of Django's out
        clone.is_read_in_order = self.is_read_in_order
        return clone

    def newest(self, first: int, end: int, until: datetime | None = None) -> list[Row]:
        """The same, looking at RECENT_DAYS first: so PostgreSQL plans and opens a few partitions, not all of them.

        Where the last day has so few rows that sixteen days hardly have enough, the whole log is looked at next.
        """
        in_order, rows_a_day = self.query.order_by[:1] == (f"-{self.time_field}",), math.inf
        for days in self._recent_days() if in_order else ():
            if days * rows_a_day * QUIET < end:
                break
            with self._plan():
                rows = list(self.between(start=(until or timezone.now()) - timedelta(days=days))[first:end])
            if len(rows) == end - first:
                return rows
            if rows or not first:
                rows_a_day = (first + len(rows)) / days
        return super().newest(first, end)

    def oldest_id(self, since: datetime) -> int | None:
        """The id of the oldest entry, none of which is from before `since`; looking at the days after it first."""
        parts = [self.between(end=since + timedelta(days=number)) for number in self._recent_days()]
        ids = (part.order_by(self.time_field, "id").values_list("pk", flat=True).first() for part in (*parts, self))
        return next((number for number in ids if number is not None), None)

    def _recent_days(self) -> Sequence[int]:
        """The days to look at first."""
        return RECENT_DAYS if connection.vendor == "postgresql" else ()

    @contextmanager
    def _plan(self) -> Iterator[None]:
        """Have PostgreSQL plan as is_read_in_order says: by the index of times, unless another filter is rarer."""
        if not self.is_read_in_order:
            yield
            return
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
            yield
            cursor.execute("SET LOCAL enable_seqscan = on")

    def messages(self) -> Self:
        """Messages that stand nowhere else: neither the audit's, nor those of requests that failed."""
        of_requests = ~Q(exception="") & ~Q(correlation_id="")
        kinds = self.filter(entry_type__in=("Message", "Not Set"))
        return kinds.exclude(of_requests).exclude(payload__startswith=AUDIT_PAYLOAD)

    def without_causes(self) -> Self:
        """All but messages with the cause of an error, which may name internal addresses: they belong to nobody.

        So do errors of callers who are unknown; of these only refused credentials have certainly no cause.
        """
        of_nobody = Q(entry_type="Message", user_id=None) & ~Q(correlation_id="")
        return self.exclude(of_nobody & ~Q(exception__in=("", AuthenticationFailed.__name__)))

    def asking(self, provider_id: int) -> Self:
        """Entries of requests that this provider answered, or was asked for before another one."""
        return self.filter(Q(provider_id=provider_id) | has_former_provider(provider_id))

    def tagged(self, name: str, value: str | None = None) -> Self:
        """Entries with this tag, or with any value of the name."""
        if value is None:
            return self.filter(tags__has_key=name)
        if not connection.features.supports_json_field_contains:
            return self.filter(HasElement("tags", "element.key = %s AND element.value = %s", name, value))
        # The exclusion lets it use the index of tagged entries.
        return self.filter(tags__contains={name: value}).exclude(tags={})

    def served_by(self, model: str, names: Collection[str]) -> Self:
        """Entries of requests that a model served, or for one of its names if it is not known what served them."""
        is_unserved = Q(served_model__isnull=True) | Q(served_model="")
        return self.filter(Q(served_model=model) | (is_unserved & Q(model__in=names)))

    def guarded_by(self, **members: int | str) -> Self:
        """Entries of requests that one guardrail with all of these members has searched: id, name or result."""
        return self.filter(_guardrail_condition(members))

    def containing(self, text: str) -> Self:
        """Entries with this text in the model, the correlation id, the user's name, the message or the payload."""
        names = Q(model__icontains=text) | Q(correlation_id__icontains=text) | Q(username__icontains=text)
        matches = self.filter(names | Q(message__icontains=text) | in_json("payload", text))
        # PostgreSQL assumes that any text is rare: it would read all entries of the last day and sort what it finds.
        matches.is_read_in_order = True
        return matches


class CacheEntryQuerySet(EntryQuerySet[Row]):
    time_field = "created_at"

    def containing(self, text: str) -> Self:
        """Entries with this text in the model or the response."""
        return self.filter(Q(model__icontains=text) | in_json("response", text))


class GuardrailSampleQuerySet(EntryQuerySet[Row]):
    time_field = "timestamp"

    def readable(self, at: datetime) -> Self:
        """Samples that have not expired at a moment."""
        return self.filter(expires_at__gt=at)


def newest_of(rows: models.QuerySet[Any, Values], first: int, end: int, until: datetime | None = None) -> list[Values]:
    """newest() of an EntryQuerySet, for one of values() or values_list(), whose type is that of any queryset."""
    assert isinstance(rows, EntryQuerySet)
    return rows.newest(first, end, until=until)


class HasElement(models.Func):
    """Whether an element of a column's JSON document meets a condition: SQLite's own way to ask that.

    The expressions are the column, and the values for the placeholders of the condition.
    """

    output_field = models.BooleanField()

    def __init__(self, column: str, condition: str, *values: int | str) -> None:
        super().__init__(column, *map(models.Value, values), condition=condition)

    def as_sql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, *options: Any, **context: Any
    ) -> tuple[str, list[Any]]:
        (column, _), *values = [compiler.compile(one) for one in self.get_source_expressions()]
        condition = f"EXISTS (SELECT 1 FROM json_each({column}) AS element WHERE {self.extra['condition']})"
        return condition, [parameter for _, parameters in values for parameter in parameters]


def has_former_provider(provider_id: int) -> Q:
    """Entries of requests for which this provider was asked, but another one in the end."""
    # The condition of the index, which is as small as failures are rare.
    return Q(asked_before__isnull=False) & _in_list("asked_before", provider_id)


def _in_list(field: str, number: int) -> Q:
    """Entries whose field, a JSON array, has the number among its elements."""
    if connection.features.supports_json_field_contains:
        return Q(**{f"{field}__contains": [number]})
    return Q(HasElement(field, "element.value = %s", number))


def _guardrail_condition(members: Mapping[str, int | str]) -> Q:
    """Entries with a guardrail that has all of these members."""
    contains = Q(guardrails__contains=[dict(members)])
    if not connection.features.supports_json_field_contains:
        condition = " AND ".join("json_extract(element.value, %s) = %s" for _ in members)
        pairs = [(f"$.{name}", value) for name, value in members.items()]
        contains = Q(HasElement("guardrails", condition, *chain.from_iterable(pairs)))
    return Q(guardrails__isnull=False) & contains


def in_json(field: str, text: str) -> Q:
    """Entries whose field, a JSON text from any writer, contains the text as it is or escaped in one of its strings.

    All writers escape quotes, backslashes and line breaks; some escape non-ASCII characters too. As an escape hides a
    letter's case, the text is looked for in lower and upper case as well.
    """
    cases = [text] if text.isascii() else [text, text.lower(), upper_case(text)]
    forms = [text, json.dumps(text, ensure_ascii=False)[1:-1], *(json.dumps(case)[1:-1] for case in cases)]
    return reduce(or_, (Q(**{f"{field}__icontains": form}) for form in dict.fromkeys(forms)))
