"""A filter of the log in the console by what the figures of errors and of denied requests count."""

from typing import TypeVar

from django.contrib.admin import ModelAdmin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import DropdownFilter

from telemetry.models import NO_ERRORS, REFUSED

ERRORS, DENIED = "errors", "denied"
RESULTS = [(ERRORS, "Errors"), (DENIED, "Denied")]
Entries = TypeVar("Entries", bound=QuerySet)


def entries_with_result(entries: Entries, result: str | None) -> Entries:
    """Those of the entries that have one of RESULTS; all without one."""
    if result == ERRORS:
        return entries.exclude(outcome__in=NO_ERRORS)
    return entries.filter(outcome__in=REFUSED) if result == DENIED else entries


class ResultFilter(DropdownFilter):
    """Requests that failed, or that were denied, whatever their exact outcome."""

    title, parameter_name = "result", "result"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
        return RESULTS

    def queryset(self, request: HttpRequest, entries: QuerySet) -> QuerySet:
        return entries_with_result(entries, self.value())
