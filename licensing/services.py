"""Every change to licence and limits, the terms in force, and the statistics of active uses."""

import math
import time
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import TypedDict, Unpack

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from accounts.models import Group, User
from gateway_project.database.saving import lock_row, save_or_refuse
from gateway_project.env import MAX_AMOUNT, MAX_COST, WITHOUT_WINDOW
from gateway_project.errors import LicenceInvalid, ValidationError
from gateway_project.json_types import JsonObject
from keys.models import ApiKey
from licensing import terms
from licensing.models import SUBJECTS, DailyPeak, Licence, Limit, Measure, Unpriced, Window
from licensing.signing import Claims, KeyRefused, verify_licence
from licensing.statistics import Uses, count_active_uses, daily_peaks
from licensing.terms import Terms
from providers.models import Provider

COST_DECIMALS = 6
NOTE_INTERVAL = timedelta(hours=1)


class Subject(TypedDict, total=False):
    """The subject of a limit: one of these."""

    key: ApiKey
    user: User
    group: Group
    provider: Provider


def current_terms() -> Terms:
    """The terms in force; one query."""
    installed = Licence.objects.first()
    return terms_of(installed) if installed is not None else terms.community_terms(*_defaults())


def terms_of(installed: Licence) -> Terms:
    """The terms of an installed key, verified with the present public key: a changed one makes the key invalid."""
    latest_time = installed.latest_seen.timestamp() if installed.latest_seen else -math.inf
    try:
        return terms.licensed_terms(_verified_claims(installed.key, settings.GATEWAY_LICENCE_PUBLIC_KEY), latest_time)
    except KeyRefused as refused:
        return terms.refused_terms(str(refused), *_defaults())


def install_licence(text: str, *, installed_by_id: int | None = None) -> Terms:
    """Replace the licence key; one that does not verify changes nothing and raises ValidationError.

    A key that has expired already is installed all the same: its terms say why nothing is served.
    """
    key = text.strip()
    try:
        claims = _verified_claims(key, settings.GATEWAY_LICENCE_PUBLIC_KEY)
    except KeyRefused as refused:
        raise ValidationError(f"the key was not installed. {refused}", field="licence_key") from None
    values = {"key": key, "installed_at": timezone.now(), "installed_by_id": installed_by_id, "warned_on": None}
    with transaction.atomic():
        latest_issued = Licence.objects.values_list("latest_issued", flat=True).first()
        if claims.issued and (latest_issued is None or claims.issued > latest_issued):
            # The vendor's date is trusted: a newer licence resets a `latest_seen` of a clock that ran ahead.
            midnight = datetime.combine(claims.issued, datetime.min.time(), UTC)
            values |= {"latest_issued": claims.issued, "latest_seen": midnight}
        installed, _ = Licence.objects.update_or_create(id=Licence.ONLY_ID, defaults=values)
    return terms_of(installed)


def note_time() -> None:
    """Store the present time once an hour, by the database's clock, which all processes share."""
    long_ago = Q(latest_seen__isnull=True) | Q(latest_seen__lt=Now() - NOTE_INTERVAL)
    Licence.objects.filter(long_ago, id=Licence.ONLY_ID).update(latest_seen=Now())


def require_licence() -> None:
    """Raise LicenceInvalid while the installed licence is expired or invalid."""
    if problem := current_terms().problem(time.time()):
        raise LicenceInvalid(problem)


def claim_warning(day: date) -> bool:
    """Whether the caller is to warn of the licence's expiry on this day (UTC): True for one of all callers."""
    not_yet = Q(warned_on__isnull=True) | Q(warned_on__lt=day)
    return Licence.objects.filter(not_yet, id=Licence.ONLY_ID).update(warned_on=day) == 1


def note_peaks(uses: Uses, today: date) -> None:
    """Store the peak of each day; a stored peak never decreases, also with concurrent writers."""
    for day, peak in uses.peaks_with_current(today).items():
        if peak and not DailyPeak.objects.filter(date=day, peak_use__gte=peak).exists():
            DailyPeak.objects.get_or_create(date=day)
            DailyPeak.objects.filter(date=day, peak_use__lt=peak).update(peak_use=peak)


