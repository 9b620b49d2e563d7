"""What a text finds: rows by their names and ids, pages, and the forms for new rows."""

import re
from collections.abc import Iterator
from enum import IntEnum
from functools import reduce
from operator import itemgetter, or_
from typing import Any, NamedTuple

from django.contrib import admin
from django.db.models import Case, Q, QuerySet, When
from django.urls import reverse

from accounts.models import Group, User
from gateway_project.console.display.badges import Badge
from gateway_project.console.display.paths import page_path, row_path
from gateway_project.console.period import with_query
from gateway_project.console.sidebar import NAVIGATION
from gateway_project.console.tables import ReadOnlyAdmin
from gateway_project.database.ids import id_in
from keys.models import ApiKey
from keys.secrets import without_secrets
from providers.console.presets import PRESETS
from providers.health.status import health_of
from providers.models import Model, Provider
from rules.aliases.models import Alias
from rules.models import Rule
from telemetry.models import LogEntry

OF_EACH_KIND = 5
# A key as the audit names it, or its number alone.
KEY_NUMBER = re.compile(r"(?:keys? )?([0-9]+)", re.IGNORECASE)
# Pages that the side bar does not list: the name of each, and its filters.
UNLISTED_PAGES: dict[str, tuple[str, dict[str, str]]] = {
    "Find problems of the rules": ("rule-lint", {}),
    "Deleted rules": ("deleted-rules", {}),
    "Run access tests": ("access-tests-run", {}),
    "Import access tests": ("access-tests-import", {}),
    "Usage of guardrails": ("guardrail-usage", {}),
    "Samples of guardrails": ("guardrail-samples", {}),
    "Features": ("accounts_feature_changelist", {}),
    "All access requests": ("accounts_accessrequest_changelist", {}),
    "Messages of the log": ("telemetry_logentry_changelist", {"tab": "messages"}),
    "Live log": ("log-tail", {}),
    "Verify the audit chain": ("audit-verify", {}),
}


class Rank(IntEnum):
    """How well a name matches: the best first."""

    EXACT = 0
    BEGINNING = 1
    CONTAINING = 2


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


def find_rows(text: str) -> list[Result]:
    """What has the text in its name: first what it names exactly, then what begins with it, at most OF_EACH_KIND rows.

    A whole key is found by its id, and any key by its number; so are keys that are deleted.
    """
    searched = without_secrets(text).replace("\0", "")
    rows = (ranked for source in _sources() for ranked in _rows(source, searched))
    ranked_results = [*_pages(searched.lower()), *_keys(searched), *rows, *_requests(searched)]
    return list(dict.fromkeys(result for _, result in sorted(ranked_results, key=itemgetter(0))))


def _rows(source: Source, text: str) -> Iterator[tuple[Rank, Result]]:
    """The rows of one kind that match best, those that are older first."""
    exact, beginning, containing = (
        reduce(or_, (Q(**{f"{column}__{lookup}": text}) for column in source.columns))
        for lookup in ("iexact", "istartswith", "icontains")
    )
    rank = Case(When(exact, then=Rank.EXACT), When(beginning, then=Rank.BEGINNING), default=Rank.CONTAINING)
    for row in source.rows.filter(containing).annotate(search_rank=rank).order_by("search_rank", "pk")[:OF_EACH_KIND]:
        address = row_path(source.page, row.pk)
        yield row.search_rank, Result(source.kind, _title(row), address, _badge(row))


def _keys(text: str) -> Iterator[tuple[Rank, Result]]:
    """The deleted key with this id, present or former, and the key with this number, deleted or not."""
    numbered = KEY_NUMBER.fullmatch(text)
    has_number = Q(pk=id_in(numbered[1]) if numbered else 0)
    deleted = Q(is_deleted=True) & (Q(public_id=text) | Q(former_public_id=text))
    for key in ApiKey.objects.with_state().filter(has_number | deleted).order_by("pk"):
        address = row_path("keys_apikey", key.pk)
        yield Rank.EXACT, Result("API key", _title(key), address, _badge(key))


def _requests(text: str) -> Iterator[tuple[Rank, Result]]:
    for entry in LogEntry.objects.filter(correlation_id=text).only("pk", "correlation_id")[:OF_EACH_KIND]:
        address = row_path("telemetry_logentry", entry.pk)
        yield Rank.EXACT, Result("Request", entry.correlation_id, address)


def _title(row: object) -> str:
    if isinstance(row, ApiKey):
        return f"{row.name} ({row.public_id})"
    return f"{row.name} of {row.provider.name}" if isinstance(row, Model) else str(row)


def _badge(row: object) -> Badge | None:
    """The state of a row of a kind that has states."""
    if isinstance(row, ApiKey):
        return row.badge()
    return health_of([row])[0].badge if isinstance(row, Provider) else None


def _pages(text: str) -> Iterator[tuple[Rank, Result]]:
    """The pages, and the forms for new rows; that of a provider for each preset."""
    for result, name in _named_pages():
        if text in name.lower():
            yield _rank(text, name.lower()), result


def _named_pages() -> Iterator[tuple[Result, str]]:
    """All of them, each with the name that is looked at."""
    for item in (item for section in NAVIGATION for item in section["items"]):
        yield Result("Page", item["title"], page_path(item["page"])), item["title"]
    for name, (page, filters) in UNLISTED_PAGES.items():
        yield Result("Page", name, with_query(page_path(page), filters)), name
    for model, table in admin.site._registry.items():
        name = f"New {model._meta.verbose_name}"
        if not isinstance(table, ReadOnlyAdmin):
            address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_add")
            yield Result("Action", name, address), name
    for name, preset in PRESETS.items():
        address = reverse("admin:providers_provider_add", query={"preset": name})
        yield Result("Action", f"New provider: {preset.title}", address), preset.title


def _rank(text: str, name: str) -> Rank:
    if text == name:
        return Rank.EXACT
    return Rank.BEGINNING if name.startswith(text) else Rank.CONTAINING
