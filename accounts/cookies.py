"""The two cookies of a browser's login, and where requests that carry them may come from."""

from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from accounts.sessions import Tokens
from gateway_project.errors import PermissionDenied

USER_COOKIE, AUTH_COOKIE = "SvcUserCookie", "SvcAuthCookie"
# The refresh token goes where it is used and nowhere else.
PATHS = {USER_COOKIE: "/", AUTH_COOKIE: "/auth"}


def set_cookies(response: HttpResponseBase, tokens: Tokens) -> None:
    """Set both cookies, each for as long as its token lives."""
    _set_cookie(response, USER_COOKIE, tokens.access, settings.GATEWAY_ACCESS_TOKEN_SECONDS)
    _set_cookie(response, AUTH_COOKIE, tokens.refresh, settings.GATEWAY_REFRESH_TOKEN_SECONDS)


def clear_cookies(response: HttpResponseBase) -> None:
    """Make the browser forget both."""
    for name in PATHS:
        _set_cookie(response, name, "", 0)


def _set_cookie(response: HttpResponseBase, name: str, value: str, seconds: int) -> None:
    # Secure also without TLS: browsers take localhost for secure, and nothing else should be served in the clear.
    response.set_cookie(name, value, max_age=seconds, path=PATHS[name], secure=True, httponly=True, samesite="Strict")


def refuse_foreign_origin(request: HttpRequest) -> None:
    """Raise PermissionDenied unless the request says that a page of ours sends it."""
    origin = request.META.get("HTTP_ORIGIN")
    same_site = request.META.get("HTTP_SEC_FETCH_SITE") == "same-origin"
    if origin not in own_origins(request) and not (origin is None and same_site):
        raise PermissionDenied("Writes with a cookie must come from the gateway's own origin.")


def own_origins(request: HttpRequest) -> set[str]:
    """The origin of the base URL, and that of the request's host, which ALLOWED_HOSTS has to allow."""
    base = urlsplit(settings.GATEWAY_BASE_URL)
    return {f"{base.scheme}://{base.netloc}".lower(), f"{request.scheme}://{request.get_host()}".lower()}