def statistics(days: int) -> JsonObject:
    """The usage statistics of the specification: {currentUses, peakDailyUses} of the last days up to today (UTC)."""
    today, uses = datetime.now(UTC).date(), count_active_uses()
    peaks = DailyPeak.objects.since(today - timedelta(days=days)).values_list("date", "peak_use")
    return {"currentUses": uses.current, "peakDailyUses": daily_peaks(peaks, uses, today, days)}


def _defaults() -> tuple[int, int]:
    return settings.GATEWAY_MAX_ACTIVE_USES, settings.GATEWAY_ACTIVE_USE_SECONDS


@lru_cache(maxsize=16)
def _verified_claims(key: str, public_key: str) -> Claims:
    return verify_licence(key, public_key)


class LimitOptions(TypedDict, total=False):
    """How a limit counts: whether it is strict, and what it does with work that has no price."""

    is_strict: bool
    unpriced: str
    unpriced_price: Decimal


class LimitValues(Subject, LimitOptions, total=False):
    """What a new limit may have besides measure, window and amount."""


@transaction.atomic
def set_limit(*, measure: str, amount: Decimal, window: str = "", **values: Unpack[LimitValues]) -> Limit:
    """Create a limit of a `key`, `user`, `group` or `provider`; one of concurrent requests has no window.

    Raises Conflict if the subject has a limit of this measure and window, and ValidationError.
    """
    window = window or (Window.NONE if measure in WITHOUT_WINDOW else "")
    if not window:
        raise ValidationError("is missing: send minute, day or month.", field="window")
    limit = Limit(measure=measure, window=window, amount=validated_amount(measure, amount), **values)
    _check_options(limit)
    subject = next((name for name in SUBJECTS if name in values), "subject")
    conflict = f"This {subject} already has a limit of this measure and window. Change that limit."
    save_or_refuse(limit, conflict=conflict)
    return limit


@transaction.atomic
def change_limit(limit: Limit, *, amount: Decimal | None = None, **options: Unpack[LimitOptions]) -> None:
    """Change the amount of a limit, where one is given (0 is unlimited), and how it counts.

    Raises NotFound and ValidationError.
    """
    lock_row(limit, Limit.objects.all())
    values: dict[str, object] = {**options}
    for name, value in options.items():
        setattr(limit, name, value)
    _check_options(limit)
    if amount is not None:
        values["amount"] = validated_amount(limit.measure, amount)
        if amount and not limit.amount:
            values["bounds_since"] = Now()
    if values:
        Limit.objects.filter(pk=limit.pk).update(**values)
        limit.refresh_from_db(fields=values)


def delete_limit(limit: Limit) -> None:
    """Delete a limit; the default applies to its subject from then on."""
    limit.delete()


def _check_options(limit: Limit) -> None:
    if limit.is_strict and limit.measure not in (Measure.TOKENS, Measure.COST):
        raise ValidationError("only limits of tokens and of cost can be strict.", field="is_strict")
    if limit.unpriced == Unpriced.COUNT and not limit.unpriced_price:
        raise ValidationError(
            "is missing: send the amount that a million tokens without a price count.", field="unpriced_price"
        )
    if limit.unpriced_price != round(limit.unpriced_price, COST_DECIMALS) or limit.unpriced_price > MAX_COST:
        raise ValidationError(f"is at most {MAX_COST}, with {COST_DECIMALS} decimals.", field="unpriced_price")


def validated_amount(measure: str, amount: Decimal) -> Decimal:
    """The amount, if it is valid for the measure; raises ValidationError."""
    maximum = MAX_COST if measure == Measure.COST else MAX_AMOUNT
    if not 0 <= amount <= maximum:
        raise ValidationError(f"{measure} must be from 0 (unlimited) to {maximum}.", field="amount")
    if measure != Measure.COST and amount != int(amount):
        raise ValidationError(f"{measure} are whole numbers.", field="amount")
    if amount != round(amount, COST_DECIMALS):
        raise ValidationError(f"has at most {COST_DECIMALS} decimals.", field="amount")
    return amount
