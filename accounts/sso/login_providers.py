"""The providers that users can log in with: those in the database, and one from the environment."""

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import Q

from accounts.sso.models import IdentityProvider
from gateway_project.errors import NotFound

ENVIRONMENT_SLUG = "sso"


@dataclass(frozen=True, slots=True)
class LoginChoice:
    """A button of a login page."""

    name: str
    url: str


def enabled_providers() -> list[IdentityProvider]:
    """All that users can log in with, by name."""
    return _with_environment(IdentityProvider.objects.enabled())


def provider_of(slug: str) -> IdentityProvider:
    """The enabled provider of this slug; raises NotFound."""
    return _with_slug(enabled_providers(), slug)


def reporting_provider(slug: str) -> IdentityProvider:
    """The provider of this slug that reports a logout, also a disabled one: sessions that began there can go on.

    Raises NotFound.
    """
    return _with_slug(_with_environment(IdentityProvider.objects.all()), slug)


def _with_environment(providers: Iterable[IdentityProvider]) -> list[IdentityProvider]:
    """These providers, and the one that the settings name."""
    from_environment = environment_provider()
    return [*providers] if from_environment is None else [*providers, from_environment]


def _with_slug(providers: Iterable[IdentityProvider], slug: str) -> IdentityProvider:
    for provider in providers:
        if provider.slug == slug:
            return provider
    raise NotFound("There is no identity provider at this address.")


def environment_provider() -> IdentityProvider | None:
    """The provider that the settings name; one in the database with its issuer or its slug comes first."""
    if not settings.GATEWAY_OIDC_ISSUER:
        return None
    same = Q(issuer=settings.GATEWAY_OIDC_ISSUER) | Q(slug=ENVIRONMENT_SLUG)
    return None if IdentityProvider.objects.filter(same).exists() else _from_settings()


def _from_settings() -> IdentityProvider:
    provider = IdentityProvider(
        name=settings.GATEWAY_OIDC_NAME,
        slug=ENVIRONMENT_SLUG,
        issuer=settings.GATEWAY_OIDC_ISSUER,
        client_id=settings.GATEWAY_OIDC_CLIENT_ID,
        scopes=settings.GATEWAY_OIDC_SCOPES,
        user_name_claim=settings.GATEWAY_OIDC_USER_NAME_CLAIM,
        display_name_claim=settings.GATEWAY_OIDC_DISPLAY_NAME_CLAIM,
        email_claim=settings.GATEWAY_OIDC_EMAIL_CLAIM,
        create_users=settings.GATEWAY_OIDC_CREATE_USERS,
        match_user_names=settings.GATEWAY_OIDC_MATCH_USER_NAMES,
        rules=settings.GATEWAY_OIDC_RULES,
    )
    provider.plain_secret = settings.GATEWAY_OIDC_CLIENT_SECRET
    return provider


def login_choices(next_path: str) -> list[LoginChoice]:
    """The buttons of a login page, which lead to `next_path` after the login."""
    query = urlencode({"next": next_path})
    return [LoginChoice(provider.name, f"{provider.login_path}?{query}") for provider in enabled_providers()]
