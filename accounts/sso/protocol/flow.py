"""The authorisation code flow: where a browser is sent, and whom the provider says it has sent back.

A login in progress stands in a sealed cookie of the browser that began it. So nobody can finish a login in another
browser, and nothing is stored for those who never come back. Each state can be used once.
"""

import json
import logging
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING

from django.db import IntegrityError, transaction
from django.utils import timezone

from accounts.sso.claim_rules import EMAIL_DOMAIN, EMAIL_VERIFIED, claim_value, read_rules
from accounts.sso.models import IdentityProvider, SpentToken
from accounts.sso.protocol.http import CANNOT_BE_USED, AuthlibSession, get_json
from accounts.sso.protocol.metadata import Metadata, recall_provider
from accounts.sso.protocol.sealing import seal_text, unseal_text
from accounts.sso.protocol.tokens import TokenRefused, read_id_token
from gateway_project.errors import AuthenticationFailed, GatewayError, PermissionDenied, ProviderError, UpstreamError
from gateway_project.json_types import JsonObject
from providers.credentials import CredentialUnreadable

if TYPE_CHECKING:
    from authlib.oauth2.client import OAuth2Client

log = logging.getLogger("gateway.sso")

LOGIN_SECONDS = 600
MAX_PARAMETER_LENGTH = 8192
START_AGAIN = "This login began in another browser, was used already, or is too old. Log in again."
NOT_ACCEPTED = "The answer of the identity provider was not accepted. Log in again, or tell an administrator."


class AnswerRefused(Exception):
    """The cause of an error of finish_login(), for the audit; without tokens, codes, states and parameters."""


@dataclass(frozen=True, slots=True)
class LoginInProgress:
    """What the browser keeps between its two requests, sealed."""

    slug: str
    issuer: str
    state: str
    nonce: str
    code_verifier: str
    next_path: str


@dataclass(frozen=True, slots=True)
class Authentication:
    """Whom a provider has authenticated: what it claims of them, and the path that the browser wants to go to."""

    claims: JsonObject
    id_token: str
    next_path: str

    @property
    def subject(self) -> str:
        return str(self.claims["sub"])


def begin_login(provider: IdentityProvider, next_path: str) -> tuple[str, str]:
    """The address at the provider to send the browser to, and the cookie. Raises UpstreamError."""
    metadata = recall_provider(provider.issuer, fetched_at=provider.fetched_at).metadata()
    login = LoginInProgress(
        slug=provider.slug,
        issuer=provider.issuer,
        state=secrets.token_urlsafe(32),
        nonce=secrets.token_urlsafe(32),
        code_verifier=secrets.token_urlsafe(48),
        next_path=next_path,
    )
    url, _ = _client(provider, metadata).create_authorization_url(
        metadata.authorization_endpoint, state=login.state, nonce=login.nonce, code_verifier=login.code_verifier
    )
    return url, seal_text(json.dumps(asdict(login)))


def finish_login(provider: IdentityProvider, parameters: Mapping[str, str], cookie: str) -> Authentication:
    """Whom the provider has authenticated, by the parameters that the browser came back with.

    Raises AuthenticationFailed, PermissionDenied and UpstreamError.
    """
    login = _login_in_progress(provider, parameters.get("state", ""), cookie)
    metadata = recall_provider(provider.issuer, fetched_at=provider.fetched_at).metadata()
    _check_issuer(metadata, parameters)
    spend_token(login.state, seconds=LOGIN_SECONDS)
    if error := parameters.get("error"):
        log.info("The identity provider %s answered with the error %.100r.", provider.name, error)
        raise PermissionDenied(f"{provider.name} did not log you in.") from AnswerRefused("the provider sent an error")
    token = _exchange_code(provider, metadata, login, parameters.get("code", ""))
    access_token = token.get("access_token")
    access_token = access_token if isinstance(access_token, str) else ""
    try:
        id_token = token.get("id_token")
        claims = read_id_token(
            id_token,
            issuer=provider.issuer,
            client_id=provider.client_id,
            nonce=login.nonce,
            access_token=access_token,
        )
    except TokenRefused as reason:
        log.warning("An ID token of %s was refused: %s.", provider.name, reason)
        raise AuthenticationFailed(NOT_ACCEPTED) from AnswerRefused(f"its ID token was not accepted, as {reason}")
    return Authentication(_with_user_info(provider, metadata, claims, access_token), str(id_token), login.next_path)


def refusal_reason(error: GatewayError) -> str:
    """Why finish_login() refused, for the audit, in the words of a sentence about the login."""
    if isinstance(error, UpstreamError):
        return "the identity provider cannot be used"
    return str(error.__cause__) if isinstance(error.__cause__, AnswerRefused) else error.message.rstrip(".")


def spend_token(token: str, *, seconds: int) -> None:
    """Note that a token is used, which is refused for age after so many seconds; raises AuthenticationFailed."""
    digest = sha256(token.encode()).hexdigest()
    try:
        with transaction.atomic():
            SpentToken(digest=digest, expires_at=timezone.now() + timedelta(seconds=seconds)).save(force_insert=True)
    except IntegrityError:
        raise AuthenticationFailed(START_AGAIN) from AnswerRefused("it has ended already")


