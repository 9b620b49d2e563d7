"""Every change to prices."""

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from gateway_project.database.saving import save_or_refuse
from gateway_project.errors import Conflict, ValidationError
from providers.models import SUBJECT, ModelPrice, PriceSource, Provider

CLOCKS_DIFFER = timedelta(minutes=1)


@transaction.atomic
def set_price(*, valid_from: datetime | None = None, source: str = PriceSource.EDITED, **values: Any) -> ModelPrice:
    """Store a price for something that has none (default: from now on).

    Raises Conflict if there is a price of the same thing, and ValidationError.
    """
    now = timezone.now()
    values["host"], values["model"] = values.get("host", "").lower(), values["model"].lower()
    price = ModelPrice(valid_from=_not_past(valid_from, now), source=source, **values)
    save_or_refuse(price, conflict="A price for this exists already. Change that price.")
    return price


@transaction.atomic
def change_price(
    price: ModelPrice, *, valid_from: datetime | None = None, source: str = PriceSource.EDITED, **changes: Any
) -> ModelPrice:
    """The row of the new price; the old one ends where the new one begins (default: now).

    A price that has not begun is changed where it stands, and one that would stay what it is stays as it is. Raises
    Conflict for one that ends, and ValidationError.
    """
    now = timezone.now()
    price = _lock_price(price)
    begins = _not_past(None if valid_from == price.valid_from else valid_from, now)
    if price.valid_from >= now and valid_from not in (None, price.valid_from):
        reason = "the start of a future price cannot be changed. Delete the price and create a new one."
        raise Conflict(reason, field="valid_from")
    if all(getattr(price, name) == value for name, value in changes.items()):
        return price
    if price.valid_from < now:
        ModelPrice.objects.filter(pk=price.pk).update(valid_until=begins)
        price.pk, price.valid_from, price._state.adding = None, begins, True
    for name, value in {**changes, "source": source}.items():
        setattr(price, name, value)
    save_or_refuse(price, conflict="A price for this exists already. Change that price.")
    return price


@transaction.atomic
def end_price(price: ModelPrice) -> None:
    """From now on there is no such price; one that has not begun goes, and its predecessor stays.

    Raises Conflict for one that ends already.
    """
    now = timezone.now()
    price = _lock_price(price)
    if price.valid_from < now:
        ModelPrice.objects.filter(pk=price.pk).update(valid_until=now)
        return
    price.delete()
    subject = {name: getattr(price, name) for name in SUBJECT}
    ModelPrice.objects.filter(**subject, valid_until=price.valid_from).update(valid_until=None)


def _lock_price(price: ModelPrice) -> ModelPrice:
    """The row read again and held, so that two changes at once make two rows; raises Conflict if it ends."""
    if price.provider_id is not None:
        # Locked in the same order as when a provider is deleted with its prices, so that neither waits for the other.
        list(Provider.objects.select_for_update().filter(pk=price.provider_id))
    row = ModelPrice.objects.open().select_for_update().filter(pk=price.pk).first()
    if row is None:
        raise Conflict("This price has an end and cannot be changed. Change the price that follows it.")
    return row


def _not_past(moment: datetime | None, now: datetime) -> datetime:
    if moment is not None and moment < now - CLOCKS_DIFFER:
        raise ValidationError("must not be in the past: the cost of past requests does not change.", field="valid_from")
    return moment or now
