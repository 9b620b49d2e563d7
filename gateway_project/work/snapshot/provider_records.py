"""The snapshot of a provider from its row: its address, its time-outs and the credentials that can be used."""

import logging
from dataclasses import replace
from urllib.parse import quote, urlsplit

from django.conf import settings

from gateway_project.work.snapshot.records import ProviderSnapshot, as_siblings
from providers.credentials import CredentialUnreadable, KeyMissing, decrypt, hint_of, origin_of
from providers.formats import FORMATS, Options
from providers.models import Provider, ProviderCredential
from providers.transport import auth
from providers.transport.transport import TransportLimits

log = logging.getLogger("gateway.snapshot")

# Cache scopes, the narrowest last: a provider can narrow the setting, not widen it.
SCOPES = ("global", "group", "user", "key")


def provider_record(row: Provider, before: ProviderSnapshot | None) -> ProviderSnapshot | None:
    """The provider with the first of its credentials that can be used, which knows the others."""
    former = {account.account: account for account in before.accounts} if before is not None else {}
    further = [credential for credential in row.credentials.all() if credential.enabled and credential.credential]
    holders: list[Provider | ProviderCredential] = [row] if row.credential or not further else []
    accounts, provider = [], _without_credential(row)
    for holder in [*holders, *further]:
        credential_id, weight = (holder.id, holder.weight) if isinstance(holder, ProviderCredential) else (0, 1)
        try:
            credential = _credential(holder, row, former.get((row.id, credential_id))) if holder.credential else ""
            signer = auth.signer(row.auth_method, credential, row.url)
            headers = {} if signer else auth.headers(row.auth_method, credential)
        except (CredentialUnreadable, auth.CredentialUnusable, ValueError) as error:
            log.error("%s is not used: %s", _name_holder(holder, row), error)
            continue
        accounts.append(
            replace(
                provider,
                credential=credential,
                credential_id=credential_id,
                credential_weight=weight,
                auth_headers=headers,
                signer=signer,
            )
        )
    return as_siblings(accounts)


def _name_holder(holder: Provider | ProviderCredential, row: Provider) -> str:
    return f"Provider {row.name}" if holder is row else f"The credential {holder.name} of provider {row.name}"


def _without_credential(row: Provider) -> ProviderSnapshot:
    models = row.models.all()
    return ProviderSnapshot(
        id=row.id,
        name=row.name,
        url=row.url,
        host=urlsplit(row.url).hostname or "",
        auth_method=row.auth_method,
        credential="",
        format=FORMATS.get(row.format.name),
        format_name=row.format.name,
        health_check_seconds=row.health_check_seconds,
        health_check_always=row.health_check_always,
        priority=row.priority,
        weight=row.weight,
        transport_limits=TransportLimits(
            connect=row.connect_timeout_seconds or settings.GATEWAY_CONNECT_TIMEOUT,
            first_byte=row.first_byte_timeout_seconds or settings.GATEWAY_FIRST_BYTE_TIMEOUT,
            idle=row.idle_timeout_seconds or settings.GATEWAY_IDLE_TIMEOUT,
            response_bytes=row.max_response_bytes or settings.GATEWAY_MAX_RESPONSE_BYTES,
        ),
        total_seconds=row.total_timeout_seconds or settings.GATEWAY_TOTAL_TIMEOUT,
        cache_scope=max(row.cache_scope or "global", settings.GATEWAY_CACHE_SCOPE, key=SCOPES.index),
        cache_seconds=settings.GATEWAY_CACHE_TTL if row.cache_ttl_seconds is None else row.cache_ttl_seconds,
        models=frozenset(model.name for model in models),
        options=Options(
            unknown_parameters=row.unknown_parameters, default_max_tokens=settings.GATEWAY_ANTHROPIC_MAX_TOKENS
        ),
        max_output_tokens={model.name: tokens for model in models if (tokens := model.max_output_tokens)},
        upstream_names={model.name: name for model in models if (name := model.upstream_name)},
        facts={model.name: model.facts for model in models},
        header_name=row.name if row.name.isascii() else quote(row.name),
    )


def _credential(holder: Provider | ProviderCredential, row: Provider, before: ProviderSnapshot | None) -> str:
    """The decrypted credential. Raises CredentialUnreadable and ValueError.

    A process that does not have a new encryption key yet keeps the credential it has, as long as origin and hint show
    that it is unchanged.
    """
    try:
        return decrypt(holder.credential, origin=row.origin, keys=settings.GATEWAY_ENCRYPTION_KEYS)
    except KeyMissing as error:
        if before is None or (origin_of(before.url), hint_of(before.credential)) != (
            row.origin,
            holder.credential_hint,
        ):
            raise
        if not holder.credential_hint:
            raise
        log.warning("%s keeps its former credential: %s", _name_holder(holder, row), error)
        return before.credential