def _login_in_progress(provider: IdentityProvider, state: str, cookie: str) -> LoginInProgress:
    text = unseal_text(cookie, max_age=LOGIN_SECONDS)
    login = LoginInProgress(**json.loads(text)) if text else None
    if login is None or not compare_digest(login.state.encode(), state.encode()):
        raise AuthenticationFailed(START_AGAIN) from AnswerRefused("it began in another browser, or is too old")
    if (login.slug, login.issuer) != (provider.slug, provider.issuer):  # the answer of another provider: a mix-up
        log.warning("The answer to a login with %s came to the address of %s.", login.slug, provider.slug)
        raise AuthenticationFailed(NOT_ACCEPTED) from AnswerRefused("it began with another provider")
    return login


def _check_issuer(metadata: Metadata, parameters: Mapping[str, str]) -> None:
    """RFC 9207: an answer that names its issuer must name this one, and must name it if the provider always does."""
    issuer = parameters.get("iss")
    if issuer != metadata.issuer and (issuer is not None or metadata.sends_issuer):
        log.warning("An answer for %s names the issuer %.200r.", metadata.issuer, issuer)
        raise AuthenticationFailed(NOT_ACCEPTED) from AnswerRefused("the answer does not name the provider's issuer")


def _exchange_code(
    provider: IdentityProvider, metadata: Metadata, login: LoginInProgress, code: str
) -> Mapping[str, object]:
    from authlib.oauth2 import OAuth2Error

    if not code or len(code) > MAX_PARAMETER_LENGTH:
        raise AuthenticationFailed(NOT_ACCEPTED) from AnswerRefused("it has no code")
    try:
        return _client(provider, metadata).fetch_token(
            metadata.token_endpoint,
            grant_type="authorization_code",
            code=code,
            code_verifier=login.code_verifier,
            redirect_uri=provider.redirect_uri,
        )
    except OAuth2Error as error:
        log.warning("The token endpoint of %s answered with the error %.100r.", provider.name, error.error)
        raise AuthenticationFailed(NOT_ACCEPTED) from AnswerRefused("the provider did not accept its code")
    except (ValueError, TypeError, KeyError, AttributeError):
        log.warning("The answer of the token endpoint of %s is not a token.", provider.name)
        raise ProviderError(CANNOT_BE_USED) from None


def _client(provider: IdentityProvider, metadata: Metadata) -> "OAuth2Client":
    from authlib.oauth2.client import OAuth2Client

    try:
        secret = provider.opened_secret()
    except CredentialUnreadable:
        log.error(
            "The client secret of %s cannot be decrypted with the current encryption keys: enter it again.",
            provider.name,
        )
        raise ProviderError(CANNOT_BE_USED) from None
    return OAuth2Client(
        AuthlibSession(),
        client_id=provider.client_id,
        client_secret=secret,
        token_endpoint_auth_method=metadata.auth_method if secret else "none",
        scope=provider.scopes,
        redirect_uri=provider.redirect_uri,
        code_challenge_method="S256",
    )


def _with_user_info(
    provider: IdentityProvider, metadata: Metadata, claims: JsonObject, access_token: str
) -> JsonObject:
    """The claims with those that only the UserInfo endpoint has, if the provider's settings use any that are missing.

    Without an answer from there, the ID token alone counts, unless rules would take away what a missing claim gives:
    then it raises UpstreamError.
    """
    rule_claims = _missing_names(claims, _names_in_rules(provider))
    is_complete = not rule_claims and not _missing_names(claims, _names_in_profile(provider))
    if is_complete or not (metadata.userinfo_endpoint and access_token):
        return claims
    try:
        more = get_json(metadata.userinfo_endpoint, {"Authorization": f"Bearer {access_token}"})
    except UpstreamError:
        log.warning("The UserInfo endpoint of %s does not answer.", provider.name)
        if rule_claims:
            raise
        return claims
    if more.get("sub") != claims["sub"]:
        log.warning("The UserInfo endpoint of %s answered for another subject.", provider.name)
        raise AuthenticationFailed(NOT_ACCEPTED) from AnswerRefused("its UserInfo belongs to another subject")
    return {**more, **claims}


def _names_in_rules(provider: IdentityProvider) -> set[str]:
    """The claims that decide about roles and groups."""
    names = {rule.claim for rule in read_rules(provider.rules)}
    if EMAIL_DOMAIN in names:
        names |= {provider.email_claim, EMAIL_VERIFIED}
    return names


def _names_in_profile(provider: IdentityProvider) -> set[str]:
    return {provider.user_name_claim, provider.display_name_claim, provider.email_claim}


def _missing_names(claims: JsonObject, names: set[str]) -> set[str]:
    return {name for name in names - {"", EMAIL_DOMAIN} if claim_value(claims, name) is None}
