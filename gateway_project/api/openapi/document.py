"""The OpenAPI 3.1 document: every route of the URL configuration, and what they refer to."""

import re
from functools import lru_cache
from inspect import getdoc

from django.conf import settings

from gateway_project import PRODUCT_VERSION, errors
from gateway_project.api.access import ANYBODY, DIRECTORY
from gateway_project.api.documents import JSON
from gateway_project.api.names import camel
from gateway_project.api.openapi import resources
from gateway_project.api.openapi.endpoints import COOKIE, KEY, REFRESH, TOKEN, Operation
from gateway_project.api.openapi.responses import ERROR, ERROR_OBJECT, HEADERS, Errors, response
from gateway_project.api.openapi.schemas import LINKS, META, Schemas
from gateway_project.api.routes import Route, routes
from gateway_project.json_types import JsonObject

ABOUT = """\
One address for all language models. `POST /work` takes requests for models; everything else manages the gateway.

- A trailing slash is optional on every path.
- A body of the management API is `{"data": {"attributes": {…}}}`, sent as `application/vnd.api+json` or
  `application/json`; what an operation does not know is refused with 400, in bodies and in queries.
- Answers are resource objects; with `Accept: application/json` the same documents hold flat elements with integer ids.
- `/scim/v2/` is SCIM 2.0 for directories, with a token of its own; it describes itself at `/scim/v2/Schemas`.
- Every error is `{code, exception, message, errors}`, where `errors` is that of JSON:API, and every response carries
  `X-Svc-Request-ID`.
"""
SECURITY = {
    TOKEN: {
        "type": "http",
        "scheme": "bearer",
        "description": "The access token of a login. It may do what its user may do.",
    },
    KEY: {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "svc_<id>_<secret><checksum>",
        "description": "An API key. It may do what both its own permissions and those of its owner allow.",
    },
    COOKIE: {
        "type": "apiKey",
        "in": "cookie",
        "name": "SvcUserCookie",
        "description": "The access token in a browser's cookie. Requests that write must come from the gateway's own "
        "origin.",
    },
    REFRESH: {
        "type": "apiKey",
        "in": "cookie",
        "name": "SvcAuthCookie",
        "description": "The refresh token in a browser's cookie. It can get new tokens and log out.",
    },
}


@lru_cache(maxsize=1)
def document() -> JsonObject:
    """The whole document, made once."""
    schemas, failures = Schemas(), Errors()
    paths: dict[str, JsonObject] = {}
    tags: dict[str, str] = {}
    for route in described_routes():
        describe = resources.describe if route.resource else describe_view
        operation = describe(route, schemas, failures)
        paths.setdefault(wire_path(route), {})[route.method] = operation
        tags.setdefault(operation["tags"][0], (getdoc(route.view) or "") if route.resource else "")
    return {
        "openapi": "3.1.0",
        "info": {"title": "Language-model gateway", "version": PRODUCT_VERSION, "description": ABOUT},
        "servers": [{"url": settings.GATEWAY_BASE_URL}],
        "tags": [{"name": name, **({"description": text} if text else {})} for name, text in tags.items()],
        "paths": paths,
        "components": {
            "schemas": {
                "Error": ERROR,
                "ErrorObject": ERROR_OBJECT,
                "Meta": META,
                "Links": LINKS,
                **schemas.components,
            },
            "responses": failures.components,
            "headers": HEADERS,
            "securitySchemes": SECURITY,
        },
    }


def described_routes() -> list[Route]:
    """The routes with declared operations: all but Django's own sites, and SCIM, which describes itself (/Schemas)."""
    return [route for route in routes() if route.method and route.who != DIRECTORY]


def wire_path(route: Route) -> str:
    """/groups/{groupId}/members/"""
    return re.sub(r"{(\w+)}", lambda match: "{" + camel(match[1]) + "}", route.path)


def describe_view(route: Route, schemas: Schemas, failures: Errors) -> JsonObject:
    """OpenAPI's operation object of a view outside the management API."""
    operation: Operation = route.view.operations[route.method]
    for kind in operation.components:
        schemas.row(kind)
    description: JsonObject = {
        "operationId": camel(re.sub("[-/]", "_", f"{route.name}_{route.method}")),
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": f"{operation.description}\n\nWho may: {resources.describe_callers(route)}.".strip(),
        "security": [{name: []} for name in operation.credentials],
        "parameters": list(operation.parameters),
        "responses": view_responses(operation, failures, public=route.who == ANYBODY),
    }
    if operation.body is not None:
        description["requestBody"] = {"required": True, "content": {JSON: {"schema": operation.body}}}
    return description


def view_responses(operation: Operation, failures: Errors, *, public: bool) -> JsonObject:
    kinds: set[type[errors.GatewayError]] = {errors.InternalError, *operation.errors}
    if not public:
        kinds |= {errors.AuthenticationFailed, errors.PermissionDenied}
    special = {
        status: response(answer.description, answer.content, answer.headers)
        for status, answer in {**operation.answers, **operation.failures}.items()
    }
    return special if operation.failures else {**special, **failures.responses(kinds, (JSON,))}
