"""ID tokens and logout tokens of providers: their signatures, and every claim that says whom they are for."""

import base64
import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from accounts.sso.models import MAX_SUBJECT_LENGTH
from accounts.sso.protocol.metadata import KEY_TYPES, recall_provider
from gateway_project.json_types import JsonObject

if TYPE_CHECKING:
    from authlib.oauth2.claims import JWTClaims

MAX_LENGTH = 64 * 1024
LEEWAY_SECONDS = 60
LOGOUT_SECONDS = 600  # how old a logout token may be
LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"
MAX_CANDIDATES = 5
TYPES = (None, "JWT")
LOGOUT_TYPES = (*TYPES, "logout+jwt")


class TokenRefused(Exception):
    """A token that is not accepted; the message says why, for the log."""


def read_id_token(text: object, *, issuer: str, client_id: str, nonce: str, access_token: str) -> JsonObject:
    """The claims of an ID token. Raises TokenRefused and UpstreamError."""
    from authlib.oidc.core import CodeIDToken

    header, claims = _verify_signature(text, issuer, TYPES)
    parameters = {"nonce": nonce, "client_id": client_id, "access_token": access_token}
    _validate(CodeIDToken(claims, header, _expected_claims(issuer, client_id), parameters))
    _check_audience(claims, client_id)
    if not _is_subject(claims["sub"]):
        raise TokenRefused("its subject is not 1 to 255 visible characters of ASCII")
    return claims


def read_logout_token(text: object, *, issuer: str, client_id: str) -> JsonObject:
    """The claims of a logout token, whose `jti` the caller checks. Raises TokenRefused and UpstreamError."""
    from authlib.oauth2.claims import JWTClaims

    header, claims = _verify_signature(text, issuer, LOGOUT_TYPES)
    _validate(JWTClaims(claims, header, {**_expected_claims(issuer, client_id), "iat": {"essential": True}}))
    events, token_id = claims.get("events"), claims.get("jti")
    if not isinstance(events, dict) or not isinstance(events.get(LOGOUT_EVENT), dict):
        raise TokenRefused("it reports no logout")
    if "nonce" in claims:
        raise TokenRefused("it has a nonce, as an ID token has")
    if not isinstance(token_id, str) or not token_id:
        raise TokenRefused("it has no jti")
    if time.time() - claims["iat"] > LOGOUT_SECONDS:
        raise TokenRefused("it is too old")
    if not _names_somebody(claims):
        raise TokenRefused("it has neither a subject nor a session")
    return claims


def _names_somebody(claims: Mapping[str, object]) -> bool:
    names = [claims[name] for name in ("sub", "sid") if claims.get(name) is not None]
    return bool(names) and all(_is_subject(name) for name in names)


def _is_subject(value: object) -> bool:
    is_short = isinstance(value, str) and 0 < len(value) <= MAX_SUBJECT_LENGTH
    return is_short and all("!" <= character <= "~" for character in str(value))


def _expected_claims(issuer: str, client_id: str) -> dict:
    return {"iss": {"essential": True, "value": issuer}, "aud": {"essential": True, "value": client_id}}


def _validate(claims: "JWTClaims") -> None:
    from joserfc.errors import JoseError

    try:
        claims.validate(leeway=LEEWAY_SECONDS)
    except (JoseError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise TokenRefused(f"its claims are not valid ({error!s:.200})") from None


def _check_audience(claims: Mapping[str, object], client_id: str) -> None:
    """With several audiences, the party that the token was issued to must be this client."""
    audience = claims.get("aud")
    if isinstance(audience, list) and len(audience) > 1 and claims.get("azp") != client_id:
        raise TokenRefused("it has several audiences, and does not say that it was issued to the gateway")


def _verify_signature(text: object, issuer: str, types: tuple[str | None, ...]) -> tuple[JsonObject, JsonObject]:
    """Header and claims of a token that a key of the issuer has signed."""
    from joserfc import jwt
    from joserfc.errors import JoseError

    if not isinstance(text, str) or len(text) > MAX_LENGTH or text.count(".") != 2:
        raise TokenRefused("it is not a signed token")
    header = _header(text)
    algorithm, key_id = header.get("alg"), header.get("kid") or ""
    if not isinstance(algorithm, str) or algorithm not in KEY_TYPES:
        raise TokenRefused(f"its algorithm {algorithm!r:.50} is not accepted")
    if not isinstance(key_id, str) or header.get("typ") not in types or "crit" in header:
        raise TokenRefused("its header belongs to another type of token")
    for candidate in recall_provider(issuer).keys(algorithm, key_id)[:MAX_CANDIDATES]:
        try:
            token = jwt.decode(text, candidate.key, algorithms=[algorithm])
            return header, token.claims
        except (JoseError, ValueError, TypeError, RecursionError):
            continue
    raise TokenRefused("none of the provider's known keys has signed it")


def _header(text: str) -> JsonObject:
    part = text.partition(".")[0]
    try:
        header = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise TokenRefused("its header cannot be read")
    return header
