"""Pagination of very long lists: counted only as far as counting is cheap, and read through an index alone."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from django.core.cache import caches
from django.db import OperationalError, connection, transaction
from django.db.models import Model, QuerySet
from rest_framework.request import Request
from rest_framework.views import APIView

from gateway_project.api.paging import ApiPagination, PagePosition
from gateway_project.errors import ValidationError
from telemetry.querysets import EntryQuerySet

Row = TypeVar("Row", bound=Model)

MAX_COUNTED = 100_000
# How long the planner's estimate of a query is cached.
ESTIMATE_SECONDS = 60
MAX_OFFSET = 10**12  # beyond the end of any list
PAGE_MS = 10_000
# Queries with a higher estimated cost (in the planner's unit) may count for COUNT_MS only.
CHEAP_COST, COUNT_MS = 5_000, 30
# PostgreSQL compiles a query over a hundred partitions for 250 ms, and notices no timeout meanwhile.
_LIMITS = "SELECT set_config('statement_timeout', %s, true), set_config('jit', 'off', true)"
QUERY_CANCELED = "57014"  # SQLSTATE query_canceled: the statement timeout


class QueryTimeout(Exception):
    """A query was cancelled by its statement timeout."""


class EntryPagination(ApiPagination):
    """Pages of entries; above MAX_COUNTED the total is the planner's estimate, and `meta` says so."""

    def paginate_queryset(  # type: ignore[override]  # only entries have pages of this kind
        self, queryset: EntryQuerySet[Row], request: Request, view: APIView | None = None
    ) -> list[Row]:
        self.request = request
        self.page_length, self.page_index = self.size(request), self.number(request)
        first = (self.page_index - 1) * self.page_length
        try:
            rows = self._rows(queryset, first)
            if self.page_index > 1 and not rows:
                raise ValidationError("the list has fewer pages.", parameter=self.page_query_param)
            self.has_next = len(rows) > self.page_length
            self.total, self.estimated = self._total(queryset, first + len(rows))
        except QueryTimeout:
            raise ValidationError("The search takes too long. Choose a shorter period with start and end.") from None
        return rows[: self.page_length]

    def _rows(self, queryset: EntryQuerySet[Row], first: int) -> list[Row]:
        """The rows of the page, and one more if there is a next page."""
        if first >= MAX_OFFSET:
            return []
        with statement_timeout(PAGE_MS):
            return queryset.newest_first().slice(first, first + self.page_length + 1)

    def _total(self, queryset: EntryQuerySet, minimum: int) -> tuple[int, bool]:
        """The total and whether it is estimated; the last page needs no count."""
        if not self.has_next:
            return minimum, False
        number, estimated = count_or_estimate(queryset)
        return max(number, minimum), estimated

    def position(self) -> PagePosition:
        return PagePosition(self.page_index, self.page_length, self.total, self.has_next, self.estimated)


def count_or_estimate(entries: EntryQuerySet) -> tuple[int, bool]:
    """The number of entries, and whether it is an estimate."""
    if connection.vendor != "postgresql":
        return entries.count(), False
    expected, cost = _planner_estimate(entries.order_by())
    if expected > MAX_COUNTED:
        return expected, True
    try:
        with statement_timeout(PAGE_MS if cost < CHEAP_COST else COUNT_MS):
            number = entries.order_by()[: MAX_COUNTED + 1].count()
    except QueryTimeout:
        return expected, True
    return number, number > MAX_COUNTED


def is_cheap(rows: QuerySet) -> bool:
    """Whether PostgreSQL expects to have read the rows soon; True on SQLite."""
    return connection.vendor != "postgresql" or _plan(rows)[1] < CHEAP_COST


def _planner_estimate(entries: EntryQuerySet) -> tuple[int, float]:
    """The planner's estimate of rows and cost, cached: with a hundred partitions planning outlasts the page."""
    key = hashlib.sha256(f"{entries.query.sql_with_params()}".encode()).hexdigest()
    estimate = caches["process"].get(key)
    if estimate is None:
        estimate = _plan(entries)
        caches["process"].set(key, estimate, ESTIMATE_SECONDS)
    return estimate


def _plan(rows: QuerySet) -> tuple[int, float]:
    """The number of rows that the planner expects, and the cost, in its unit."""
    (plan,) = json.loads(rows.explain(format="json"))
    return plan["Plan"]["Plan Rows"], plan["Plan"]["Total Cost"]


@contextmanager
def statement_timeout(milliseconds: int) -> Iterator[None]:
    """A transaction with a statement timeout on PostgreSQL; raises QueryTimeout for a query that exceeds it."""
    try:
        with transaction.atomic():
            if connection.vendor == "postgresql":
                with connection.cursor() as cursor:
                    cursor.execute(_LIMITS, [f"{milliseconds}ms"])
            yield
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", "") == QUERY_CANCELED:
            raise QueryTimeout from error
        raise
