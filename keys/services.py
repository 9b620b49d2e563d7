"""Every change to API keys."""

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import EllipsisType
from typing import TypedDict, Unpack

from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import Q
from django.utils import timezone

from accounts.models import Feature, User
from gateway_project.database.guarding import Access, guarded_change
from gateway_project.database.saving import lock_id, lock_row_for_change, save_or_refuse
from gateway_project.errors import Conflict, PermissionDenied, ValidationError
from keys import secrets
from keys.models import ApiKey
from keys.restrictions import read_models, read_networks, read_tags
from providers.models import Provider

NOTE_INTERVAL = timedelta(minutes=1)
OVERLAP = timedelta(hours=24)

log = logging.getLogger("gateway.management")


# The changes that decide what the key may be used for.
WATCHED = frozenset({"new_name", "permissions", "provider", "models"})


@dataclass(frozen=True)
class IssuedKey:
    """A stored key with the only copy of its text, which is shown once and never logged."""

    key: ApiKey
    text: str = field(repr=False)


class KeyOptions(TypedDict, total=False):
    """What narrows a key; an empty value restricts nothing."""

    models: list[str]
    networks: list[str]
    not_before: datetime | None
    tags: dict[str, str]
    max_tokens_per_request: int | None
    content_logging: str


class KeyChanges(KeyOptions, total=False):
    """The parameters of update_key(), besides those that end or lock the key."""

    new_name: str | None
    expiry: datetime | EllipsisType | None
    permissions: Collection[str] | None
    provider: Provider | EllipsisType | None


@transaction.atomic
def issue_key(
    *,
    owner: User,
    name: str,
    permissions: Collection[str] = ("work",),
    expiry: datetime | EllipsisType | None = ...,
    provider: Provider | None = None,
    created_by: User | None = None,
    **options: Unpack[KeyOptions],
) -> IssuedKey:
    """Create a key and return the only copy of its text; a key with the expiry None never expires.

    By default it expires after default_lifetime(). Raises PermissionDenied if the owner lacks one of the permissions,
    Conflict if the owner has a live key of this name or GATEWAY_MAX_KEYS_PER_USER of them, and ValidationError, also
    for a deleted owner and for an expiry in the past or beyond GATEWAY_KEY_MAX_DAYS.
    """
    now = timezone.now()
    if owner.is_deleted:
        raise ValidationError("is deleted and cannot get keys.", field="owner")
    _refuse_too_many(owner, now)
    expiry = now + default_lifetime() if expiry is ... else expiry
    _check_expiry(expiry, now)
    new_key = secrets.generate_key()
    key = ApiKey(
        owner=owner,
        name=name,
        permissions=_granted_permissions(owner, permissions),
        expiry=expiry,
        provider=provider,
        created_by=created_by,
        public_id=new_key.public_id,
        digest=new_key.digest,
    )
    _apply_options(key, options)
    _check_period(key, "not_before")
    save_or_refuse(key, conflict=f"{owner.username!r} has a key named {name!r} already.")
    return IssuedKey(key, new_key.text)


def _refuse_too_many(owner: User, now: datetime) -> None:
    """Raise Conflict if the owner has as many keys as allowed; expired ones do not count."""
    if most := settings.GATEWAY_MAX_KEYS_PER_USER:
        lock_id(User.objects.all(), owner.pk)  # a second new key of this owner waits for the first one
        if ApiKey.objects.live().of(owner).unexpired(now).count() >= most:
            raise Conflict(f"{owner.username!r} has {most:,} keys, the maximum. Delete some first.")


def default_lifetime() -> timedelta:
    """The lifetime of a key without an explicit expiry."""
    days, most = settings.GATEWAY_KEY_DAYS, settings.GATEWAY_KEY_MAX_DAYS
    return timedelta(days=min(days, most) if most else days)


def _latest_expiry(created_at: datetime) -> datetime | None:
    """The latest expiry of a secret that was made at a moment; None if there is no bound."""
    most = settings.GATEWAY_KEY_MAX_DAYS
    return created_at + timedelta(days=most) if most else None


def _check_expiry(expiry: datetime | None, now: datetime, *, created_at: datetime | None = None) -> None:
    """Raise ValidationError for an expiry in the past, or beyond the bound of a secret (default: a new one)."""
    if expiry is not None and expiry <= now:
        raise ValidationError("must be in the future.", field="expiry")
    latest = _latest_expiry(created_at or now)
    if latest is not None and (expiry is None or expiry > latest):
        begin = "from now" if created_at is None else "of the creation or the last rotation of the key"
        days = settings.GATEWAY_KEY_MAX_DAYS
        raise ValidationError(f"must be within {days} days {begin} (GATEWAY_KEY_MAX_DAYS).", field="expiry")


def _apply_options(key: ApiKey, options: KeyOptions) -> None:
    """Set what narrows the key. Raises ValidationError."""
    readers = {"models": read_models, "networks": read_networks, "tags": read_tags}
    for name, value in options.items():
        checked = readers[name](value, name) if name in readers else value
        setattr(key, "model_patterns" if name == "models" else name, checked)


def _check_period(key: ApiKey, field: str) -> None:
    """Raise ValidationError, which names the field, if the key would end before it begins."""
    if key.not_before is not None and key.expiry is not None and key.not_before >= key.expiry:
        problem = "must be before the expiry." if field == "not_before" else "must be after notBefore."
        raise ValidationError(problem, field=field)


