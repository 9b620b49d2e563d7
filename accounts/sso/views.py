"""The addresses below /auth/sso/{slug}/: where a login begins, where browsers come back, and reported logouts."""

from collections.abc import Callable, Mapping
from functools import partial, wraps
from uuid import UUID

import orjson
from django.conf import settings
from django.contrib.auth import login as open_console
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.http.request import QueryDict
from django.template.response import TemplateResponse
from django.utils.http import url_has_allowed_host_and_scheme

from accounts import cookies, sessions
from accounts.console import LoginRequest
from accounts.guessing.throttle import note_once
from accounts.models import User
from accounts.refusals.failed_logins import NOBODY, failed_logins
from accounts.sso.login_providers import provider_of, reporting_provider
from accounts.sso.logout import PAGE_HEADERS, end_reported_sessions, landing_page
from accounts.sso.models import FederatedLogin, IdentityProvider
from accounts.sso.operations import BACKCHANNEL, CALLBACK, START
from accounts.sso.protocol import flow
from accounts.sso.protocol.sealing import seal_text
from accounts.sso.provisioning import LoginRefused, user_of
from gateway_project.api import audit
from gateway_project.api.documents import JSON
from gateway_project.api.openapi.endpoints import endpoint
from gateway_project.console.audit import record_session_event
from gateway_project.console.site import wants_page
from gateway_project.errors import GatewayError, ValidationError
from gateway_project.server import paths
from gateway_project.server.http_delivery import complete_response

COOKIE, COOKIE_PATH = "SvcSignOn", "/auth/sso"
BACKEND = "accounts.console.Backend"
# Pages of these paths use the console's session; everything else uses the cookies of the management API.
CONSOLE, CONSOLE_PATHS = f"{paths.CONSOLE}/", (f"{paths.CONSOLE}/", f"{paths.USER_PAGES}/")
MAX_NEXT_LENGTH = 500

View = Callable[..., HttpResponseBase]


def _with_pages(view: View) -> View:
    """The view, whose errors are pages for browsers; no answer may be stored."""

    @wraps(view)
    def answer(request: HttpRequest, **kwargs: str) -> HttpResponseBase:
        try:
            response = view(request, **kwargs)
        except GatewayError as error:
            if not wants_page(request):
                raise
            context = {"problem": error.sentence, "login_path": _login_page()}
            headers = {**PAGE_HEADERS, **error.headers}
            response = TemplateResponse(request, "sso/refused.html", context, status=error.code, headers=headers)
        response.headers["Cache-Control"] = "no-store"
        return response

    return answer


def _login_page() -> str:
    return f"{paths.USER_PAGES if settings.GATEWAY_USER_PAGES else paths.CONSOLE}/login/"


