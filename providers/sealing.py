"""Credentials in the database: sealed for their provider's origin, opened for a call to it alone, sealed anew."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import models, transaction

from gateway_project.errors import ProviderError, ValidationError
from providers.columns import LONGEST_CREDENTIAL
from providers.credentials import CredentialUnreadable, decrypt, encrypt, hint_of, is_sealed_with
from providers.models import Provider, ProviderCredential
from providers.transport import auth

Holder = Provider | ProviderCredential  # a row with a credential


def seal_credential(row: Holder, credential: str, provider: Provider) -> None:
    """Set a row's credential, sealed for the provider's origin; "" clears it. Raises ValidationError."""
    if len(credential) > LONGEST_CREDENTIAL:
        raise ValidationError(f"must have at most {LONGEST_CREDENTIAL} characters.", field="api_key")
    try:
        auth.check(provider.auth_method, credential, provider.url)
    except auth.CredentialUnusable as error:
        raise ValidationError(f"{error}.", field="api_key") from None
    row.credential = (
        encrypt(credential, origin=provider.origin, keys=settings.GATEWAY_ENCRYPTION_KEYS) if credential else ""
    )
    row.credential_hint = hint_of(credential)


def refuse_unsendable(row: Holder, provider: Provider) -> None:
    """Refuse a method that cannot carry the credential that stays; of one that cannot be read nobody knows."""
    try:
        credential = decrypt(row.credential, origin=provider.origin, keys=settings.GATEWAY_ENCRYPTION_KEYS)
        auth.check(provider.auth_method, credential, provider.url)
    except CredentialUnreadable:
        return
    except auth.CredentialUnusable as error:
        which = "the stored credential" if row is provider else f"the credential {row.name!r}"
        raise ValidationError(f"{which} cannot be used with it: {error}.", field="auth_method") from None


def credentials_of(provider: Provider) -> dict[str, str]:
    """The credentials that requests are sent with, in the clear, for calls to the provider alone; by their names.

    Its own is named ""; it stands alone, and may be empty, where there are no others. Raises ProviderError where one
    cannot be read.
    """
    rows: list[Holder] = [*([provider] if provider.credential else []), *provider.credentials.usable()]
    return {"" if row is provider else row.name: _open_credential(row, provider) for row in rows} or {"": ""}


def _open_credential(row: Holder, provider: Provider) -> str:
    try:
        return decrypt(row.credential, origin=provider.origin, keys=settings.GATEWAY_ENCRYPTION_KEYS)
    except CredentialUnreadable:
        which = "The credential" if row is provider else f"The credential {row.name!r}"
        raise ProviderError(f"{which} cannot be decrypted with the current encryption keys: enter it again.") from None


@dataclass(frozen=True, slots=True)
class ResealResult:
    """What became of all credentials: how many were rewritten or had the key already, and whose cannot be read."""

    rewritten: int
    current: int
    unreadable: tuple[str, ...]


# Tables of other apps with sealed texts, in a column `credential`, for an `origin`. Each app adds its own.
OTHER_TABLES: list[type[models.Model]] = []


@dataclass(frozen=True, slots=True)
class Sealed:
    """A row with a credential: its table, its id, and what it is called."""

    table: type[models.Model]
    id: int
    name: str


def reseal_credentials(counting: Callable[[list[Sealed]], Iterable[Sealed]] = iter) -> ResealResult:
    """Encrypt every credential under the first key, each in a transaction of its own; it may be called again.

    `counting` is handed all of them, and returns the same for this to work through.
    """
    results: Counter[bool | None] = Counter()
    unreadable: list[str] = []
    for secret in counting(list(_all_sealed())):
        try:
            results[_reseal(secret)] += 1
        except (CredentialUnreadable, ValueError):
            unreadable.append(secret.name)
    return ResealResult(results[True], results[False], tuple(unreadable))


def _all_sealed() -> Iterator[Sealed]:
    for provider_id, name in Provider.objects.exclude(credential="").values_list("id", "name"):
        yield Sealed(Provider, provider_id, name)
    further = ProviderCredential.objects.exclude(credential="").order_by("provider_id", "id")
    for row_id, provider_name, name in further.values_list("id", "provider__name", "name"):
        yield Sealed(ProviderCredential, row_id, f"{provider_name} ({name})")
    for table in OTHER_TABLES:
        for row in table._default_manager.exclude(credential="").order_by("pk").iterator():
            yield Sealed(table, row.pk, str(row))


@transaction.atomic
def _reseal(secret: Sealed) -> bool | None:
    """Whether it was rewritten; None if there is no credential any more. Raises CredentialUnreadable, ValueError."""
    keys = settings.GATEWAY_ENCRYPTION_KEYS
    # The rows are locked: a credential that is set at this moment must not be overwritten with the former one.
    row: Any
    row = secret.table._default_manager.select_for_update().exclude(credential="").filter(pk=secret.id).first()
    if row is None:
        return None
    if is_sealed_with(row.credential, keys[0]):
        return False
    origin = (row.provider if isinstance(row, ProviderCredential) else row).origin
    text = decrypt(row.credential, origin=origin, keys=keys)
    type(row)._default_manager.filter(pk=row.pk).update(credential=encrypt(text, origin=origin, keys=keys))
    return True
