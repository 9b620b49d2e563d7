"""What people do with what is stored of the past: remove answers, and ask for usage with the names of everything."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.module_loading import import_string

from accounts.models import Group, User
from gateway_project.errors import ServiceUnavailable, ValidationError
from keys.models import ApiKey
from providers.models import Model, ModelPrice, Provider
from telemetry import statistics
from telemetry.export import usage_as_csv
from telemetry.models import CacheEntry
from telemetry.paging import MOST, PAGE_MS, TookTooLong, at_most
from telemetry.querysets import CacheEntryQuerySet
from telemetry.rollups import INSTANT, full_day, full_hour, hour_not_before
from telemetry.statistics import SHOWN, Page, Question

BATCH = 1000
USUAL_PERIOD = timedelta(days=29)  # and today
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
MOST_EXPORTED = 100_000
# The name that stands beside an id: its column, and where it is found.
NAMES = {
    "user_id": ("user_name", User, "username"),
    "group_id": ("group_name", Group, "name"),
    "key_id": ("key_name", ApiKey, "name"),
    "provider_id": ("provider_name", Provider, "name"),
}


@transaction.atomic
def purge(entries: CacheEntryQuerySet) -> int:
    """Remove stored responses from the list and from the cache that serves them; how many there were.

    Raises ServiceUnavailable, with nothing removed from the list, while the cache does not answer.
    """
    forget = import_string(settings.GATEWAY_FORGET)
    removed = 0
    for batch in _batches(entries):
        # In this order: what is stored anew in between gets its row when this transaction is over.
        CacheEntry.objects.filter(pk__in=batch).delete()
        if not forget(batch.values()):
            raise ServiceUnavailable("The cache does not answer: it would go on serving what is removed here.")
        removed += len(batch)
    return removed


def _batches(entries: CacheEntryQuerySet) -> Iterator[dict[int, str]]:
    """The hashes of all entries by id, some at a time."""
    rows, last = entries.order_by("pk").values_list("pk", "request_hash"), 0
    while batch := dict(rows.filter(pk__gt=last)[:BATCH]):
        yield batch
        last = max(batch)


def period(start: datetime | None, end: datetime | None) -> tuple[datetime, datetime]:
    """Full hours around these moments; unless told, the last 30 days with today. Raises ValidationError."""
    end = hour_not_before(min(end or timezone.now(), LATEST))
    if end < EARLIEST:
        raise ValidationError(f"to: must not be before {EARLIEST:%Y-%m-%d}.")
    start = full_hour(start) if start else full_day(end - INSTANT) - USUAL_PERIOD
    if not start < end:
        raise ValidationError("from: must be before to.")
    return start, end


def usage(question: Question, first: int, most: int) -> Page:
    """So many rows of the answer, with names; raises ValidationError for what takes too long."""
    if first >= MOST:  # a database takes no number of rows to skip that is beyond 64 bits
        return Page([], 0)
    try:
        with at_most(PAGE_MS):
            page = statistics.usage(question, first, most)
    except TookTooLong:
        raise ValidationError("This takes too long to add up: narrow it with from and to.") from None
    _name(page.rows)
    for place, row in enumerate(page.rows, start=first + 1):
        row["id"] = place
    return page


def exported_usage(question: Question) -> str:
    """The whole answer as comma-separated values; raises ValidationError for one that is too long."""
    page = usage(question, 0, MOST_EXPORTED)
    if page.total > MOST_EXPORTED:
        raise ValidationError(f"These are more than {MOST_EXPORTED} lines: narrow it with from and to.")
    asked = [statistics.DIMENSIONS[name] for name in question.by]
    named = [column for name in asked for column in (name, NAMES[name][0] if name in NAMES else "") if column]
    return usage_as_csv(page.rows, [*named, *SHOWN])


def unpriced(start: datetime, end: datetime) -> list[dict[str, Any]]:
    """The models with requests of unknown cost that have no price now, the most requests first."""
    rows = statistics.unknown_costs(start, end)
    if not rows:
        return []
    hosts = {row.pk: urlsplit(row.url).hostname or "" for row in Provider.objects.all()}
    book, now = ModelPrice.objects.not_over().book(), timezone.now().timestamp()
    _name(rows)
    without = [
        row
        for row in _by_priced_name(rows)
        if book.price(row["provider_id"], hosts.get(row["provider_id"], ""), row["model"], now) is None
    ]
    return [{"id": place, **row} for place, row in enumerate(without, start=1)]


def _by_priced_name(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows by the name that prices are for, the most requests first: `provider/model` is asked for as the model."""
    offered = set(Model.objects.values_list("name", flat=True))
    found: dict[tuple[int, str], dict[str, Any]] = {}
    for row in rows:
        model = row["model"]
        if model not in offered:
            model = model.removeprefix(f"{row['provider_name']}/")
        same = found.get((row["provider_id"], model))
        found[row["provider_id"], model] = (_together(same, row) if same else row) | {"model": model}
    return sorted(found.values(), key=lambda row: (-row["unknown_cost_requests"], row["provider_id"], row["model"]))


def _together(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    sums = ("unknown_cost_requests", "requests", "input_tokens", "output_tokens")
    last_hour = max(one["last_hour"], other["last_hour"])
    return one | {name: one[name] + other[name] for name in sums} | {"last_hour": last_hour}


def _name(rows: list[dict[str, Any]]) -> None:
    """Add the names of what the ids stand for, as far as it exists still."""
    for column, (name, model, field) in NAMES.items():
        if rows and column in rows[0]:
            found = dict(model.objects.filter(pk__in={row[column] for row in rows}).values_list("pk", field))
            for row in rows:
                row[name] = found.get(row[column])