@endpoint(get=START)
@_with_pages
def start(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Send the browser to the provider."""
    provider = provider_of(slug)
    url, login_cookie = flow.begin_login(provider, read_next(request.GET))
    response = HttpResponseRedirect(url)
    # Lax: the browser comes back from another site.
    response.set_cookie(
        COOKIE,
        login_cookie,
        max_age=flow.LOGIN_SECONDS,
        path=COOKIE_PATH,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
    return response


def read_next(query: QueryDict) -> str:
    """The path of the gateway to go to after the login; '' without one. Raises ValidationError for any other."""
    path = query.get("next", "")
    is_local = path.startswith("/") and url_has_allowed_host_and_scheme(path, allowed_hosts=None)
    if path and not (is_local and path.isprintable() and "\\" not in path and len(path) <= MAX_NEXT_LENGTH):
        raise ValidationError("must be a path of the gateway.", parameter="next")
    return path


@endpoint(get=CALLBACK)
@_with_pages
def callback(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Finish the login of a browser that comes back."""
    provider = provider_of(slug)
    try:
        authentication = flow.finish_login(provider, _parameters(request.GET), request.COOKIES.get(COOKIE, ""))
    except GatewayError as error:
        _record_refusal(request, provider, error)
        raise
    user, session_id, tokens = _open_session(request, provider, authentication)
    response = _arrival(request, user, session_id, tokens, authentication.next_path)
    response.delete_cookie(COOKIE, path=COOKIE_PATH, samesite="Lax")
    return response


def _record_refusal(request: HttpRequest, provider: IdentityProvider, error: GatewayError) -> None:
    """Record it as a refused login: the first of its kind from an address in a window, as anybody can cause them."""
    message = f"A login with {provider.name} was refused: {flow.refusal_reason(error)}."
    address = request.META.get("REMOTE_ADDR", "")
    event = partial(record_session_event, request, message, severity="warning", is_refusal=True)
    record_failure = partial(failed_logins.record, event, address=address, account=NOBODY)
    note_once(record_failure, address, "sso", provider.slug, error.message)


def _parameters(query: QueryDict) -> Mapping[str, str]:
    """The parameters of the answer; raises ValidationError if one is there twice."""
    if repeated := [name for name, values in query.lists() if len(values) > 1]:
        raise ValidationError("must be sent once.", parameter=repeated[0][:100]) from flow.AnswerRefused(
            "a parameter was sent twice"
        )
    return {name: str(value) for name, value in query.items()}


def _open_session(
    request: HttpRequest, provider: IdentityProvider, authentication: flow.Authentication
) -> tuple[User, UUID, sessions.Tokens]:
    """A session of the user whom the provider has authenticated; raises GatewayError."""
    try:
        with transaction.atomic():
            user = user_of(provider, authentication.claims, _actor(request, provider))
            _refuse_from_console(user, authentication.next_path)
            session_id, tokens = sessions.start_session(
                user, device=request.META.get("HTTP_USER_AGENT", ""), address=request.META.get("REMOTE_ADDR", "")
            )
            _remember(session_id, provider, authentication)
            record_session_event(request, f"{user.username} logged in with {provider.name}.", user=user)
    except LoginRefused as error:
        record_session_event(request, error.event, user=error.user, severity="warning")
        raise
    return user, session_id, tokens


def _leads_to(next_path: str, prefixes: str | tuple[str, ...]) -> bool:
    """Whether a path begins so; the slash at its end may be missing."""
    return f"{next_path.partition('?')[0]}/".startswith(prefixes)


def _refuse_from_console(user: User, next_path: str) -> None:
    if _leads_to(next_path, CONSOLE) and not user.is_staff and not settings.GATEWAY_USER_PAGES:
        raise LoginRefused(
            "The console is for users with the role admin.",
            "A user without the role admin was refused by the console.",
            user,
        )


def _remember(session_id: UUID, provider: IdentityProvider, authentication: flow.Authentication) -> None:
    """Store how the session began, for its end."""
    sid = authentication.claims.get("sid")
    FederatedLogin.objects.create(
        session_id=session_id,
        provider_slug=provider.slug,
        issuer=provider.issuer,
        subject=authentication.subject,
        provider_session=sid if isinstance(sid, str) and len(sid) <= 255 and sid.isprintable() else "",
        id_token=seal_text(authentication.id_token),
    )


def _actor(request: HttpRequest, provider: IdentityProvider) -> audit.Actor:
    """The provider makes these changes, on behalf of nobody here."""
    return audit.Actor(
        correlation_id=getattr(request, "correlation_id", ""),
        address=request.META.get("REMOTE_ADDR", ""),
        operator=f"identity provider {provider.name}",
    )


def _arrival(
    request: HttpRequest, user: User, session_id: UUID, tokens: sessions.Tokens, next_path: str
) -> HttpResponseBase:
    """A page that leads on, with a session of the console; or the tokens, as POST /auth/login gives them."""
    if _leads_to(next_path, CONSOLE_PATHS):
        console_request: LoginRequest = request  # type: ignore[assignment]  # with an attribute more
        console_request.login = session_id
        open_console(request, user, backend=BACKEND)
        return landing_page(request, next_path, "You are logged in", "Continue")
    if next_path:
        response: HttpResponseBase = landing_page(request, next_path, "You are logged in", "Continue")
    else:
        body = orjson.dumps({"code": 200, "message": "Logged in."})
        response = complete_response(200, JSON, body).to_django()
    cookies.set_cookies(response, tokens)
    return response


@endpoint(post=BACKCHANNEL)
def backchannel_logout(request: HttpRequest, slug: str) -> HttpResponseBase:
    """End the sessions of a user who has logged out at the provider."""
    provider = reporting_provider(slug)
    users = end_reported_sessions(provider, request.POST.get("logout_token", ""))
    for user in users:
        message = f"{user.username} logged out at {provider.name}: the session ended."
        record_session_event(request, message, user=user, operation="logout")
    return HttpResponse(status=200, headers={"Cache-Control": "no-store"})
