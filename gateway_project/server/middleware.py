"""The product's own middleware."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase
from django.middleware.gzip import GZipMiddleware

from gateway_project.server import paths
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


class PageCompression(GZipMiddleware):
    """Compresses pages: a full list of the theme has 400 kB of class names. Data and streams stay as they are.

    What a page shows cannot be guessed by its length: Django masks the token of its forms anew each time, and makes
    the length random.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        is_page = not response.streaming and response.headers.get("Content-Type", "").startswith("text/html")
        return super().process_response(request, response) if is_page else response
