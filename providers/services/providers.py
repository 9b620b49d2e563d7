"""Every change to providers, which their own credential and address are a part of."""

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db.models import ProtectedError

from gateway_project.database.guarding import Access, guarded_change
from gateway_project.database.saving import lock_row, save_or_refuse
from gateway_project.errors import Conflict, ValidationError
from providers.credentials import origin_of
from providers.formats import FORMATS
from providers.models import (
    MASK,
    MOST_MODELS,
    OPTIONS,
    Model,
    Provider,
    ProviderFormat,
    UnknownParameters,
)
from providers.sealing import refuse_unsendable, seal_credential
from providers.services.credentials import refuse_mask
from providers.services.models import lock_model_names, save_model
from providers.services.refusals import describe_references, refuse_unknown
from providers.transport.addresses import literal_refusal

CHANGEABLE = (*OPTIONS, "name", "url", "auth_method")
# Names with an underscore are none of the Internet's, but many a container has one.
LABEL = "[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
HOST = re.compile(rf"{LABEL}(\.{LABEL})*\.?\Z")


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
    refuse_unknown(options, OPTIONS)
    refuse_mask(credential)
    most = min(MOST_MODELS, settings.GATEWAY_MAX_MODELS_PER_PROVIDER)
    if len(names := dict.fromkeys(models)) > most:
        raise ValidationError(f"must be at most {most}.", field="models")
    provider = Provider(name=name, url=checked_url(url), auth_method=auth_method, **options)
    provider.format = _format(format_name)
    if FORMATS[format_name].strict and "unknown_parameters" not in options:
        provider.unknown_parameters = UnknownParameters.DROP
    seal_credential(provider, credential, provider)
    lock_model_names()
    _save(provider)
    for model_name in names:
        save_model(Model(provider=provider, name=model_name))
    return provider


@guarded_change(Access.PROVIDERS)
def update_provider(
    provider: Provider, *, format_name: str | None = None, credential: str | None = None, **changes: Any
) -> Provider:
    """The provider with these changes stored; `credential` "" clears it, None or a masked one leaves it.

    A changed scheme, host or port clears the credential unless the same call sets one, and all further ones: whoever
    may change an address may not thereby send the credentials there. Raises Conflict, NotFound and ValidationError.
    """
    refuse_unknown(changes, CHANGEABLE)
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
        seal_credential(provider, credential, provider)
    elif is_moved:
        seal_credential(provider, "", provider)
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
def delete_provider(provider: Provider) -> None:
    """Delete it with its models; raises NotFound, and Conflict while something refers to it, counting that."""
    # The row is locked first, as by changes: whoever is about to refer to it waits and finds it deleted.
    lock_row(provider, Provider.objects.all())
    try:
        provider.delete()
    except ProtectedError as error:
        raise Conflict(f"The provider {provider.name!r} is referred to by {describe_references(error)}.") from None


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
