"""Every change to identity providers and to identities that administrators make."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypedDict, Unpack

from django.db import transaction
from django.utils import timezone

from accounts.models import Group, Role, User
from accounts.sso.claim_rules import GrantKind, read_rules
from accounts.sso.models import MASK, MAX_SECRET_LENGTH, Identity, IdentityProvider
from accounts.sso.protocol.http import is_secure
from accounts.sso.protocol.metadata import forget_provider, renew_provider
from gateway_project.database.names import compose_name
from gateway_project.database.saving import lock_row, rows_by_id, save_or_refuse
from gateway_project.errors import Conflict, RateLimited, UpstreamError, ValidationError
from providers.transport.addresses import url_refusal

MAX_PROVIDERS = 50
FETCH_SECONDS = 5  # between two fetches that somebody orders
PLAIN = (
    *("slug", "issuer", "client_id", "scopes", "enabled", "user_name_claim", "display_name_claim", "email_claim"),
    *("create_users", "match_user_names", "rules"),
)


class IdentityProviderChanges(TypedDict, total=False):
    """The parameters of create_identity_provider(), each of which an update may leave out."""

    name: str
    slug: str
    issuer: str
    client_id: str
    client_secret: str
    scopes: str
    enabled: bool
    user_name_claim: str
    display_name_claim: str
    email_claim: str
    create_users: bool
    match_user_names: bool
    rules: str


@transaction.atomic
def create_identity_provider(**values: Unpack[IdentityProviderChanges]) -> IdentityProvider:
    """Create a provider; it needs a name, a slug, an issuer and a client id.

    Raises Conflict if one of the first three exists or there are too many, and ValidationError with the wrong field.
    """
    if IdentityProvider.objects.count() >= MAX_PROVIDERS:
        raise Conflict(f"There are {MAX_PROVIDERS} identity providers, the maximum.")
    provider = IdentityProvider()
    _write(provider, values)
    return provider


@transaction.atomic
def update_identity_provider(provider: IdentityProvider, **changes: Unpack[IdentityProviderChanges]) -> None:
    """Store changes with the names of create_identity_provider(). Raises as above, and NotFound if it is gone."""
    lock_row(provider, IdentityProvider.objects.all())
    _write(provider, changes)


def fetch_provider_keys(provider: IdentityProvider) -> int:
    """Fetch what a provider says of itself and its keys, and return their number; not in a transaction.

    Every other process asks it anew at its next login there. If this fails, all go on with what they remember.
    Raises Conflict for a disabled provider, RateLimited right after another fetch, and UpstreamError with the reason.
    """
    if not provider.enabled:
        raise Conflict("The identity provider is disabled. Nothing is fetched from it.")
    now = timezone.now()
    recent = now - timedelta(seconds=FETCH_SECONDS)
    rows = IdentityProvider.objects.filter(pk=provider.pk)
    if not rows.exclude(fetch_begun_at__range=(recent, now)).update(fetch_begun_at=now):
        raise RateLimited("The keys have just been fetched.", retry_after=FETCH_SECONDS)
    try:
        number = renew_provider(provider.issuer)
    except UpstreamError as error:  # whoever orders a fetch may know what those who log in do not see
        raise type(error)(str(error.__cause__ or error)) from error
    rows.update(fetched_at=now)
    return number


def delete_identity_provider(provider: IdentityProvider) -> None:
    """Delete a provider: nobody logs in with it any more. Identities stay, for a provider of the same issuer."""
    provider.delete()
    forget_provider(provider.issuer)


def _write(provider: IdentityProvider, changes: IdentityProviderChanges) -> None:
    values: Mapping[str, Any] = changes
    former_issuer, former_origin = provider.issuer, provider.origin if provider.issuer else ""
    for name in PLAIN:
        setattr(provider, name, values.get(name, getattr(provider, name)))
    if "name" in changes:
        provider.name = compose_name(changes["name"])
    if not is_secure(provider.issuer) or "?" in provider.issuer:
        raise ValidationError("must be an https address without a query.", field="issuer")
    if problem := url_refusal(provider.issuer):
        raise ValidationError(problem, field="issuer")
    if "openid" not in provider.scopes.split():
        raise ValidationError("must contain openid.", field="scopes")
    _set_secret(provider, values.get("client_secret"), is_moved=provider.origin != former_origin)
    save_or_refuse(provider, conflict="An identity provider with this name, slug or issuer exists already.")
    if "rules" in changes:  # last: by now it is a text that every database takes
        _check_rules(provider.rules)
    if former_issuer:
        forget_provider(former_issuer)


def _set_secret(provider: IdentityProvider, secret: str | None, *, is_moved: bool) -> None:
    """Seal a new secret; the mask stands for the one that is stored, which opens for its own origin alone."""
    is_stored = secret is None or secret == provider.masked_secret
    if is_stored and provider.credential and is_moved:
        raise ValidationError("must be sent again, as the issuer has another host.", field="client_secret")
    if is_stored or secret is None:
        return
    if secret.startswith(MASK):
        raise ValidationError("this is a masked secret; send the complete one.", field="client_secret")
    if len(secret) > MAX_SECRET_LENGTH or not secret.isascii() or not secret.isprintable():
        problem = f"must have at most {MAX_SECRET_LENGTH} characters, all of them ASCII."
        raise ValidationError(problem, field="client_secret")
    provider.seal(secret)


def _check_rules(text: str) -> None:
    """Raise ValidationError for a line that is no rule, or that gives what does not exist."""
    for rule in read_rules(text):
        kind, name = rule.grant
        if kind is GrantKind.ROLE:
            exists = Role.objects.filter(name__iexact=name).exists()
        else:
            exists = Group.objects.filter(name=compose_name(name)).exists()
        if not exists:
            raise ValidationError(f"line {rule.line}: there is no {kind} named {name!r:.120}.", field="rules")


@transaction.atomic
def link_identity(*, user_id: int, issuer: str, subject: str) -> Identity:
    """Let a provider's subject log in as a user; raises Conflict if either is linked already, and ValidationError."""
    (user,) = rows_by_id(User.objects.live(), [user_id], field="user_id")
    if user.is_service:
        raise ValidationError("must not be a service account, which never logs in.", field="user_id")
    identity = Identity(user=user, issuer=issuer, subject=subject)
    save_or_refuse(identity, conflict="This subject or this user already has an identity at this issuer.")
    return identity


def unlink_identity(identity: Identity) -> None:
    """Delete an identity: its subject does not log in as this user any more. Sessions go on."""
    identity.delete()
