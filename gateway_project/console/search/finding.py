"""What a text finds: rows by their names and ids, pages of the side bar, and the forms for new rows."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.urls import reverse

from accounts.models import Group, User
from gateway_project.console.sidebar import NAVIGATION
from gateway_project.console.tables import ReadOnlyAdmin
from gateway_project.console.tabs import Badge
from keys.models import ApiKey
from keys.secrets import without_secrets
from providers.health.status import health_of
from providers.models import Model, Provider
from rules.aliases.models import Alias
from rules.models import Rule
from telemetry.models import LogEntry

OF_EACH_KIND = 5


class Source(NamedTuple):
    """Rows that can be searched: what one is called, the name of its page, and the columns that are looked at."""

    kind: str
    page: str
    rows: QuerySet[Any]
    columns: tuple[str, ...]


class Result(NamedTuple):
    kind: str
    title: str
    address: str
    badge: Badge | None = None


def _sources() -> tuple[Source, ...]:
    return (
        Source("User", "accounts_user", User.objects.live(), ("name_key", "display_name", "email")),
        Source("API key", "keys_apikey", ApiKey.objects.live().with_state(), ("name", "public_id", "former_public_id")),
        Source("Group", "accounts_group", Group.objects.all(), ("name",)),
        Source("Provider", "providers_provider", Provider.objects.all(), ("name", "url")),
        Source("Model", "providers_model", Model.objects.select_related("provider"), ("name", "upstream_name")),
        Source("Alias", "rules_alias", Alias.objects.all(), ("name", "description")),
        Source("Rule", "rules_rule", Rule.objects.all(), ("name", "description", "regex")),
    )


def find(text: str) -> Iterator[Result]:
    """What has the text in its name, at most OF_EACH_KIND of each kind; a whole key is found by its id."""
    searched = without_secrets(text).replace("\0", "")
    yield from _pages(searched.lower())
    for source in _sources():
        condition = Q()
        for column in source.columns:
            condition |= Q(**{f"{column}__icontains": searched})
        for row in source.rows.filter(condition).order_by("pk")[:OF_EACH_KIND]:
            address = reverse(f"admin:{source.page}_change", args=[row.pk])
            yield Result(source.kind, _title(row), address, _badge(row))
    for entry in LogEntry.objects.filter(correlation_id=searched).only("pk", "correlation_id")[:OF_EACH_KIND]:
        yield Result("Request", entry.correlation_id, reverse("admin:telemetry_logentry_change", args=[entry.pk]))


def _title(row: Any) -> str:
    if isinstance(row, ApiKey):
        return f"{row.name} ({row.public_id})"
    return f"{row.name} of {row.provider.name}" if isinstance(row, Model) else str(row)


def _badge(row: Any) -> Badge | None:
    """The state of a row of a kind that has states."""
    if isinstance(row, ApiKey):
        return row.badge()
    return health_of([row])[0].badge if isinstance(row, Provider) else None


def _pages(text: str) -> Iterator[Result]:
    """The pages of the side bar, and the forms for new rows."""
    for item in (item for section in NAVIGATION for item in section["items"]):
        if text in item["title"].lower():
            yield Result("Page", item["title"], str(item["link"]))
    for model, table in admin.site._registry.items():
        name = f"New {model._meta.verbose_name}"
        if text in name.lower() and not isinstance(table, ReadOnlyAdmin):
            yield Result("Action", name, reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_add"))
