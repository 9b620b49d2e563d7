"""Every change to providers and their models."""

import re
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import connection, transaction
from django.db.models import ProtectedError
from django.db.models.options import Options
from django.utils import timezone

from gateway_project.database.guarding import Access, guarded_change
from gateway_project.database.saving import lock_row, save_or_refuse
from gateway_project.errors import Conflict, PermissionDenied, ValidationError
from gateway_project.hooks import Hook
from gateway_project.json_types import JsonObject
from providers.credentials import origin_of
from providers.formats import FORMATS
from providers.models import (
    CREDENTIAL_OPTIONS,
    MASK,
    MODEL_OPTIONS,
    MOST_CREDENTIALS,
    MOST_MODELS,
    OPTIONS,
    SUBJECT,
    Model,
    ModelPrice,
    PriceSource,
    Provider,
    ProviderCredential,
    ProviderFormat,
    UnknownParameters,
)
from providers.pricing.facts import bundled_facts
from providers.sealing import refuse_unsendable, seal
from providers.transport.addresses import literal_refusal

CHANGEABLE = (*OPTIONS, "name", "url", "auth_method")
# Names with an underscore are none of the Internet's, but many a container has one.
LABEL = "[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
HOST = re.compile(rf"{LABEL}(\.{LABEL})*\.?\Z")
CLOCKS_DIFFER = timedelta(minutes=1)
# Whether an alias has this name, or is a pattern that it fits.
is_name_of_alias: Hook[[str], bool] = Hook("is_name_of_alias")


