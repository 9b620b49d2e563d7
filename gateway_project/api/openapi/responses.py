"""Response objects of the OpenAPI document: successes, and for each status the errors that it can be."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from gateway_project.api.documents import JSON, JSON_API
from gateway_project.errors import MAX_PROBLEMS, GatewayError, ProviderOverloaded, ProviderRejected
from gateway_project.json_types import JsonObject

MANAGEMENT = (JSON_API, JSON)
REQUEST_ID = {"$ref": "#/components/headers/X-Svc-Request-ID"}
# Statuses that are never those of a ProviderRejected: from a provider they mean other errors.
NEVER_REJECTED = ("401", "403", "429")

HEADERS: dict[str, JsonObject] = {
    "X-Svc-Request-ID": {
        "description": "The request's id in the log: the id that was sent, if it has 1 to 128 characters of `A-Z a-z "
        "0-9 . _ -`.",
        "required": True,
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,128}$"},
    },
}
ERROR = {
    "type": "object",
    "description": "The body of every error.",
    "properties": {
        "code": {"type": "integer", "description": "The HTTP status.", "minimum": 400, "maximum": 599},
        "exception": {"type": "string", "description": "The kind of error, for programs."},
        "message": {"type": "string", "description": "What was wrong and how to fix it, for people."},
        "errors": {
            "type": "array",
            "description": "The same in JSON:API's form: one error object for each problem.",
            "items": {"$ref": "#/components/schemas/ErrorObject"},
            "minItems": 1,
            "maxItems": MAX_PROBLEMS,
        },
    },
    "required": ["code", "exception", "message", "errors"],
}
_PLACES = {
    "pointer": {"type": "string", "format": "json-pointer", "description": "The member of the body."},
    "parameter": {"type": "string", "description": "The parameter of the query."},
    "header": {"type": "string", "description": "The header."},
}
ERROR_OBJECT = {
    "type": "object",
    "description": "One problem, as JSON:API's error object.",
    "properties": {
        "status": {"type": "string", "pattern": "^[45][0-9]{2}$", "description": "The HTTP status."},
        "code": {"type": "string", "description": "The kind of error, as in `exception`."},
        "title": {
            "type": "string",
            "description": "The kind of error for people. It is the same text for every error of this kind.",
        },
        "detail": {"type": "string", "description": "What was wrong with the member that `source` names."},
        "source": {
            "type": "object",
            "description": "Where the problem is; absent if the problem has no single place.",
            "properties": _PLACES,
            "minProperties": 1,
            "maxProperties": 1,
            "additionalProperties": False,
        },
        "meta": {
            "type": "object",
            "description": "Of AccessTestFailed: the access test that would fail.",
            "properties": {"accessTestId": {"type": "integer"}, "name": {"type": "string"}},
            "required": ["accessTestId", "name"],
            "additionalProperties": False,
        },
    },
    "required": ["status", "code", "title", "detail"],
    "additionalProperties": False,
}


def header(description: str, *, required: bool = True, kind: str = "string") -> JsonObject:
    """A header of a response."""
    return {"description": description, "required": required, "schema": {"type": kind}}


def response(
    description: str, content: Mapping[str, object] | None = None, headers: Mapping[str, object] | None = None
) -> JsonObject:
    """A response with a schema for each media type; its request id is added."""
    headers = {"X-Svc-Request-ID": REQUEST_ID, **(headers or {})}
    if not content:
        return {"description": description, "headers": headers}
    schemas = {media_type: {"schema": schema} for media_type, schema in content.items()}
    return {"description": description, "headers": headers, "content": schemas}


class Errors:
    """References to error responses; `components` collects the responses that were referred to."""

    def __init__(self) -> None:
        self.components: JsonObject = {}

    def responses(self, kinds: Iterable[type[GatewayError]], media_types: tuple[str, ...]) -> dict[str, JsonObject]:
        """Responses by status, each naming the errors that it can be."""
        return {status: self._response(status, group, media_types) for status, group in by_status(kinds).items()}

    def _response(self, status: str, kinds: list[type[GatewayError]], media_types: tuple[str, ...]) -> JsonObject:
        name = "Or".join(kind.exception for kind in kinds) + ("" if media_types == MANAGEMENT else "AsJson")
        self.components.setdefault(name, _error_response(status, kinds, media_types))
        return {"$ref": f"#/components/responses/{name}"}


def by_status(kinds: Iterable[type[GatewayError]]) -> dict[str, list[type[GatewayError]]]:
    """The errors by status; ProviderRejected can have nearly every 4xx."""
    groups: dict[str, list[type[GatewayError]]] = defaultdict(list)
    for kind in sorted(set(kinds), key=lambda kind: kind.__name__):
        for status in statuses(kind):
            groups[status].append(kind)
    if "4XX" in groups:
        for status in groups.keys() - {"4XX", *NEVER_REJECTED}:
            groups[status] += [ProviderRejected] if status.startswith("4") else []
    return {status: groups[status] for status in sorted(groups)}


def statuses(kind: type[GatewayError]) -> tuple[str, ...]:
    """The statuses that an error can have."""
    if issubclass(kind, ProviderRejected):
        return ("4XX",)
    return ("429", "503") if issubclass(kind, ProviderOverloaded) else (str(kind.code),)


def _error_response(status: str, kinds: list[type[GatewayError]], media_types: Iterable[str]) -> JsonObject:
    properties: JsonObject = {"exception": {"enum": [kind.exception for kind in kinds]}}
    if status.isdecimal():
        properties["code"] = {"const": int(status)}
    schema = {"allOf": [{"$ref": "#/components/schemas/Error"}, {"properties": properties}]}
    description = " ".join(f"`{kind.exception}`: {_describe_error(kind)}" for kind in kinds)
    return response(description, dict.fromkeys(media_types, schema), dict(_headers(kinds)))


def _describe_error(kind: type[GatewayError]) -> str:
    return (kind.__doc__ or kind.default_message).partition("\n")[0].partition(";")[0].rstrip(".") + "."


def _headers(kinds: list[type[GatewayError]]) -> Iterator[tuple[str, JsonObject]]:
    for name in sorted({name for kind in kinds for name in kind.default_headers}):
        yield name, header("The authentication scheme to use.")
    later = [kind.default_retry_after is not None for kind in kinds]
    if any(later):
        yield "Retry-After", header("Seconds to wait.", required=all(later), kind="integer")
