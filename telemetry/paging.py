"""Pages of lists that never end: counted as far as counting is cheap, and read through an index alone."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager

from django.core.cache import caches
from django.db import OperationalError, connection, transaction
from rest_framework.response import Response

from gateway_project.errors import ValidationError
from gateway_project.jsonapi.paging import ApiPagination, listing
from telemetry.querysets import EntryQuerySet

COUNTED = 100_000
# So long what the planner expected of a question is expected again.
ESTIMATE_SECONDS = 60
MOST = 10**12  # entries that no list has
PAGE_MS = 10_000
# What the planner takes for more work than this (in its own unit) is counted only as far as this time allows.
CHEAP, COUNT_MS = 5_000, 30
QUERY_CANCELED = "57014"  # PostgreSQL's word for a statement that took too long


class TookTooLong(Exception):
    """The database was told to stop looking."""


class EntryPagination(ApiPagination):
    """Pages of entries; above COUNTED the total is the planner's estimate, and meta says so."""

    def paginate_queryset(self, queryset: EntryQuerySet, request, view=None) -> list:
        self.request = request
        self.page_length, self.page_index = self.size(request), self.number(request)
        first = (self.page_index - 1) * self.page_length
        try:
            found = self._rows(queryset, first)
            if self.page_index > 1 and not found:
                raise ValidationError(f"{self.page_query_param}: there are not so many pages.")
            self.total, self.estimated = self._total(queryset, first + len(found), full=len(found) == self.page_length)
        except TookTooLong:
            raise ValidationError("This takes too long to find: narrow it with start and end.") from None
        return found

    def _rows(self, queryset: EntryQuerySet, first: int) -> list:
        if first >= MOST:
            return []
        with at_most(PAGE_MS):
            return queryset.newest_first().slice(first, first + self.page_length)

    def _total(self, queryset: EntryQuerySet, seen: int, *, full: bool) -> tuple[int, bool]:
        """A page that is not full is the last: nothing needs to be counted then."""
        if not full:
            return seen, False
        counted, estimated = total(queryset)
        return max(counted, seen), estimated

    def get_paginated_response(self, data) -> Response:
        response = listing(data, total=self.total, number=self.page_index, size=self.page_length)
        if self.estimated:
            response.data["meta"]["total_count_estimated"] = True
        return response


def total(entries: EntryQuerySet) -> tuple[int, bool]:
    """How many there are, and whether that is an estimate."""
    if connection.vendor != "postgresql":
        return entries.count(), False
    expected, cost = _expected(entries.order_by())
    if expected > COUNTED:
        return expected, True
    try:
        with at_most(PAGE_MS if cost < CHEAP else COUNT_MS):
            counted = entries.order_by()[: COUNTED + 1].count()
    except TookTooLong:
        return expected, True
    return counted, counted > COUNTED


def _expected(entries: EntryQuerySet) -> tuple[int, float]:
    """The planner's estimate of rows and costs; of a hundred partitions it takes longer than the page itself."""
    key = hashlib.sha256(f"{entries.query.sql_with_params()}".encode()).hexdigest()
    known = caches["process"].get(key)
    if known is None:
        (plan,) = json.loads(entries.explain(format="json"))
        known = plan["Plan"]["Plan Rows"], plan["Plan"]["Total Cost"]
        caches["process"].set(key, known, ESTIMATE_SECONDS)
    return known


@contextmanager
def at_most(milliseconds: int) -> Iterator[None]:
    """Inside, no statement takes longer on PostgreSQL; raises TookTooLong for one that would."""
    try:
        with transaction.atomic():
            if connection.vendor == "postgresql":
                with connection.cursor() as cursor:
                    cursor.execute("SELECT set_config('statement_timeout', %s, true)", [f"{milliseconds}ms"])
            yield
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", "") == QUERY_CANCELED:
            raise TookTooLong from error
        raise
