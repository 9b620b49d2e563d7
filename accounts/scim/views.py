"""The routes of SCIM: the token, the body and the answer of each request.

The library of SCIM's models is loaded by the first request that has the token: most gateways have no directory.
"""

from collections.abc import Mapping

import orjson
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, re_path
from django.views.decorators.csrf import csrf_exempt

from accounts.scim.errors import error_answer
from accounts.scim.token import DIRECTORY as NAME
from accounts.scim.token import actor_of, require_token
from gateway_project.api import audit
from gateway_project.api.access import DIRECTORY, require_licence_for
from gateway_project.api.openapi.endpoints import Operation, View, declare_operations, refuse_method
from gateway_project.api.write_limit import count_write_of, take_back
from gateway_project.database.guarding import override_access_tests
from gateway_project.errors import UnsupportedMediaType, ValidationError
from gateway_project.server.bodies import MAX_MANAGEMENT_BYTES, read_body

REASON = "The directory says so."  # for changes that break access tests
SCIM_JSON = "application/scim+json"
MEDIA_TYPES = (SCIM_JSON, "application/json", "")
WITH_BODY = ("POST", "PUT", "PATCH")
ENDPOINTS = ("Users", "Groups")
ID = "(?P<id>[^/]{1,200})"
ITEM = {"get": "read_row", "put": "replace_row", "patch": "patch_row", "delete": "delete_row"}
# Path, name, and the function of handlers.py for each method.
ROUTES = (
    ("ServiceProviderConfig", "config", {"get": "read_config"}),
    ("ResourceTypes", "resource-types", {"get": "list_resource_types"}),
    (f"ResourceTypes/{ID}", "resource-type", {"get": "read_resource_type"}),
    ("Schemas", "schemas", {"get": "list_schemas"}),
    (f"Schemas/{ID}", "schema", {"get": "read_schema"}),
    *((endpoint, endpoint.lower(), {"get": "list_rows", "post": "create_row"}) for endpoint in ENDPOINTS),
    *((rf"{endpoint}/\.search", f"{endpoint.lower()}-search", {"post": "search_rows"}) for endpoint in ENDPOINTS),
    *((f"{endpoint}/{ID}", f"{endpoint.lower()}-item", ITEM) for endpoint in ENDPOINTS),
    (r"\.search", "search-all", {"post": "refuse_unsupported"}),
    ("Bulk", "bulk", {"post": "refuse_unsupported"}),
    ("Me", "me", dict.fromkeys(("get", "post", "put", "patch", "delete"), "refuse_unsupported")),
    ("", "root", dict.fromkeys(("get", "post", "put", "patch", "delete"), "refuse_unknown")),
    ("(?P<rest>.*)", "unknown", dict.fromkeys(("get", "post", "put", "patch", "delete"), "refuse_unknown")),
)


def scim_view(pattern: str, handlers: Mapping[str, str]) -> View:
    """The view of a path that calls these functions of handlers.py by method."""
    endpoint = pattern.partition("/")[0]
    allowed = [method.upper() for method in handlers] + (["HEAD"] if "get" in handlers else [])

    @csrf_exempt  # no cookie opens it
    def view(request: HttpRequest, **path: str) -> HttpResponse:
        try:
            require_token(request)
            if request.method not in allowed:
                raise refuse_method(allowed)
            method = "get" if request.method == "HEAD" else str(request.method).lower()
            return _answer(request, handlers[method], {"endpoint": endpoint, **path})
        except Exception as exception:  # of any kind: each error has SCIM's shape
            return _error(request, exception)

    return declare_operations(view, {method: Operation("SCIM", {}, tag="scim", who=DIRECTORY) for method in handlers})


def _answer(request: HttpRequest, handler: str, path: dict[str, str]) -> HttpResponse:
    from accounts.scim import handlers

    require_licence_for("scim")
    body = _body(request) if request.method in WITH_BODY else b""
    call = handlers.Call(_parameters(request), path, body)
    is_write = not handler.startswith("search")
    write = count_write_of("the directory", NAME, str(request.method)) if is_write else ""
    try:
        with audit.acting_as(lambda: actor_of(request)), override_access_tests(REASON):
            reply = getattr(handlers, handler)(call)
    except Exception:
        take_back(write)  # nothing was written
        raise
    return _response(reply.status, reply.document, reply.headers)


def _body(request: HttpRequest) -> bytes:
    """The body of a request; raises UnsupportedMediaType, PayloadTooLarge and ValidationError."""
    if (request.content_type or "").lower() not in MEDIA_TYPES:
        raise UnsupportedMediaType(f"Send the body as {SCIM_JSON}.")
    return read_body(request.META, MAX_MANAGEMENT_BYTES)


def _parameters(request: HttpRequest) -> dict[str, str]:
    """The parameters of the query, by names that are the same in any case; raises ValidationError."""
    parameters = {name: str(value) for name, value in request.GET.items()}
    if any("\0" in value for value in parameters.values()):
        raise ValidationError("A parameter must not contain NUL.")
    return parameters


def _error(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _response(*error_answer(exception, getattr(request, "correlation_id", "")))


def _response(status: int, document: object, headers: Mapping[str, str]) -> HttpResponse:
    content = b"" if document is None else orjson.dumps(document)
    response = HttpResponse(content, status=status, content_type=SCIM_JSON, headers=dict(headers))
    response.headers["Cache-Control"] = "no-store"
    return response


def scim_routes() -> list[URLPattern]:
    """All routes below /scim/v2/; a trailing slash is optional."""
    return [
        re_path(rf"^scim/v2{'/' if pattern else ''}{pattern}/?\Z", scim_view(pattern, handlers), name=f"scim-{name}")
        for pattern, name, handlers in ROUTES
    ]
