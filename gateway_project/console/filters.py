"""Filters that several tables have."""

from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import TextFilter


def equals(title: str, name: str, lookup: str) -> type[TextFilter]:
    """A filter by one text."""

    class Equals(TextFilter):
        parameter_name = name

        def queryset(self, request: HttpRequest, entries: QuerySet) -> QuerySet:
            return entries.filter(**{lookup: self.value()}) if self.value() else entries

    Equals.title = title
    return Equals
