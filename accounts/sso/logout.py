"""The end of sessions: at the provider when it ends here, and here when it ends at the provider."""

import logging
from urllib.parse import urlencode
from uuid import UUID

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone

from accounts import sessions
from accounts.models import User
from accounts.sso.login_providers import provider_of
from accounts.sso.models import FederatedLogin, IdentityProvider
from accounts.sso.protocol.flow import spend_token
from accounts.sso.protocol.metadata import recall_provider
from accounts.sso.protocol.sealing import unseal_text
from accounts.sso.protocol.tokens import LEEWAY_SECONDS, LOGOUT_SECONDS, TokenRefused, read_logout_token
from gateway_project.console.audit import LOGIN
from gateway_project.errors import AuthenticationFailed, GatewayError, ValidationError
from gateway_project.json_types import JsonObject

log = logging.getLogger("gateway.sso")

# Pages that send the browser on by themselves: a form may not be redirected to another origin (form-action), and a
# cookie with SameSite=Strict is not sent on a way that began at another site.
PAGE_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'",
}


def landing_page(request: HttpRequest, url: str, title: str, link: str) -> HttpResponse:
    """A page that leads to the URL at once, and has a link for browsers that do not follow."""
    context = {"title": title, "url": url, "link": link}
    return TemplateResponse(request, "sso/landing.html", context, headers=PAGE_HEADERS)


def leave_provider(request: HttpRequest) -> HttpResponse | None:
    """The page that leads on to the provider's logout, for a session that began there; None for any other.

    It is made before the session ends, whose row it needs.
    """
    session_id = request.session.get(LOGIN)
    login = FederatedLogin.objects.filter(session_id=UUID(session_id)).first() if session_id else None
    if login is None:
        return None
    try:
        provider = provider_of(login.provider_slug)
        endpoint = recall_provider(provider.issuer).metadata().end_session_endpoint
    except GatewayError:
        return None
    if not endpoint or provider.issuer != login.issuer:
        return None
    link = f"Log out of {provider.name}, too"
    return landing_page(request, _logout_url(endpoint, provider, login), "You are logged out of the gateway", link)


def _logout_url(endpoint: str, provider: IdentityProvider, login: FederatedLogin) -> str:
    parameters = {
        "id_token_hint": unseal_text(login.id_token),
        "client_id": provider.client_id,
        "post_logout_redirect_uri": provider.post_logout_redirect_uri,
    }
    query = urlencode({name: value for name, value in parameters.items() if value})
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{query}"


def end_reported_sessions(provider: IdentityProvider, token: str) -> list[User]:
    """End the sessions that a logout token names; the users whose sessions ended, one entry for each session.

    Raises ValidationError for a token that is not accepted, and UpstreamError.
    """
    try:
        claims = read_logout_token(token, issuer=provider.issuer, client_id=provider.client_id)
    except TokenRefused as reason:
        log.warning("A logout token for %s was refused: %s.", provider.name, reason)
        raise ValidationError("The logout token is not valid.") from None
    with transaction.atomic():  # if it fails, the provider may send the token again
        return _end_sessions(provider, claims)


def _end_sessions(provider: IdentityProvider, claims: JsonObject) -> list[User]:
    try:
        spend_token(f"{provider.issuer} {claims['jti']}", seconds=LOGOUT_SECONDS + 2 * LEEWAY_SECONDS)
    except AuthenticationFailed:
        raise ValidationError("The logout token was used already.") from None
    subject, session_id = str(claims.get("sub") or ""), str(claims.get("sid") or "")
    logins = FederatedLogin.objects.named_by(provider.issuer, subject=subject, session_id=session_id)
    live = logins.filter(session__expires_at__gt=timezone.now()).select_related("session__user")
    return [login.session.user for login in live if sessions.end_session(login.session_id)]
