"""Filters of the log in the console by the results of guardrails."""

from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import DropdownFilter, TextFilter

from telemetry.guardrails.rollup import RESULTS
from telemetry.querysets import LogEntryQuerySet

RESULT = "guardrail_result"


class GuardrailFilter(TextFilter):
    """Entries of requests that a guardrail searched, by its name; with a result too, those of which it had this one."""

    title, parameter_name = "guardrail", "guardrail"

    def queryset(self, request: HttpRequest, entries: QuerySet) -> QuerySet:
        return _with_guardrail(entries, name=self.value(), result=self.value() and request.GET.get(RESULT))


class GuardrailResultFilter(DropdownFilter):
    """Entries of requests of which a guardrail had a result."""

    title, parameter_name = "result of a guardrail", RESULT

    def lookups(self, request: HttpRequest, model_admin: object) -> list[tuple[str, str]]:
        return [(result, result.capitalize()) for result in RESULTS]

    def queryset(self, request: HttpRequest, entries: QuerySet) -> QuerySet:
        return _with_guardrail(entries, result=self.value())


def _with_guardrail(entries: QuerySet, **members: str | None) -> QuerySet:
    assert isinstance(entries, LogEntryQuerySet)
    members_with_value = {name: value for name, value in members.items() if value}
    return entries.guarded_by(**members_with_value) if members_with_value else entries
