"""A filter of the log in the console by what the figures of errors and of denied requests count."""

from django.contrib.admin import ModelAdmin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import DropdownFilter

from telemetry.models import NO_ERRORS, REFUSED

ERRORS, DENIED = "errors", "denied"


class ResultFilter(DropdownFilter):
    """Requests that failed, or that were denied, whatever their exact outcome."""

    title, parameter_name = "result", "result"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
        return [(ERRORS, "Errors"), (DENIED, "Denied")]

    def queryset(self, request: HttpRequest, entries: QuerySet) -> QuerySet:
        if self.value() == ERRORS:
            return entries.exclude(outcome__in=NO_ERRORS)
        return entries.filter(outcome__in=REFUSED) if self.value() == DENIED else entries
