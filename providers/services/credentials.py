"""Every change to the further credentials of providers."""

from typing import Any

from gateway_project.database.guarding import Access, guarded_change
from gateway_project.database.saving import lock_row, save_or_refuse
from gateway_project.errors import Conflict, ValidationError
from providers.models import CREDENTIAL_OPTIONS, MASK, MOST_CREDENTIALS, Provider, ProviderCredential
from providers.sealing import seal_credential
from providers.services.refusals import refuse_unknown


@guarded_change(Access.PROVIDERS)
def add_credential(*, provider: Provider, name: str, credential: str, **options: Any) -> ProviderCredential:
    """One more credential of the provider, stored; options are in CREDENTIAL_OPTIONS.

    Raises Conflict if the provider has one of this name or MOST_CREDENTIALS, and ValidationError.
    """
    lock_row(provider, Provider.objects.all())
    if ProviderCredential.objects.of(provider).count() >= MOST_CREDENTIALS:
        raise Conflict(f"The provider {provider.name!r} has {MOST_CREDENTIALS} credentials, the maximum.")
    refuse_unknown(options, CREDENTIAL_OPTIONS)
    row = ProviderCredential(provider=provider, name=name, **options)
    _set_credential(row, credential)
    _save_credential(row)
    return row


@guarded_change(Access.PROVIDERS)
def change_credential(row: ProviderCredential, *, credential: str | None = None, **changes: Any) -> None:
    """Store the new `name`, `credential` and CREDENTIAL_OPTIONS, as far as they are given; a masked one changes none.

    Raises Conflict if its provider has one of this name, NotFound and ValidationError.
    """
    refuse_unknown(changes, ("name", *CREDENTIAL_OPTIONS))
    # The provider is locked first, as by changes: its address must not change while a credential is sealed for it.
    lock_row(row.provider, Provider.objects.all())
    lock_row(row, ProviderCredential.objects.all())
    for name, value in changes.items():
        setattr(row, name, value)
    is_shown_value = credential is not None and (credential.startswith(MASK) or credential == row.credential == "")
    if credential is not None and not is_shown_value:
        _set_credential(row, credential)
    _save_credential(row)


@guarded_change(Access.PROVIDERS)
def remove_credential(row: ProviderCredential) -> None:
    """Delete a credential: no request is sent with it any more."""
    row.delete()


def _set_credential(row: ProviderCredential, credential: str) -> None:
    if not credential:
        raise ValidationError("must not be empty. Disable or delete a credential that you do not use.", field="api_key")
    refuse_mask(credential)
    seal_credential(row, credential, row.provider)


def refuse_mask(credential: str) -> None:
    if credential.startswith(MASK):
        raise ValidationError("this is a masked credential; send the complete one.", field="api_key")


def _save_credential(row: ProviderCredential) -> None:
    save_or_refuse(row, conflict=f"The provider {row.provider.name!r} has a credential named {row.name!r} already.")
