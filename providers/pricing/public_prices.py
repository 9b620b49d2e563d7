"""The table of public prices: the one that comes with the gateway, or one like it, loaded beside edited prices."""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import NamedTuple

from django.core.exceptions import ValidationError as FieldErrors
from django.db import IntegrityError, transaction
from django.utils import timezone

from gateway_project.api.audit import operator, record_command
from gateway_project.errors import Conflict, ValidationError
from gateway_project.json_types import JsonObject
from providers.models import AMOUNTS, ModelPrice, PriceSource

BUNDLED = Path(__file__).parent / "data" / "prices.json"
FIELDS = {
    "host": "host",
    "model": "model",
    "aboveInputTokens": "above_input_tokens",
    "input": "input",
    "output": "output",
    "cacheRead": "cache_read",
    "cacheWrite": "cache_write",
    "cacheWriteHour": "cache_write_hour",
    "reasoning": "reasoning",
    "request": "request",
}
FROM = "from"
MAX_AUDITED = 100  # changed prices in a row of the audit
NAMES = {field: name for name, field in FIELDS.items()}


class Synced(NamedTuple):
    """How many prices were new, changed, unchanged and kept; the changed ones as they were, and as they are."""

    counts: Counter[str]
    changes: list[tuple[ModelPrice, ModelPrice]]


def sync_prices(path: Path = BUNDLED) -> Synced:
    """Bring the table up to a file of prices; edited prices are kept.

    What the file does not name stays. Raises ValidationError naming the entry that is wrong, and Conflict.
    """
    source = PriceSource.BUNDLED if path == BUNDLED else PriceSource.SYNCED
    now = timezone.now()
    prices = _in_force(list(read_prices(path, source, now)), now)
    try:
        with transaction.atomic():
            return _store(prices, now)
    except IntegrityError:
        raise Conflict("Prices were changed at the same time. Load them again.") from None


@transaction.atomic
def load_prices(path: Path = BUNDLED) -> Counter[str]:
    """sync_prices() for commands; it logs how many prices have changed, if any have."""
    counts, changes = sync_prices(path)
    if counts["new"] or counts["changed"]:
        message = f"{operator()} loaded prices: {describe_counts(counts)}, by manage.py."
        before, after = ([_audit_values(pair[side]) for pair in changes[:MAX_AUDITED]] for side in (0, 1))
        record_command("sync", "prices", before={"prices": before}, after={**counts, "prices": after}, message=message)
    return counts


def _audit_values(price: ModelPrice) -> JsonObject:
    return {"currency": price.currency, **price_entry(price)}


def describe_counts(counts: Counter[str]) -> str:
    """What sync_prices() has counted, in words."""
    return ", ".join(f"{number} {what}" for what, number in counts.items()) + " (edited here)"


def read_prices(path: Path, source: str, now: datetime) -> Iterator[tuple[date, ModelPrice]]:
    """The prices in a file with the days from which they hold; raises ValidationError."""
    currency, listed = _table(path)
    for number, entry in enumerate(listed, start=1):
        try:
            yield _entry(entry, currency=currency, valid_from=now, source=source)
        except FieldErrors as refused:
            problems = {NAMES.get(field, field): texts for field, texts in refused.message_dict.items()}
            sentence = ValidationError.from_fields(problems).sentence
            raise ValidationError(f"{path}, price {number}: {sentence}") from None
        except (TypeError, ValueError, OverflowError) as error:
            raise ValidationError(f"{path}, price {number}: {error}.") from None


def _table(path: Path) -> tuple[str, list[object]]:
    """Currency and entries; raises ValidationError."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return document["currency"], list(document["prices"])
    except OSError as error:
        raise ValidationError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise ValidationError(f"{path} is not a table of prices: it is not JSON in UTF-8: {error}.") from None
    except (TypeError, KeyError, RecursionError):
        raise ValidationError(f'{path} is not a table of prices, {{"currency": "…", "prices": […]}}.') from None


def price_entry(price: ModelPrice, since: date | None = None) -> JsonObject:
    """A price as an entry of a file; what is as it would be without is left out."""
    values = {NAMES[field]: getattr(price, field) for field in NAMES}
    entry = {
        name: _as_plain(value)
        for name, value in values.items()
        if value not in (None, "", 0) or name in ("input", "output")
    }
    return entry | ({FROM: since.isoformat()} if since else {})


def _entry(entry: object, **options: object) -> tuple[date, ModelPrice]:
    if not isinstance(entry, dict):
        raise TypeError("must be an object with model, input and output")
    if unknown := entry.keys() - FIELDS.keys() - {FROM}:
        raise ValueError(f"unknown field {', '.join(sorted(unknown))}")
    values = {FIELDS[name]: value for name, value in entry.items() if name in FIELDS}
    amounts = {name: _amount(name, values[name]) for name in AMOUNTS if values.get(name) is not None}
    price = ModelPrice(**values | amounts, **options)
    price.clean_fields(exclude=["provider"])
    return date.fromisoformat(entry[FROM]) if FROM in entry else date.min, price


def _amount(field: str, value: object) -> Decimal:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        raise ValueError(f"{NAMES[field]}: must be a number or a text with one") from None


def _in_force(dated: list[tuple[date, ModelPrice]], now: datetime) -> dict[tuple, ModelPrice]:
    """The prices that hold today, one for each subject."""
    today = now.astimezone(UTC).date()
    current = [(since, price) for since, price in dated if since <= today]
    latest: dict[tuple, date] = {}
    for since, price in current:
        models = price.host, price.model
        latest[models] = max(since, latest.get(models, since))
    return {_subject(price): price for since, price in current if since == latest[price.host, price.model]}


def _store(prices: dict[tuple, ModelPrice], now: datetime) -> Synced:
    present = {_subject(row): row for row in ModelPrice.objects.open().filter(provider=None).select_for_update()}
    counts, new, changes = Counter(new=0, changed=0, unchanged=0, kept=0), [], []
    for subject, price in prices.items():
        what = _outcome_for(present.get(subject), price, now)
        counts[what] += 1
        if what in ("new", "changed"):
            new.append(price)
        if what == "changed":
            changes.append((present[subject], price))
    ModelPrice.objects.filter(pk__in=[before.pk for before, _ in changes]).update(valid_until=now)
    ModelPrice.objects.bulk_create(new, batch_size=500)
    return Synced(counts, changes)


def _outcome_for(row: ModelPrice | None, price: ModelPrice, now: datetime) -> str:
    if row is None:
        return "new"
    if row.source == PriceSource.EDITED or row.valid_from >= now:
        return "kept"
    return "unchanged" if row.price == price.price else "changed"


def _subject(price: ModelPrice) -> tuple:
    return price.host, price.model, price.above_input_tokens


def _as_plain(value: object) -> object:
    return f"{value.normalize():f}" if isinstance(value, Decimal) else value