@guarded_change(Access.PROVIDERS)
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

    Where a provider of the format would refuse parameters that it does not know, they are dropped by default.
    Raises Conflict if the name exists, and ValidationError.
    """
    _refuse_unknown(options, OPTIONS)
    _refuse_mask(credential)
    most = min(MOST_MODELS, settings.GATEWAY_MAX_MODELS_PER_PROVIDER)
    if len(names := dict.fromkeys(models)) > most:
        raise ValidationError(f"must be at most {most}.", field="models")
    provider = Provider(name=name, url=checked_url(url), auth_method=auth_method, **options)
    provider.format = _format(format_name)
    if FORMATS[format_name].strict and "unknown_parameters" not in options:
        provider.unknown_parameters = UnknownParameters.DROP
    seal(provider, credential, provider)
    _lock_model_names()
    _save(provider)
    for model_name in names:
        _save_model(Model(provider=provider, name=model_name))
    return provider


@guarded_change(Access.PROVIDERS)
def update_provider(
    provider: Provider, *, format_name: str | None = None, credential: str | None = None, **changes: Any
) -> Provider:
    """The provider with these changes stored; `credential` "" clears it, None or a masked one leaves it.

    A changed scheme, host or port clears the credential unless the same call sets one, and all further ones: whoever
    may change an address may not thereby send the credentials there. Raises Conflict, NotFound and ValidationError.
    """
    _refuse_unknown(changes, CHANGEABLE)
    lock_row(provider, Provider.objects.all())
    origin, auth_method = provider.origin, provider.auth_method
    if "url" in changes:
        checked_url(changes["url"])
    for name, value in changes.items():
        setattr(provider, name, value)
    if format_name is not None:
        provider.format = _format(format_name)
    is_moved, is_sent_otherwise = provider.origin != origin, provider.auth_method != auth_method
    if credential is not None and not credential.startswith(MASK):
        seal(provider, credential, provider)
    elif is_moved:
        seal(provider, "", provider)
    elif is_sent_otherwise:
        refuse_unsendable(provider, provider)
    _save(provider)
    if is_moved:
        provider.credentials.update(credential="", credential_hint="")
    elif is_sent_otherwise:
        for row in provider.credentials.exclude(credential=""):
            refuse_unsendable(row, provider)
    return provider


@guarded_change(Access.PROVIDERS)
def add_credential(*, provider: Provider, name: str, credential: str, **options: Any) -> ProviderCredential:
    """One more credential of the provider, stored; options are in CREDENTIAL_OPTIONS.

    Raises Conflict if the provider has one of this name or MOST_CREDENTIALS, and ValidationError.
    """
    lock_row(provider, Provider.objects.all())
    if ProviderCredential.objects.of(provider).count() >= MOST_CREDENTIALS:
        raise Conflict(f"The provider {provider.name!r} has {MOST_CREDENTIALS} credentials, the maximum.")
    _refuse_unknown(options, CREDENTIAL_OPTIONS)
    row = ProviderCredential(provider=provider, name=name, **options)
    _set_credential(row, credential)
    _save_credential(row)
    return row


@guarded_change(Access.PROVIDERS)
def change_credential(row: ProviderCredential, *, credential: str | None = None, **changes: Any) -> None:
    """Store the new `name`, `credential` and CREDENTIAL_OPTIONS, as far as they are given; a masked one changes none.

    Raises Conflict if its provider has one of this name, NotFound and ValidationError.
    """
    _refuse_unknown(changes, ("name", *CREDENTIAL_OPTIONS))
    # The provider first, as who changes it does: its address must not change while a credential is sealed for it.
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
    _refuse_mask(credential)
    seal(row, credential, row.provider)


def _refuse_mask(credential: str) -> None:
    if credential.startswith(MASK):
        raise ValidationError("this is a masked credential; send the complete one.", field="api_key")


def _save_credential(row: ProviderCredential) -> None:
    save_or_refuse(row, conflict=f"The provider {row.provider.name!r} has a credential named {row.name!r} already.")


@guarded_change(Access.PROVIDERS)
def add_model(
    *,
    provider: Provider,
    name: str,
    added_by: int | None = None,
    only_own: bool = False,
    **options: Any,
) -> Model:
    """A stored model of the provider; `only_own` for users who may not change providers. Options are in MODEL_OPTIONS.

    Raises Conflict if the provider has one of this name or GATEWAY_MAX_MODELS_PER_PROVIDER models, with `only_own` also
    for a name that any provider offers, and ValidationError.
    """
    _lock_model_names()
    lock_row(provider, Provider.objects.all())
    most = settings.GATEWAY_MAX_MODELS_PER_PROVIDER
    if Model.objects.of(provider).count() >= most:
        raise Conflict(f"The provider {provider.name!r} has {most:,} models, the maximum. Delete some first.")
    _refuse_unknown(options, MODEL_OPTIONS)
    model = Model(provider=provider, name=name, added_by_id=added_by, **options)
    _save_model(model)
    if only_own:
        _refuse_offered(model)
    return model


@guarded_change(Access.PROVIDERS, Access.ALIASES)
def change_model(model: Model, *, only_renamed_by: int | None = None, **changes: Any) -> None:
    """Store the model's new `name` and MODEL_OPTIONS, as far as they are given.

    With `only_renamed_by`, the id of a user who may not change providers, only what they added gets a new name, and
    none that any provider offers. Raises PermissionDenied, Conflict if its provider has a model of this name, NotFound
    and ValidationError.
    """
    _lock_model_names()
    _refuse_unknown(changes, ("name", *MODEL_OPTIONS))
    lock_row(model, Model.objects.all())
    needs_own_name = only_renamed_by is not None and changes.get("name", model.name) != model.name
    if needs_own_name and model.added_by_id != only_renamed_by:
        reason = "you can rename only models that you added. Renaming others needs the permission providers.modify."
        raise PermissionDenied(reason, field="name")
    for field, value in changes.items():
        setattr(model, field, value)
    _save_model(model)
    if needs_own_name:
        _refuse_offered(model)


def _lock_model_names() -> None:
    """Hold all names of models to the end of the transaction, so that two users cannot take the same one at once.

    Transactions on SQLite exclude each other anyway.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext('gateway model names'))")


def _refuse_offered(model: Model) -> None:
    """Raise Conflict if work for the name of this stored model goes elsewhere already: it would be re-routed."""
    if is_name_of_alias(model.name):  # also of one that is disabled: it may be enabled again
        raise Conflict(f"An alias stands for {model.name!r}. Choose another name.", field="name")
    if other := Model.objects.exclude(pk=model.pk).filter(name=model.name).first():
        raise Conflict(f"A provider offers {model.name!r} already. Choose another name.", field="name").with_row(other)
    # A model's own name takes precedence over `provider/model`, also of a model that the provider gets later.
    prefix, slash, _ = model.name.partition("/")
    if slash and Provider.objects.filter(name=prefix).exists():
        reason = f"{model.name!r} means a model of the provider {prefix!r}. Choose a name without {prefix + '/'!r}."
        raise Conflict(reason, field="name")


