"""Describes the operations of a resource, from its viewset, its route and the table of access.py."""

import inspect

from gateway_project import errors
from gateway_project.api import viewsets
from gateway_project.api.access import (
    ADMIN,
    ANYBODY,
    CALLER_KINDS,
    GROUP_ADMIN,
    HOLDER,
    LOGIN,
    OWNER,
    TABLE,
    WITHOUT_LICENCE,
)
from gateway_project.api.fields import Id
from gateway_project.api.filters import Filter, IntegerFilter
from gateway_project.api.names import camel
from gateway_project.api.openapi.endpoints import COOKIE, KEY, REFRESH, TOKEN
from gateway_project.api.openapi.responses import MANAGEMENT, Errors, header, response
from gateway_project.api.openapi.schemas import EMPTY, Schemas
from gateway_project.api.paging import ApiPagination
from gateway_project.api.response_specs import ResponseSpec
from gateway_project.api.routes import Route, routes
from gateway_project.database import guarding
from gateway_project.json_types import JsonObject

SUMMARIES = {
    "list": "List {}",
    "retrieve": "Get one of the {}",
    "create": "Add to the {}",
    "update": "Change one of the {}",
    "destroy": "Delete one of the {}",
}
CREDENTIALS = {
    ANYBODY: (),
    HOLDER: (TOKEN, COOKIE, REFRESH, ""),
    LOGIN: (TOKEN, COOKIE),
    OWNER: (TOKEN, COOKIE),
    ADMIN: (TOKEN, COOKIE),
    GROUP_ADMIN: (TOKEN, COOKIE),
}
META, LINKS = {"$ref": "#/components/schemas/Meta"}, {"$ref": "#/components/schemas/Links"}
# Members of a document that JSON:API allows and the gateway ignores.
IGNORED: JsonObject = {"links": {}, "meta": {}}
# The resources whose changes run the access tests, and the header that makes a change which breaks one.
WATCHED = frozenset(
    {
        *("access-requests", "aliases", "credentials", "groups", "keys", "members", "models", "providers"),
        *("roles", "rules", "users"),
    }
)
OVERRIDE: JsonObject = {
    "name": guarding.HEADER,
    "in": "header",
    "required": False,
    "description": "The reason for a change that breaks access tests, in UTF-8. The audit keeps it.",
    "schema": {"type": "string", "maxLength": guarding.MAX_REASON_LENGTH},
}
IGNORED_ID = {"type": ["integer", "string"], "description": "Ignored here."}
ID_OF_ROW = {**Id.schema, "description": "The id, as an alternative to the path."}


def describe(route: Route, schemas: Schemas, failures: Errors) -> JsonObject:
    """OpenAPI's operation object of one method of one path."""
    summary, description = words(route)
    operation: JsonObject = {
        "operationId": operation_id(route),
        "tags": [route.resource],
        "summary": summary,
        "description": f"{description}\n\nWho may: {describe_callers(route)}.".strip(),
        "security": security(route),
        "parameters": [*path_parameters(route), *query_parameters(route), *header_parameters(route)],
        "responses": responses(route, schemas, failures),
    }
    if body := request_body(route, schemas):
        operation["requestBody"] = body
    return operation


# -- Words ------------------------------------------------------------------------------------------


def operation_id(route: Route) -> str:
    """usersList, usersItemUpdate: a name for generated code."""
    item = "item_" if route.path.rstrip("/").endswith("}") else ""
    return camel(f"{route.resource}_{item}{route.operation}")


def words(route: Route) -> tuple[str, str]:
    """The summary and the description, from the operation's own docstring if it has one."""
    function = getattr(route.view, route.operation)
    own = inspect.getdoc(function) if inspect.getmodule(function) is not viewsets else ""
    if not own:
        return SUMMARIES.get(route.operation, "{}").format(route.resource), ""
    summary, _, rest = own.partition("\n")
    return summary.rstrip("."), rest.strip()


def describe_callers(route: Route) -> str:
    """Who may use the operation, and its variants in the table."""
    variants = [
        f"{operation}: {_describe_access(TABLE[route.resource][operation])}"
        for operation in getattr(route.view, "variants", {}).get(route.operation, ())
    ]
    return "; ".join([_describe_access(route.who), *variants])


