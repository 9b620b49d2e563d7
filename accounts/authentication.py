"""Authentication of the management API: an access token in the header or in a cookie."""

from uuid import UUID

from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from accounts import cookies
from accounts.models import Session, User
from accounts.querysets import SessionQuerySet
from accounts.tokens import AccessToken, RefreshToken, read_access, read_refresh
from gateway_project.api.access import Caller
from gateway_project.errors import AuthenticationFailed

SAFE = ("GET", "HEAD", "OPTIONS")


class AccessTokens(BaseAuthentication):
    """The Authorization header; anything but a valid access token is refused."""

    def authenticate(self, request: Request) -> tuple[User, Caller] | None:
        header = request.META.get("HTTP_AUTHORIZATION")
        if header is None:
            return None
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer":
            raise AuthenticationFailed
        caller = caller_of(token.strip())
        return caller.user, caller

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class SessionCookies(BaseAuthentication):
    """The access token's cookie of a browser; writes must come from the gateway's own origin."""

    def authenticate(self, request: Request) -> tuple[User, Caller] | None:
        token = request.COOKIES.get(cookies.USER_COOKIE)
        if not token:
            return None
        caller = caller_of(token)
        if request.method not in SAFE:
            cookies.refuse_foreign_origin(request)
        return caller.user, caller


class RefreshCookie(BaseAuthentication):
    """The refresh token's cookie, which outlives the access token's: it is accepted for logging out alone."""

    def authenticate(self, request: Request) -> tuple[User, Caller] | None:
        token = request.COOKIES.get(cookies.AUTH_COOKIE)
        if not token:
            return None
        claims = read_refresh(token)
        unused = Session.objects.filter(refresh_digest=claims.digest) if claims else Session.objects.none()
        caller = _caller(unused, claims)
        cookies.refuse_foreign_origin(request)
        return caller.user, caller


def caller_of(token: str) -> Caller:
    """The user of an access token, with their present features; raises AuthenticationFailed.

    A token that names a key is refused: it is valid for work only.
    """
    claims = read_access(token)
    return _caller(Session.objects.all(), None if claims is None or claims.key else claims)


def _caller(sessions: SessionQuerySet[Session], claims: AccessToken | RefreshToken | None) -> Caller:
    """The caller of a token's claims, while the session is live and the user is usable."""
    if claims is None:
        raise AuthenticationFailed
    session = sessions.live().with_user().filter(pk=UUID(claims.session)).first()
    if session is None or session.user_id != claims.user_id or not session.user.may_log_in:
        raise AuthenticationFailed
    user = session.user
    features = frozenset(() if user.is_admin else user.feature_names())
    return Caller(user=user, features=features, is_admin=user.is_admin, session=session.pk)