def _save_model(model: Model) -> None:
    """Store it; what is the default anyway stays unset, and so follows it."""
    if model.upstream_name == model.name:
        model.upstream_name = ""
    public = bundled_facts(model.name_at_provider)
    if model.context_length == public.context_length:
        model.context_length = None
    for name in ("input_modalities", "output_modalities"):
        if getattr(model, name) == list(getattr(public, name)):
            setattr(model, name, None)
    save_or_refuse(model, conflict=f"The provider {model.provider.name!r} has a model named {model.name!r} already.")


@guarded_change(Access.PROVIDERS)
def remove_model(model: Model) -> None:
    """Delete a model: its provider no longer offers it. Raises Conflict while aliases refer to it, counting them."""
    try:
        model.delete()
    except ProtectedError as error:
        raise Conflict(f"The model {model.name!r} is referred to by {_references(error)}.") from None


@guarded_change(Access.PROVIDERS)
def delete_provider(provider: Provider) -> None:
    """Delete it with its models; raises NotFound, and Conflict while something refers to it, counting that."""
    # First of all, as who changes it does: whoever begins to refer to it meanwhile waits, and finds it gone.
    lock_row(provider, Provider.objects.all())
    try:
        provider.delete()
    except ProtectedError as error:
        raise Conflict(f"The provider {provider.name!r} is referred to by {_references(error)}.") from None


def _references(error: ProtectedError) -> str:
    """How many rows of each kind refer to what cannot be deleted."""
    counts = Counter(row._meta for row in error.protected_objects)
    return ", ".join(
        _count_with_noun(number, meta) for meta, number in sorted(counts.items(), key=lambda one: str(one[0]))
    )


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
        # In this order, as whoever deletes the provider with its prices holds them: neither waits for the other.
        list(Provider.objects.select_for_update().filter(pk=price.provider_id))
    row = ModelPrice.objects.open().select_for_update().filter(pk=price.pk).first()
    if row is None:
        raise Conflict("This price has an end and cannot be changed. Change the price that follows it.")
    return row


def _not_past(moment: datetime | None, now: datetime) -> datetime:
    if moment is not None and moment < now - CLOCKS_DIFFER:
        raise ValidationError("must not be in the past: the cost of past requests does not change.", field="valid_from")
    return moment or now


def _count_with_noun(number: int, meta: Options) -> str:
    return f"{number} {meta.verbose_name if number == 1 else meta.verbose_name_plural}"


def _save(provider: Provider) -> None:
    save_or_refuse(provider, conflict=name_conflict(provider.name))


def name_conflict(name: str) -> str:
    """What is said of a name that another provider has."""
    return f"A provider named {name!r} exists already."


def _format(name: str) -> ProviderFormat:
    try:
        return ProviderFormat.objects.get(name=name)
    except ProviderFormat.DoesNotExist:
        raise ValidationError(f"there is no format named {name!r}.", field="format") from None


def checked_url(url: str) -> str:
    """The URL as it was given, if work can be sent there and it says so to every reader alike."""
    # urlsplit() drops tabs and line breaks, and readers differ over backslashes: refused, not mended.
    if not url.isprintable() or any(character in url for character in " \\"):
        raise ValidationError("must not contain blanks, backslashes or unprintable characters.", field="url")
    if url.partition(":")[0].lower() not in ("http", "https"):
        raise ValidationError("must begin with http:// or https://.", field="url")
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
    if reason := literal_refusal(parts.hostname, settings.GATEWAY_PROVIDER_NETWORKS):
        raise ValidationError(f"must name another host: {parts.hostname} {reason}.", field="url")
    return url


def _refuse_unknown(options: JsonObject, allowed: Iterable[str]) -> None:
    if unknown := options.keys() - allowed:
        raise TypeError(f"There is no option {', '.join(sorted(unknown))}.")
