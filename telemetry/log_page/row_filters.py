"""Filters of the log in the console by the row itself, whatever it was called.

The log has indexes of the ids of users and providers, not of their names: so entries of a name are found as fast where
there are few or none of them.
"""

from django.db import models
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import TextFilter

from accounts.models import User
from gateway_project.database.ids import id_in
from keys.models import ApiKey
from providers.models import Model, Provider
from telemetry.querysets import LogEntryQuerySet

MAX_KEYS = 20  # of one name; those of a name that more have are found by the name


class NameFilter(TextFilter):
    """Entries of the row with a name; those that have the name itself if no row has it."""

    model: type[models.Model]
    field: str  # of a row, with its name
    id_column: str  # of an entry
    name_column: str

    def queryset(self, request: HttpRequest, entries: QuerySet) -> QuerySet:
        name = self.value()
        if not name:
            return entries
        row_id = self.model._default_manager.filter(**{self.field: name}).values_list("pk", flat=True).first()
        return entries.filter(**({self.id_column: row_id} if row_id else {self.name_column: name}))


class UserFilter(NameFilter):
    """Entries of a user."""

    title, parameter_name = "user", "user"
    model, field, id_column, name_column = User, "username", "user_id", "username"


class ProviderFilter(NameFilter):
    """Entries that a provider answered."""

    title, parameter_name = "provider", "provider"
    model, field, id_column, name_column = Provider, "name", "provider_id", "provider_name"


class KeyNameFilter(TextFilter):
    """Entries of requests with the keys of a name; those with the name if no key or many keys have it."""

    title, parameter_name = "key", "key"

    def queryset(self, request: HttpRequest, entries: QuerySet) -> QuerySet:
        name = self.value()
        if not name:
            return entries
        owners = dict(ApiKey.objects.filter(name=name).values_list("pk", "owner_id")[: MAX_KEYS + 1])
        if not 0 < len(owners) <= MAX_KEYS:
            return entries.filter(key_name=name)
        return entries.filter(user_id__in=set(owners.values()), key_id__in=owners)


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