def _describe_access(who: str | None) -> str:
    return str(who) if who in CALLER_KINDS else f"`{who}`"


def security(route: Route) -> list[dict[str, list[str]]]:
    """The accepted credentials, each sufficient alone."""
    variants = getattr(route.view, "variants", {}).get(route.operation, ())
    callers = [TABLE[route.resource][operation] for operation in (route.operation, *variants)]
    names = dict.fromkeys(name for who in callers for name in credentials(who))
    return [{name: []} if name else {} for name in names]


def credentials(who: str) -> tuple[str, ...]:
    """The credentials that can satisfy `who`; a feature can be that of a login or of a key."""
    return CREDENTIALS.get(who, (TOKEN, COOKIE, KEY))


# -- Parameters -------------------------------------------------------------------------------------


def path_parameters(route: Route) -> list[JsonObject]:
    return [
        {"name": camel(name), "in": "path", "required": True, "schema": IntegerFilter.schema}
        for name in route.parameters
    ]


def query_parameters(route: Route) -> list[JsonObject]:
    """All query parameters of the operation, which refuses others."""
    filters: dict[str, Filter] = dict(route.view.parameters.get(route.operation, {}))
    if route.operation == "list":
        filters |= route.view.filters
    parameters = [_by_query(name, kind) for name, kind in filters.items()]
    if route.operation in ("update", "destroy") and not {"id"} & {*route.parameters, *filters}:
        has_no_body = not hasattr(route.view, f"{route.operation}_attributes")
        parameters.append({**_by_query("id", IntegerFilter("id", "The id.")), "required": has_no_body})
    is_paged = route.operation == "list" and route.view.serializer_class is not None
    return [*parameters, *page_parameters(route.view.pagination_class)] if is_paged else parameters


def header_parameters(route: Route) -> list[JsonObject]:
    """The header of changes that run the access tests."""
    return [OVERRIDE] if route.method != "get" and route.resource in WATCHED else []


def _by_query(name: str, kind: Filter) -> JsonObject:
    return {"name": name, "in": "query", "required": False, "description": kind.about, "schema": kind.schema}


def page_parameters(kind: type[ApiPagination]) -> list[JsonObject]:
    """The two parameters that select a page."""
    whole_list = " Without page[size] and page[number], the answer is the whole list." if kind.is_optional else ""
    size = f"Rows per page. A larger number counts as {kind.max_page_size}.{whole_list}"
    number = f"The page number. A page after the last one gets 400.{whole_list}"
    return [
        _page_parameter(kind.page_size_query_param, size, kind),
        _page_parameter(kind.page_query_param, number, kind),
    ]


def _page_parameter(name: str, description: str, kind: type[ApiPagination]) -> JsonObject:
    default = kind.page_size if name == kind.page_size_query_param else 1
    schema = {"type": "integer", "minimum": 1, **({} if kind.is_optional else {"default": default})}
    return {"name": name, "in": "query", "description": description, "schema": schema}


# -- Bodies -----------------------------------------------------------------------------------------


def request_body(route: Route, schemas: Schemas) -> JsonObject | None:
    """The envelope with the attributes; None for operations without a body."""
    kind = getattr(route.view, f"{route.operation}_attributes", None)
    if kind is None:
        return None
    partial = route.operation in ("update", "destroy")
    data = {
        "type": {"const": route.resource},
        "id": ID_OF_ROW if partial or "id" in route.parameters else IGNORED_ID,
        "attributes": schemas.attributes(kind, partial=partial),
        "relationships": EMPTY,
    }
    envelope = _object_schema(
        {"data": {**_object_schema({**data, **IGNORED}), **_required_members(route)}, "jsonapi": {}, **IGNORED}
    )
    content = {"schema": {**envelope, "required": ["data"]}}
    if kind.example:
        content["example"] = {"data": {"attributes": kind.example}}
    required = route.operation not in route.view.body_optional
    return {"required": required, "content": dict.fromkeys(MANAGEMENT, content)}


