"""Every change to API keys."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import EllipsisType

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from accounts.models import User
from gateway_project.errors import Conflict, NotFound, PermissionDenied
from gateway_project.saving import save_or_refuse
from keys import secrets
from keys.models import ApiKey
from providers.models import Provider


@dataclass(frozen=True)
class IssuedKey:
    """A stored key with the only copy of its text, which is shown once and kept out of logs."""

    key: ApiKey
    text: str = field(repr=False)


@transaction.atomic
def issue_key(
    *,
    owner: User,
    name: str,
    permissions: Collection[str] = ("work",),
    expiry: datetime | None = None,
    provider: Provider | None = None,
    created_by: User | None = None,
) -> IssuedKey:
    """Create a key that expires after GATEWAY_KEY_DAYS unless told, and hand back the only copy of its text.

    Raises PermissionDenied if a permission is not the owner's own, Conflict if the owner has a live key of
    this name, and ValidationError.
    """
    _refuse_beyond(owner, permissions)
    made = secrets.generate()
    key = ApiKey(
        owner=owner,
        name=name,
        permissions=list(dict.fromkeys(permissions)),
        expiry=expiry or timezone.now() + timedelta(days=settings.GATEWAY_KEY_DAYS),
        provider=provider,
        created_by=created_by,
        public_id=made.public_id,
        digest=made.digest,
    )
    save_or_refuse(key, taken=f"{owner.username!r} has a key named {name!r} already.")
    return IssuedKey(key, made.text)


@transaction.atomic
def update_key(
    key: ApiKey,
    *,
    new_name: str | None = None,
    expire: bool = False,
    provider: Provider | EllipsisType | None = ...,
    locked: bool | None = None,
) -> None:
    """Store these changes, where given; a provider of None unbinds the key from the one it had.

    Raises Conflict if the owner has another live key of the name, NotFound and ValidationError.
    """
    _lock(key)
    now = timezone.now()
    if new_name is not None:
        key.name = new_name
    if expire and not key.is_expired(now):
        key.expiry = now
    if provider is not ...:
        key.provider = provider
    if locked is not None:
        key.locked_time = (key.locked_time or now) if locked else None
    save_or_refuse(key, taken=f"{key.owner.username!r} has a key named {key.name!r} already.")


def delete_keys(keys: Iterable[ApiKey]) -> None:
    """Mark as deleted: the records stay, and none of them is accepted any more."""
    ApiKey.objects.filter(pk__in=[key.pk for key in keys]).update(is_deleted=True)


def _lock(key: ApiKey) -> None:
    """Read the row again and hold it: a change must not undo another that is made at the same moment."""
    try:
        key.refresh_from_db(from_queryset=ApiKey.objects.live().select_for_update())
    except ApiKey.DoesNotExist:
        raise NotFound("This key exists no more.") from None


def _refuse_beyond(owner: User, permissions: Collection[str]) -> None:
    if beyond := set(permissions) - owner.feature_names():
        raise PermissionDenied(f"The owner of the key does not have {', '.join(sorted(beyond))}.")


@transaction.atomic
def rotate_key(key: ApiKey, *, overlap: timedelta, created_by: User | None = None) -> IssuedKey:
    """A new key in the place of this one, which goes on for the overlap under another name.

    Raises Conflict for a key that is accepted no more, and what issue_key() raises.
    """
    _lock(key)
    now = timezone.now()
    if key.is_expired(now) or key.locked_time is not None:
        raise Conflict("This key is accepted no more: issue a new one.")
    name, expiry = key.name, key.expiry
    key.name = f"{name[:70]} (until {now + overlap:%Y-%m-%d %H:%M}, {key.public_id})"
    key.expiry = now + overlap if expiry is None else min(expiry, now + overlap)
    save_or_refuse(key, taken=f"{key.owner.username!r} has a key named {key.name!r} already.")
    return issue_key(
        owner=key.owner,
        name=name,
        permissions=key.permissions,
        expiry=expiry,
        provider=key.provider,
        created_by=created_by,
    )
