"""The product's own middleware."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase

from gateway_project.work.views import request_id

View = Callable[[HttpRequest], HttpResponseBase]


def name_request(get_response: View) -> View:
    """Every request has an id, as `correlation_id`, and its response carries it: it is found under it in the log."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        request.correlation_id = request_id(request.META)
        response = get_response(request)
        response.headers.setdefault("X-Svc-Request-ID", request.correlation_id)
        return response

    return middleware


# Pages of ours load nothing from anywhere else. unfold's menus (Alpine) evaluate attributes and set inline styles.
STRICT = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
CONSOLE = (
    "default-src 'self'; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "object-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)


def protect_pages(get_response: View) -> View:
    """Every response says what a browser may do with it; a view may say so itself."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        policy = CONSOLE if request.path.startswith("/admin") else STRICT
        response.headers.setdefault("Content-Security-Policy", policy)
        return response

    return middleware