def _object_schema(properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _required_members(route: Route) -> JsonObject:
    """The required members of `data`."""
    if route.operation in route.view.attributes_optional:
        return {"anyOf": [{"required": ["attributes"]}, {"required": ["id"]}]}
    return {"required": ["attributes"]}


# -- Responses --------------------------------------------------------------------------------------


def responses(route: Route, schemas: Schemas, failures: Errors) -> JsonObject:
    spec = spec_of(route)
    success = response(
        "The requested data." if route.method == "get" else "The operation succeeded.",
        contents(route, spec, schemas),
        success_headers(route, spec),
    )
    if operations := links(route):
        success["links"] = operations
    return {str(spec.status): success, **failures.responses(errors_of(route, spec), MANAGEMENT)}


def spec_of(route: Route) -> ResponseSpec:
    usual = ResponseSpec(status=201 if route.operation == "create" else 200)
    return route.view.response_specs.get(route.operation, usual)


def contents(route: Route, spec: ResponseSpec, schemas: Schemas) -> JsonObject:
    """The schema of the body in each media type."""
    return {**_usual_contents(route, spec, schemas), **route.view.other_media_types.get(route.operation, {})}


def _usual_contents(route: Route, spec: ResponseSpec, schemas: Schemas) -> JsonObject:
    """The same in the two media types that all resources have."""
    if route.operation not in route.view.response_specs and route.operation in ("list", "retrieve"):
        rows = (schemas.resource(route.resource, route.view.serializer_class), schemas.row(route.view.serializer_class))
        form = list_schema if route.operation == "list" else row_schema
        return {media_type: form(row) for media_type, row in zip(MANAGEMENT, rows, strict=True)}
    if spec.bodies is None:
        return {}
    bodies = [schemas.row(kind) for kind in spec.bodies] or [EMPTY]
    return dict.fromkeys(MANAGEMENT, bodies[0] if len(bodies) == 1 else {"anyOf": bodies})


def list_schema(row: JsonObject) -> JsonObject:
    properties = {"links": LINKS, "data": {"type": "array", "items": row}, "meta": META}
    return {"type": "object", "properties": properties, "required": ["links", "data", "meta"]}


def row_schema(row: JsonObject) -> JsonObject:
    return {"type": "object", "properties": {"data": row}, "required": ["data"]}


def success_headers(route: Route, spec: ResponseSpec) -> JsonObject:
    """The operation's own headers, and those that name a created row."""
    headers = {name: header(description, required=False) for name, description in spec.headers.items()}
    if spec.status not in (201, 202):
        return headers
    headers |= {"Location": header("The URL of the new row."), "Content-Location": header("The same URL.")}
    if route.view.id_header:
        headers[route.view.id_header] = header("The id of the new row.", kind="integer")
    return headers


def links(route: Route) -> JsonObject:
    """OpenAPI links from a creation to the operations on the created row."""
    if route.operation != "create" or not route.view.id_header:
        return {}
    parameters = {camel(name): f"$request.path.{camel(name)}" for name in route.parameters}
    parameters["id"] = f"$response.header.{route.view.id_header}"
    items = [other for other in routes() if other.view is route.view and other.path == f"{route.path}{{id}}/"]
    return {name: {"operationId": name, "parameters": parameters} for name in map(operation_id, items)}


def errors_of(route: Route, spec: ResponseSpec) -> set[type[errors.GatewayError]]:
    """The errors that the operation can end with."""
    kinds: set[type[errors.GatewayError]] = {errors.ValidationError, errors.InternalError, errors.ServiceUnavailable}
    kinds |= set(spec.errors)
    if route.who != ANYBODY:
        kinds |= {errors.AuthenticationFailed, errors.PermissionDenied}
        kinds |= set() if route.method in ("get", "head") else {errors.RateLimited}
    if route.resource not in WITHOUT_LICENCE:
        kinds |= {errors.LicenceInvalid}
    if route.parameters or route.operation in ("update", "destroy"):
        kinds |= {errors.NotFound}
    if route.method != "get":
        kinds |= {errors.Conflict, errors.PayloadTooLarge, errors.UnsupportedMediaType}
        kinds |= {errors.AccessTestFailed} if route.resource in WATCHED else set()
    return kinds