def update_key(key: ApiKey, *, expire: bool = False, locked: bool | None = None, **changes: Unpack[KeyChanges]) -> None:
    """Store the given changes; a provider of None unbinds the key from its provider.

    Access tests never keep a key in use: they do not watch a change that ends or locks it. Raises Conflict if the owner
    has another live key of the name and for another expiry of an expired key, NotFound, PermissionDenied for
    permissions that the owner lacks, and ValidationError.
    """
    is_watched = not expire and not locked and not WATCHED.isdisjoint(changes)
    with guarded_change(Access.KEYS) if is_watched else transaction.atomic():
        _update_key(key, expire=expire, locked=locked, **changes)


def _update_key(
    key: ApiKey,
    *,
    new_name: str | None = None,
    expire: bool = False,
    expiry: datetime | EllipsisType | None = ...,
    permissions: Collection[str] | None = None,
    provider: Provider | EllipsisType | None = ...,
    locked: bool | None = None,
    **options: Unpack[KeyOptions],
) -> None:
    lock_row_for_change(key, ApiKey.objects.live())
    now = timezone.now()
    if new_name is not None:
        key.name = new_name
    if expiry is not ...:
        _change_expiry(key, expiry, now)
    if expire and not key.is_expired(now):
        key.expiry = now
    if permissions is not None and list(permissions) != key.permissions:
        key.permissions = _granted_permissions(key.owner, permissions)
    if provider is not ...:
        key.provider = provider
    if locked is not None:
        key.locked_time = (key.locked_time or now) if locked else None
    _apply_options(key, options)
    if "not_before" in options or expiry is not ...:
        _check_period(key, "not_before" if "not_before" in options else "expiry")
    save_or_refuse(key, conflict=f"{key.owner.username!r} has a key named {key.name!r} already.")


def _change_expiry(key: ApiKey, expiry: datetime | None, now: datetime) -> None:
    if expiry == key.expiry:
        return
    if key.is_expired(now):
        raise Conflict("this key has expired. Issue a new one.", field="expiry")
    is_earlier = expiry is not None and (key.expiry is None or expiry < key.expiry)
    # A key that is older than the bound can still be shortened.
    _check_expiry(expiry, now, created_at=None if is_earlier else key.secret_created_at)
    key.expiry = expiry


def note_use(key: ApiKey) -> None:
    """Store when the key was last used, at most once in NOTE_INTERVAL; a database error is logged, not raised."""
    now = timezone.now()
    if key.last_used is not None and key.last_used > now - NOTE_INTERVAL:
        return
    long_ago = Q(last_used=None) | Q(last_used__lte=now - NOTE_INTERVAL)
    try:
        with transaction.atomic():
            ApiKey.objects.filter(long_ago, pk=key.pk).update(last_used=now)
    except DatabaseError:
        log.warning("The use of the key %s could not be recorded.", key.public_id, exc_info=True)


def delete_keys(keys: Iterable[ApiKey]) -> None:
    """Mark keys as deleted: their rows stay, and none is accepted any more."""
    ApiKey.objects.filter(pk__in=[key.pk for key in keys]).update(is_deleted=True)


def _granted_permissions(owner: User, names: Collection[str]) -> list[str]:
    """The names, which match in any case, as the owner's features are spelt.

    Raises ValidationError for a name that no feature has, and PermissionDenied for features that the owner lacks.
    """
    # Compared in Python: a name from a request may contain characters that the database refuses.
    spellings = {name.lower(): name for name in owner.feature_names()}
    if excess := {name for name in names if name.lower() not in spellings}:
        features = {name.lower() for name in Feature.objects.values_list("name", flat=True)}
        if unknown := {name for name in excess if name.lower() not in features}:
            raise ValidationError(f"no feature is named {', '.join(sorted(unknown))}.", field="permissions")
        lacking = ", ".join(sorted(excess))
        raise PermissionDenied(f"the owner of the key does not have {lacking}.", field="permissions")
    return list(dict.fromkeys(spellings[name.lower()] for name in names))


@transaction.atomic
def rotate_key(key: ApiKey, *, overlap: timedelta = OVERLAP) -> IssuedKey:
    """Give the key a new secret; the present one stays valid for the overlap, an earlier one ends at once.

    The row stays the same, so its settings and counts stay too: limits must not start over. Only an expiry beyond
    GATEWAY_KEY_MAX_DAYS is moved up to that, as a new secret is a new credential. The present secret ends with the
    present expiry at the latest.
    Raises Conflict for a key that is not accepted any more, or that would end before it begins.
    """
    lock_row_for_change(key, ApiKey.objects.live())
    now = timezone.now()
    if key.is_expired(now) or key.locked_time is not None:
        raise Conflict("This key is no longer valid. Issue a new one.")
    new_key = secrets.generate_key()
    key.former_public_id, key.former_digest = key.public_id, key.digest
    end = now + overlap
    key.former_until = end if key.expiry is None else min(end, key.expiry)
    key.public_id, key.digest, key.rotated_at = new_key.public_id, new_key.digest, now
    key.expiry = _expiry_after_rotation(key, now)
    former = ("former_public_id", "former_digest", "former_until")
    key.save(update_fields=["public_id", "digest", "rotated_at", "expiry", *former])
    return IssuedKey(key, new_key.text)


def _expiry_after_rotation(key: ApiKey, now: datetime) -> datetime | None:
    latest = _latest_expiry(now)
    if latest is None or (key.expiry is not None and key.expiry <= latest):
        return key.expiry
    if key.not_before is not None and key.not_before >= latest:
        days = settings.GATEWAY_KEY_MAX_DAYS
        raise Conflict(
            f"A new secret lasts at most {days} days (GATEWAY_KEY_MAX_DAYS), and this key is not valid until then. "
            "Rotate it later, or change notBefore."
        )
    return latest
