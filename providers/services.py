"""Every change to providers and their models."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction
from django.db.models import ProtectedError
from django.utils import timezone

from gateway_project.database.saving import lock_row, save_or_refuse
from gateway_project.errors import Conflict, ProviderError, ValidationError
from providers.credentials import CredentialUnreadable, decrypt, encrypt, hint_of, is_sealed_with, origin_of
from providers.formats import FORMATS
from providers.models import (
    LONGEST_CREDENTIAL,
    MASK,
    MOST_MODELS,
    OPTIONS,
    SUBJECT,
    Model,
    ModelPrice,
    PriceSource,
    Provider,
    ProviderFormat,
    UnknownParameters,
)
from providers.transport import auth

CHANGEABLE = (*OPTIONS, "name", "url", "auth_method")
# Names with an underscore are none of the Internet's, but many a container has one.
LABEL = "[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
HOST = re.compile(rf"{LABEL}(\.{LABEL})*\.?\Z")
CLOCKS_DIFFER = timedelta(minutes=1)


@transaction.atomic
def create_provider(
    *,
    name: str,
    url: str,
    format_name: str,
    models: Iterable[str] = (),
    auth_method: str = "bearer",
    credential: str = "",
    **options: Any,
) -> Provider:
    """A stored provider that offers these models; options are the names in OPTIONS.

    Where a provider of the format would refuse parameters that it does not know, they are dropped unless told.
    Raises Conflict if the name exists, and ValidationError.
    """
    _refuse_unknown(options, OPTIONS)
    if credential.startswith(MASK):
        raise ValidationError("this is a masked credential; send the complete one.", field="api_key")
    if len(names := dict.fromkeys(models)) > MOST_MODELS:
        raise ValidationError(f"must be at most {MOST_MODELS}.", field="models")
    provider = Provider(name=name, url=_checked_url(url), auth_method=auth_method, **options)
    provider.format = _format(format_name)
    if FORMATS[format_name].strict and "unknown_parameters" not in options:
        provider.unknown_parameters = UnknownParameters.DROP
    _seal(provider, credential)
    _save(provider)
    for model_name in names:
        add_model(provider=provider, name=model_name)
    return provider


@transaction.atomic
def update_provider(
    provider: Provider, *, format_name: str | None = None, credential: str | None = None, **changes: Any
) -> Provider:
    """The provider with these changes stored; `credential` "" clears it, None or a masked one leaves it.

    A changed scheme, host or port clears the credential unless the same call sets one: whoever may change an
    address may not thereby send the credential there. Raises Conflict, NotFound and ValidationError.
    """
    _refuse_unknown(changes, CHANGEABLE)
    lock_row(provider, Provider.objects.all())
    origin, auth_method = provider.origin, provider.auth_method
    if "url" in changes:
        _checked_url(changes["url"])
    for name, value in changes.items():
        setattr(provider, name, value)
    if format_name is not None:
        provider.format = _format(format_name)
    if credential is not None and not credential.startswith(MASK):
        _seal(provider, credential)
    elif provider.origin != origin:
        _seal(provider, "")
    elif provider.auth_method != auth_method:
        _refuse_unsendable(provider)
    _save(provider)
    return provider


@transaction.atomic
def add_model(*, provider: Provider, name: str, max_output_tokens: int | None = None) -> Model:
    """A stored model of the provider; raises Conflict if it has one of this name, and ValidationError."""
    model = Model(provider=provider, name=name, max_output_tokens=max_output_tokens)
    _save_model(model)
    return model


@transaction.atomic
def change_model(model: Model, **changes: Any) -> None:
    """Store the model's new `name` and `max_output_tokens`, as far as they are given.

    Raises Conflict if its provider has a model of this name, NotFound and ValidationError.
    """
    lock_row(model, Model.objects.all())
    for field, value in changes.items():
        setattr(model, field, value)
    _save_model(model)


def _save_model(model: Model) -> None:
    save_or_refuse(model, conflict=f"The provider {model.provider.name!r} has a model named {model.name!r} already.")


def remove_model(model: Model) -> None:
    """Its provider offers the model no more."""
    model.delete()


@transaction.atomic
def delete_provider(provider: Provider) -> None:
    """Delete it with its models; raises NotFound, and Conflict while keys or rules refer to it, counting them."""
    # First of all, as who changes it does: whoever begins to refer to it meanwhile waits, and finds it gone.
    lock_row(provider, Provider.objects.all())
    try:
        provider.delete()
    except ProtectedError as error:
        found = Counter(row._meta for row in error.protected_objects)
        told = ", ".join(
            _counted(number, meta) for meta, number in sorted(found.items(), key=lambda pair: str(pair[0]))
        )
        raise Conflict(f"The provider {provider.name!r} is referred to by {told}.") from None


@transaction.atomic
def set_price(*, valid_from: datetime | None = None, source: str = PriceSource.EDITED, **values: Any) -> ModelPrice:
    """A stored price of what had none, from now on unless told.

    Raises Conflict if there is a price of the same thing, and ValidationError.
    """
    now = timezone.now()
    values["host"], values["model"] = values.get("host", "").lower(), values["model"].lower()
    price = ModelPrice(valid_from=_not_past(valid_from, now), source=source, **values)
    save_or_refuse(price, conflict="There is already such a price: change that one.")
    return price


@transaction.atomic
def change_price(
    price: ModelPrice, *, valid_from: datetime | None = None, source: str = PriceSource.EDITED, **changes: Any
) -> ModelPrice:
    """The row of the new price; the old one ends where it begins, which is now unless told.

    A price that has not begun is changed where it stands, and one that would stay what it is stays as it is. Raises
    Conflict for one that ends, and ValidationError.
    """
    now = timezone.now()
    price = _held(price)
    begins = _not_past(None if valid_from == price.valid_from else valid_from, now)
    if price.valid_from >= now and valid_from not in (None, price.valid_from):
        reason = "this price has not begun yet, and begins when it was said; delete it first."
        raise Conflict(reason, field="valid_from")
    if all(getattr(price, name) == value for name, value in changes.items()):
        return price
    if price.valid_from < now:
        ModelPrice.objects.filter(pk=price.pk).update(valid_until=begins)
        price.pk, price.valid_from, price._state.adding = None, begins, True
    for name, value in {**changes, "source": source}.items():
        setattr(price, name, value)
    save_or_refuse(price, conflict="There is already such a price: change that one.")
    return price


@transaction.atomic
def end_price(price: ModelPrice) -> None:
    """From now on there is no such price; one that has not begun goes, and its predecessor stays.

    Raises Conflict for one that ends already.
    """
    now = timezone.now()
    price = _held(price)
    if price.valid_from < now:
        ModelPrice.objects.filter(pk=price.pk).update(valid_until=now)
        return
    price.delete()
    subject = {name: getattr(price, name) for name in SUBJECT}
    ModelPrice.objects.filter(**subject, valid_until=price.valid_from).update(valid_until=None)


def _held(price: ModelPrice) -> ModelPrice:
    """The row read again and held, so that two changes at once make two rows; raises Conflict if it ends."""
    if price.provider_id is not None:
        # In this order, as whoever deletes the provider with its prices holds them: neither waits for the other.
        list(Provider.objects.select_for_update().filter(pk=price.provider_id))
    held = ModelPrice.objects.open().select_for_update().filter(pk=price.pk).first()
    if held is None:
        raise Conflict("This price has an end: what it was stays as it is. Change the one that follows it.")
    return held


def _not_past(moment: datetime | None, now: datetime) -> datetime:
    if moment is not None and moment < now - CLOCKS_DIFFER:
        raise ValidationError("lies in the past, and what was spent there stays as it is.", field="valid_from")
    return moment or now


@dataclass(frozen=True, slots=True)
class Resealed:
    """What became of all credentials: how many were rewritten or had the key already, and whose cannot be read."""

    rewritten: int
    current: int
    unreadable: tuple[str, ...]


def reseal_credentials() -> Resealed:
    """Encrypt every credential under the first key, each in a transaction of its own; it may be called again."""
    results, unreadable = Counter(), []
    for provider_id, name in list(Provider.objects.exclude(credential="").values_list("id", "name")):
        try:
            results[_reseal(provider_id)] += 1
        except (CredentialUnreadable, ValueError):
            unreadable.append(name)
    return Resealed(results[True], results[False], tuple(unreadable))


@transaction.atomic
def _reseal(provider_id: int) -> bool | None:
    """Whether it was rewritten; None if there is no credential any more. Raises CredentialUnreadable, ValueError."""
    keys = settings.GATEWAY_ENCRYPTION_KEYS
    # Held: a credential that is set at this moment must not be overwritten with the one from before.
    row = Provider.objects.select_for_update().exclude(credential="").filter(pk=provider_id).first()
    if row is None:
        return None
    if is_sealed_with(row.credential, keys[0]):
        return False
    text = decrypt(row.credential, origin=row.origin, keys=keys)
    Provider.objects.filter(pk=row.pk).update(credential=encrypt(text, origin=row.origin, keys=keys))
    return True


def credential_of(provider: Provider) -> str:
    """The credential in the clear, for a call to its provider alone; raises ProviderError where it cannot be read."""
    if not provider.credential:
        return ""
    try:
        return decrypt(provider.credential, origin=provider.origin, keys=settings.GATEWAY_ENCRYPTION_KEYS)
    except CredentialUnreadable:
        raise ProviderError("The credential cannot be decrypted with the present keys: enter it again.") from None


def _counted(number: int, meta: Any) -> str:
    return f"{number} {meta.verbose_name if number == 1 else meta.verbose_name_plural}"


def _save(provider: Provider) -> None:
    save_or_refuse(provider, conflict=f"A provider named {provider.name!r} exists already.")


def _seal(provider: Provider, credential: str) -> None:
    if len(credential) > LONGEST_CREDENTIAL:
        raise ValidationError(f"must have at most {LONGEST_CREDENTIAL} characters.", field="api_key")
    try:
        auth.check(provider.auth_method, credential, provider.url)
    except auth.CredentialUnusable as error:
        raise ValidationError(f"{error}.", field="api_key") from None
    provider.credential = (
        encrypt(credential, origin=provider.origin, keys=settings.GATEWAY_ENCRYPTION_KEYS) if credential else ""
    )
    provider.credential_hint = hint_of(credential)


def _refuse_unsendable(provider: Provider) -> None:
    """Refuse a method that cannot carry the credential that stays; of one that cannot be read nobody knows."""
    try:
        credential = decrypt(provider.credential, origin=provider.origin, keys=settings.GATEWAY_ENCRYPTION_KEYS)
        auth.check(provider.auth_method, credential, provider.url)
    except CredentialUnreadable:
        return
    except auth.CredentialUnusable as error:
        raise ValidationError(f"the stored credential cannot be used with it: {error}.", field="auth_method") from None


def _format(name: str) -> ProviderFormat:
    try:
        return ProviderFormat.objects.get(name=name)
    except ProviderFormat.DoesNotExist:
        raise ValidationError(f"there is no format named {name!r}.", field="format") from None


def _checked_url(url: str) -> str:
    """The URL as it was given, if work can be sent there and it says so to every reader alike."""
    # urlsplit() drops tabs and line breaks, and readers differ over backslashes: refused, not mended.
    if not url.isprintable() or any(character in url for character in " \\"):
        raise ValidationError("must not contain blanks, backslashes or unprintable characters.", field="url")
    if url.partition(":")[0].lower() not in ("http", "https"):
        raise ValidationError("must be http or https: it has to begin with http:// or https://.", field="url")
    try:
        parts = urlsplit(url)
        if not parts.hostname:
            raise ValidationError("must name a host, as https://api.example.org/v1 does.", field="url")
        origin_of(url)
    except ValueError as error:
        raise ValidationError(f"cannot be read: {error}.", field="url") from None
    if "@" in parts.netloc or "#" in url:
        raise ValidationError("must not contain user information or a fragment.", field="url")
    if not url.isascii() or not (":" in parts.hostname or HOST.match(parts.hostname)):
        raise ValidationError("must contain a valid host name, in ASCII.", field="url")
    return url


def _refuse_unknown(given: dict[str, Any], known: Iterable[str]) -> None:
    if unknown := given.keys() - known:
        raise TypeError(f"A provider has no option {', '.join(sorted(unknown))}.")
