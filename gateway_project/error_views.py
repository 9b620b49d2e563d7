"""Django's error handlers, for errors outside of views: unknown paths, malformed requests, crashes."""

import logging

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.urls import reverse

from gateway_project.console.site import console_site, wants_page
from gateway_project.errors import InternalError, PermissionDenied, ValidationError
from gateway_project.server.http_delivery import error_response
from gateway_project.server.middleware import error_page
from gateway_project.work.doors import nothing_at

log = logging.getLogger("gateway.hosts")

SHOWN_CHARACTERS = 100


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    message = _host_message(request) if isinstance(exception, DisallowedHost) else "The request is malformed."
    return error_response(ValidationError(message)).to_django()


def _host_message(request: HttpRequest) -> str:
    """Names the refused host and logs it; anyone can send one, so it is truncated, and logged once a minute."""
    message = f"The host {request.META.get('HTTP_HOST', '')[:SHOWN_CHARACTERS]!a} is not in ALLOWED_HOSTS."
    log.warning(message)
    return message


def refuse_permission(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    return error_response(PermissionDenied()).to_django()


def not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    if request.path == "/" and wants_page(request):
        return HttpResponseRedirect(reverse(_first_page(request)))  # a browser at the address that quickstart prints
    return error_response(nothing_at(request.path)).to_django()


def _first_page(request: HttpRequest) -> str:
    """The pages of a logged-in user without the role admin; else the console."""
    user = getattr(request, "user", None)
    is_user = settings.GATEWAY_USER_PAGES and user is not None and user.is_authenticated and not user.is_staff
    return "me:overview" if is_user else "admin:index"


def server_error(request: HttpRequest) -> HttpResponseBase:
    return error_response(InternalError()).to_django()


def refuse_csrf(request: HttpRequest, reason: str = "") -> HttpResponseBase:
    text = "This form has expired or does not come from a page of the gateway. Open the page again."
    site = console_site()
    if wants_page(request) and request.path.startswith(reverse("admin:index")) and site.has_permission(request):
        return site.refusal(request, "This form", text, PermissionDenied.code)
    error = PermissionDenied(text)
    return error_page(request, error) if wants_page(request) else error_response(error).to_django()
