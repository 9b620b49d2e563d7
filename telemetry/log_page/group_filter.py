"""A filter of the log in the console by a group, as the API's groupId."""

from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import TextFilter

from accounts.models import Group
from telemetry.querysets import LogEntryQuerySet


class GroupFilter(TextFilter):
    """Entries of requests whose user was in a group, or in one below, at that moment; by the group's whole name."""

    title, parameter_name = "group", "group"

    def queryset(self, request: HttpRequest, entries: QuerySet) -> QuerySet:
        if not self.value():
            return entries
        assert isinstance(entries, LogEntryQuerySet)
        return entries.of_groups(list(Group.objects.filter(name=self.value()).values_list("pk", flat=True)))
