"""Access and refresh tokens: signed, short-lived, and bound to a session that can end before they do."""

import hashlib
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from django.conf import settings
from rest_framework_simplejwt.exceptions import TokenBackendError

from gateway_project.json_types import JsonObject

if TYPE_CHECKING:
    from rest_framework_simplejwt.backends import TokenBackend

ALGORITHM = "HS256"
AUDIENCE = ISSUER = "language-model-gateway"
LEEWAY_SECONDS = 10
MAX_LENGTH = 4096
SESSION_ID = re.compile(r"[0-9a-f]{32}\Z")
USER_ID = re.compile(r"[0-9]{1,18}\Z")
ACCESS, REFRESH = "access", "refresh"


class AccessToken(NamedTuple):
    """The claims of a valid access token: user, session (32 hexadecimal digits), and the public id of a key or "".

    A token that names a key is valid for work only, and counts as that key.
    """

    user_id: int
    session: str
    key: str = ""


class RefreshToken(NamedTuple):
    """The claims of a valid refresh token; of it only the digest is stored."""

    user_id: int
    session: str
    digest: str


def issue_access(*, user_id: int, session: str, key: str = "") -> str:
    """An access token for this user, session and perhaps key, valid for GATEWAY_ACCESS_TOKEN_SECONDS."""
    claims = {"key": key} if key else {}
    return _issue(ACCESS, user_id, session, uuid4().hex, settings.GATEWAY_ACCESS_TOKEN_SECONDS, **claims)


def issue_refresh(*, user_id: int, session: str) -> tuple[str, str]:
    """A refresh token for this user and session, and its digest."""
    token_id = uuid4().hex
    text = _issue(REFRESH, user_id, session, token_id, settings.GATEWAY_REFRESH_TOKEN_SECONDS)
    return text, _digest(token_id)


def read_access(text: str) -> AccessToken | None:
    """What a token says; None for a token that is forged, expired or of another kind."""
    claims = _claims(text, ACCESS)
    return AccessToken(int(claims["sub"]), claims["sid"], str(claims.get("key", ""))) if claims else None


def read_refresh(text: str) -> RefreshToken | None:
    """What a token says; None for a token that is forged, expired or of another kind."""
    claims = _claims(text, REFRESH)
    return RefreshToken(int(claims["sub"]), claims["sid"], _digest(str(claims.get("jti")))) if claims else None


def _issue(kind: str, user_id: int, session: str, token_id: str, seconds: int, **extra_claims: str) -> str:
    now = int(time.time())
    claims = {"token_type": kind, "sub": str(user_id), "sid": session, "jti": token_id, "iat": now, **extra_claims}
    return _backend(settings.GATEWAY_TOKEN_KEY).encode({**claims, "exp": now + seconds})


def _claims(text: str, kind: str) -> JsonObject | None:
    """The claims of a valid token of this kind; None for any other text."""
    if len(text) > MAX_LENGTH:
        return None
    claims = _verified_claims(text)
    user, session = claims.get("sub"), claims.get("sid")
    if claims.get("token_type") != kind or "exp" not in claims:
        return None
    if not isinstance(user, str) or not isinstance(session, str):
        return None
    return claims if USER_ID.match(user) and SESSION_ID.match(session) else None


def _verified_claims(text: str) -> JsonObject:
    """What a token says that one of the keys has signed; {} for any other text."""
    for key in (settings.GATEWAY_TOKEN_KEY, *settings.GATEWAY_TOKEN_KEY_FALLBACKS):
        with suppress(TokenBackendError, RecursionError):  # a header of a thousand brackets is JSON too
            return _backend(key).decode(text)  # type: ignore[arg-type]  # it is annotated as Token and takes a text
    return {}


def _digest(token_id: str) -> str:
    return hashlib.sha256(token_id.encode()).hexdigest()


def _backend(key: str) -> "TokenBackend":
    # Imported with the first token: it loads Django's test client and all JWT algorithms, 3 MB in each worker.
    from rest_framework_simplejwt.backends import TokenBackend

    return TokenBackend(ALGORITHM, key, audience=AUDIENCE, issuer=ISSUER, leeway=LEEWAY_SECONDS)
