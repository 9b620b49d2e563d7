"""Filters of the log in the console that the tabs of keys and models use: by the row itself, whatever it was called."""

from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import TextFilter

from gateway_project.database.ids import id_in
from keys.models import ApiKey
from providers.models import Model
from telemetry.querysets import LogEntryQuerySet


class KeyIdFilter(TextFilter):
    """Entries of requests with a key, by its number in its address; a text that is no number selects none."""

    title, parameter_name = "key id", "key_id"

    def queryset(self, request: HttpRequest, entries: QuerySet) -> QuerySet:
        text = self.value()
        if not text:
            return entries
        assert isinstance(entries, LogEntryQuerySet)
        key_id = id_in(text)
        # There is an index of users, not of keys, and a key never gets another owner.
        owner_id = ApiKey.objects.filter(pk=key_id).values_list("owner_id", flat=True).first()
        return entries.of_user(owner_id).filter(key_id=key_id) if owner_id else entries.none()


class ServedModelFilter(TextFilter):
    """Entries of requests that a model served, also under an alias, and of those for it that nothing served."""

    title, parameter_name = "served model", "served"

    def queryset(self, request: HttpRequest, entries: QuerySet) -> QuerySet:
        name = self.value()
        if not name:
            return entries
        assert isinstance(entries, LogEntryQuerySet)
        providers = Model.objects.filter(name=name).values_list("provider__name", flat=True)
        return entries.served_by(name, [name, *(f"{provider}/{name}" for provider in providers)])
