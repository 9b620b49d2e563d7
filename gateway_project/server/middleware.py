"""The product's own middleware."""

from collections.abc import Callable

from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.template.loader import render_to_string
from django_redis.exceptions import ConnectionInterrupted

from gateway_project.api.problems import as_gateway_error, document
from gateway_project.console.site import wants_page
from gateway_project.errors import GatewayError
from gateway_project.server import paths
from gateway_project.server.http_delivery import error_response
from gateway_project.server.request_ids import request_id

View = Callable[[HttpRequest], HttpResponseBase]


def assign_request_id(get_response: View) -> View:
    """Sets `request.correlation_id`, the request's id in the log, and X-Svc-Request-ID on the response."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        correlation_id = request_id(request.META)
        request.correlation_id = correlation_id  # type: ignore[attr-defined]  # an attribute of our own
        response = get_response(request)
        response.headers.setdefault("X-Svc-Request-ID", correlation_id)
        return response

    return middleware


# Pages load nothing from other origins, and no script of their own text runs. Alpine, by which unfold's menus work,
# compiles the expressions in its attributes; its build without eval knows neither statements nor globals, which the
# templates of unfold use. Only administrators see these pages, and what users have written is in none of those
# attributes (tests/console/test_hostile.py).
STRICT = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
CONSOLE = (
    "default-src 'self'; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "object-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)


def set_content_security_policy(get_response: View) -> View:
    """Sets Content-Security-Policy on every response whose view has not set it."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        policy = CONSOLE if request.path.startswith(paths.CONSOLE) else STRICT
        response.headers.setdefault("Content-Security-Policy", policy)
        return response

    return middleware


class ErrorResponses:
    """Answers errors of the gateway and of its stores that a view outside the management API does not handle itself.

    An outage is a 503 and a write race a 409 there, too: a page for a browser, else the error document.
    """

    errors = (GatewayError, DatabaseError, InterfaceError, ConnectionInterrupted)

    def __init__(self, get_response: View) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponseBase | None:
        """The response to an exception of a view; None for a fault of ours, which Django reports."""
        error = as_gateway_error(exception) if isinstance(exception, self.errors) else None
        if error is None:
            return None
        if wants_page(request):
            response: HttpResponseBase = error_page(request, error)
        else:
            response = error_response(error, document=document(error)).to_django()
        response.headers["Cache-Control"] = "no-store"
        return response


def error_page(request: HttpRequest, error: GatewayError) -> HttpResponse:
    """A page that reads nothing from the database: the frame of other pages does, to name the user."""
    path = request.get_full_path() if request.method == "GET" else request.path
    page = render_to_string("shared/error.html", {"problem": error.sentence, "path": path})
    return HttpResponse(page, status=error.code, headers=error.headers)


class PageCompression(GZipMiddleware):
    """Compresses pages: a full list of the theme has 400 kB of class names. Data and streams stay as they are.

    What a page shows cannot be guessed by its length: Django masks the token of its forms anew each time, and makes
    the length random.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        is_page = not response.streaming and response.headers.get("Content-Type", "").startswith("text/html")
        return super().process_response(request, response) if is_page else response
