"""What the pages for ordinary users share: who may open them, what is checked first, and how a refusal looks."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from uuid import UUID

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import resolve, reverse
from unfold.settings import get_config

from gateway_project.api import audit
from gateway_project.api.access import Caller, require_licence
from gateway_project.api.write_limit import count_write
from gateway_project.console.audit import LOGIN
from gateway_project.console.site import NOT_FOUND, has_live_login, wants_page
from gateway_project.errors import GatewayError

Page = Callable[..., HttpResponseBase]
CSP = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "object-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
SECTIONS = (
    ("me:overview", "Overview"),
    ("me:keys", "API keys"),
    ("me:models", "Models"),
    ("me:groups", "Groups"),
    ("me:usage", "Usage"),
    ("me:requests", "Requests"),
    ("me:access", "Access"),
    ("me:account", "Account"),
)
HEADERS = {"Cache-Control": "no-store", "Content-Security-Policy": CSP}


def hide_when_off(view: Page) -> Page:
    """The view, which does not exist while GATEWAY_USER_PAGES is off."""

    @wraps(view)
    def answer(request: HttpRequest, *args: object, **options: object) -> HttpResponseBase:
        if not settings.GATEWAY_USER_PAGES:
            raise Http404
        return view(request, *args, **options)

    return answer


def page(view: Page) -> Page:
    """The view for users with a live login, after the checks of licence and writes; errors are pages."""

    @hide_when_off
    @wraps(view)
    def answer(request: HttpRequest, *args: object, **options: object) -> HttpResponseBase:
        if not request.user.is_authenticated or not has_live_login(request):
            return redirect_to_login(request.path, reverse("me:login"))
        try:
            require_licence()
            count_write(caller(request), str(request.method))
            with audit.acting_as(lambda: actor(request)):
                return view(request, *args, **options)
        except GatewayError as error:
            context = {"problem": error.sentence}
            return show_page(request, "refused", "Not possible", context, status=error.code, headers=error.headers)
        except Http404:
            if not wants_page(request):
                raise
            title, problem, status = NOT_FOUND
            return show_page(request, "refused", title, {"problem": problem}, status=status)

    return answer


@page
def redirect_to_slash(request: HttpRequest, address: str) -> HttpResponseBase:
    """To the page whose address lacks its last slash; 404 at an address that no page has."""
    path = f"{request.path}/"
    if request.method != "GET" or address.endswith("/") or resolve(path).url_name == "missing":
        raise Http404
    return HttpResponseRedirect(f"{path}?{query}" if (query := request.META["QUERY_STRING"]) else path)


def caller(request: HttpRequest) -> Caller:
    """The user of the page, as the Caller that services and the log take."""
    return Caller(
        user=request.user, is_admin=getattr(request.user, "is_admin", False), session=UUID(request.session[LOGIN])
    )


def featured_caller(request: HttpRequest) -> Caller:
    """The same with the user's features, where the page is for more than the user's own."""
    own = caller(request)
    return replace(own, features=frozenset(own.user.feature_names()))


def actor(request: HttpRequest, by: Caller | None = None) -> audit.Actor:
    """The same, as the log names who made a change."""
    return audit.Actor(
        by or caller(request), getattr(request, "correlation_id", ""), request.META.get("REMOTE_ADDR", "")
    )


def context_of(title: str) -> dict[str, object]:
    """What every page shows."""
    return {"title": title, "colors": get_config()["COLORS"], "sections": SECTIONS}


def show_page(
    request: HttpRequest,
    name: str,
    title: str,
    context: Mapping[str, object],
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> HttpResponse:
    """A page of templates/me/."""
    values = context_of(title) | {"section": name, "current": f"me:{name}"} | dict(context)
    return TemplateResponse(request, f"me/{name}.html", values, status=status, headers={**HEADERS, **(headers or {})})
