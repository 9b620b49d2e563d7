"""Purging cached answers, and usage with the names of users, groups, keys and providers."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from accounts.models import Group, User
from gateway_project.errors import ServiceUnavailable, ValidationError
from gateway_project.json_types import JsonObject
from keys.models import ApiKey
from providers.health.status import health_of
from providers.models import Model, ModelPrice, Provider
from telemetry.export import usage_as_csv
from telemetry.journal.hooks import forget_cached_answers, ship_everything
from telemetry.models import CacheEntry
from telemetry.paging import MAX_OFFSET, PAGE_MS, QueryTimeout, statement_timeout
from telemetry.usage import statistics
from telemetry.usage.rollups import MICROSECOND, ceil_hour, floor_day, floor_hour
from telemetry.usage.statistics import RESULT_COLUMNS, Page, UsageQuery

BATCH = 1000
DEFAULT_PERIOD = timedelta(days=29)  # and today
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
MAX_EXPORTED_ROWS = 100_000
# For each id column: the column of the name beside it, and the model and field of the name.
NAMES = {
    "user_id": ("user_name", User, "username"),
    "group_id": ("group_name", Group, "name"),
    "key_id": ("key_name", ApiKey, "name"),
    "provider_id": ("provider_name", Provider, "name"),
}


def complete_cache_list() -> None:
    """Wait until the list has every answer that was cached before this call; not inside a transaction.

    Raises ServiceUnavailable if a process has not stored its part in time.
    """
    if not ship_everything():
        raise ServiceUnavailable(
            "Nothing was removed, because not every process has listed its cached answers yet. Try again."
        )


@transaction.atomic
def purge_entries(entries: QuerySet[CacheEntry]) -> int:
    """Remove cached answers from the list and from the cache that serves them; returns their number.

    Raises ServiceUnavailable, with nothing removed from the list, while the cache does not answer.
    """
    removed = 0
    for batch in _batches(entries):
        # Rows first: an answer stored again in between gets its row after this transaction.
        CacheEntry.objects.filter(pk__in=batch).delete()
        if not forget_cached_answers(batch.values()):
            raise ServiceUnavailable(
                "The list is unchanged: the cache does not answer and would continue to serve the entries. Try again."
            )
        removed += len(batch)
    return removed


def _batches(entries: QuerySet[CacheEntry]) -> Iterator[dict[int, str]]:
    """The hashes of all entries by id, in batches."""
    rows, last = entries.order_by("pk").values_list("pk", "request_hash"), 0
    while batch := dict(rows.filter(pk__gt=last)[:BATCH]):
        yield batch
        last = max(batch)


def period(start: datetime | None, end: datetime | None) -> tuple[datetime, datetime]:
    """Full hours around these moments; by default the last 30 days, today included. Raises ValidationError."""
    end = ceil_hour(min(end or timezone.now(), LATEST))
    if end < EARLIEST:
        raise ValidationError(f"must not be before {EARLIEST:%Y-%m-%d}.", parameter="to")
    start = floor_hour(start) if start else floor_day(end - MICROSECOND) - DEFAULT_PERIOD
    if not start < end:
        raise ValidationError("must be before the end.", parameter="from")
    return start, end


def usage(query: UsageQuery, first: int, most: int) -> Page:
    """At most `most` rows of the answer from `first` on, with names; raises ValidationError after PAGE_MS."""
    if first >= MAX_OFFSET:  # databases refuse an OFFSET beyond 64 bits
        return Page([], 0)
    try:
        with statement_timeout(PAGE_MS):
            page = statistics.usage(query, first, most)
    except QueryTimeout:
        raise ValidationError("The query takes too long. Choose a shorter period.") from None
    _add_names(page.rows)
    for place, row in enumerate(page.rows, start=first + 1):
        row["id"] = place
    return page


def add_health(rows: list[JsonObject]) -> None:
    """Add to rows of providers how each is now, in a word and as a badge; None for those that were deleted."""
    if not rows or "provider_id" not in rows[0]:
        return
    providers = list(Provider.objects.filter(pk__in={row["provider_id"] for row in rows}))
    healths = zip(providers, health_of(providers), strict=True)
    states = {provider.pk: (health.state.value, health.badge) for provider, health in healths}
    for row in rows:
        row["health"], row["health_badge"] = states.get(row["provider_id"], (None, None))


def usage_csv(query: UsageQuery) -> str:
    """The whole answer as CSV; raises ValidationError for more than MAX_EXPORTED_ROWS."""
    page = usage(query, 0, MAX_EXPORTED_ROWS)
    if page.total > MAX_EXPORTED_ROWS:
        raise ValidationError(
            f"There are more than {MAX_EXPORTED_ROWS} lines. Choose a shorter period with from and to."
        )
    dimensions = [statistics.DIMENSIONS[name] for name in query.by]
    columns = [column for name in dimensions for column in (name, NAMES[name][0] if name in NAMES else "") if column]
    return usage_as_csv(page.rows, [*columns, *RESULT_COLUMNS])


def list_models_without_price(start: datetime, end: datetime) -> list[JsonObject]:
    """The models with requests of unknown cost that have no price now, the most requests first."""
    rows = statistics.unknown_costs(start, end)
    if not rows:
        return []
    hosts = {row.pk: urlsplit(row.url).hostname or "" for row in Provider.objects.all()}
    book, now = ModelPrice.objects.not_over().book(), timezone.now().timestamp()
    upstream_names = Model.objects.upstream_names()
    _add_names(rows)

    def has_price(row: JsonObject) -> bool:
        provider_id, model = row["provider_id"], row["model"]
        upstream = upstream_names.get((provider_id, model), "")
        return book.price(provider_id, hosts.get(provider_id, ""), model, now, upstream) is not None

    without = [row for row in _by_priced_name(rows) if not has_price(row)]
    return [{"id": place, **row} for place, row in enumerate(without, start=1)]


def _by_priced_name(rows: Iterable[JsonObject]) -> list[JsonObject]:
    """The rows by the model name that prices use, most requests first: `provider/model` counts as the model."""
    offered = set(Model.objects.values_list("name", flat=True))
    totals: dict[tuple[int, str], JsonObject] = {}
    for row in rows:
        model = row["model"]
        if model not in offered:
            model = model.removeprefix(f"{row['provider_name']}/")
        same = totals.get((row["provider_id"], model))
        totals[row["provider_id"], model] = (_merge_rows(same, row) if same else row) | {"model": model}
    return sorted(totals.values(), key=lambda row: (-row["unknown_cost_requests"], row["provider_id"], row["model"]))


def _merge_rows(one: JsonObject, other: JsonObject) -> JsonObject:
    sums = ("unknown_cost_requests", "requests", "input_tokens", "output_tokens")
    last_hour = max(one["last_hour"], other["last_hour"])
    return one | {name: one[name] + other[name] for name in sums} | {"last_hour": last_hour}


def _add_names(rows: list[JsonObject]) -> None:
    """Add the names for the ids, None for rows that were deleted."""
    for column, (name, model, field) in NAMES.items():
        if rows and column in rows[0]:
            names = dict(model._default_manager.filter(pk__in={row[column] for row in rows}).values_list("pk", field))
            for row in rows:
                row[name] = names.get(row[column])
