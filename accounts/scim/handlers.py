"""What each route of SCIM does with a request that is let in."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from django.db import transaction
from scim2_models import InvalidSyntaxException, NotFoundException, NotImplementedException

from accounts.scim import discovery
from accounts.scim.kinds import KINDS, Kind
from accounts.scim.queries import Query, read_filter
from accounts.scim.resources import Selection, location
from gateway_project.api.strict_json import parse_object
from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject

LIST_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
SEARCH_PARAMETERS = ("filter", "startIndex", "count", "sortBy", "sortOrder", "attributes", "excludedAttributes")


@dataclass(frozen=True, slots=True)
class Call:
    """A request: its parameters by name, the names in its path, and its body."""

    parameters: dict[str, str]
    path: dict[str, str]
    body: bytes = b""

    @property
    def kind(self) -> Kind:
        return KINDS[self.path["endpoint"]]

    @property
    def selection(self) -> Selection:
        return Selection.read(self.parameters.get("attributes", ""), self.parameters.get("excludedAttributes", ""))

    def payload(self) -> JsonObject:
        """The body; raises InvalidSyntaxException."""
        try:
            payload = parse_object(self.body)
        except ValidationError as error:
            raise InvalidSyntaxException(detail=error.message) from None
        if b"\\u0000" in self.body:
            raise InvalidSyntaxException(detail="A text must not contain NUL.")
        return payload


@dataclass(frozen=True, slots=True)
class Reply:
    """Status, document (None for no body) and headers."""

    status: int = 200
    document: JsonObject | None = None
    headers: dict[str, str] = field(default_factory=dict)


def list_rows(call: Call) -> Reply:
    return _list_resources(call.kind, call.parameters)


def search_rows(call: Call) -> Reply:
    """The same with the parameters in the body."""
    payload = call.payload()
    return _list_resources(call.kind, {name: _as_text(payload.get(name)) for name in SEARCH_PARAMETERS})


def _as_text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(str(entry) for entry in value)
    return "" if value is None else str(value)


def _list_resources(kind: Kind, parameters: dict[str, str]) -> Reply:
    query = Query.read(parameters, kind.columns)
    rows = kind.rows().filter(read_filter(query.filter, kind.attributes)).order_by(*query.order)
    total, first = rows.count(), query.start - 1
    page = list(rows[first : first + query.count]) if query.count else []
    return _list_reply(kind.documents(page, query.selection), total, query.start)


def _list_reply(documents: Iterable[JsonObject], total: int, start: int = 1) -> Reply:
    resources = list(documents)
    document = {
        "schemas": [LIST_SCHEMA],
        "totalResults": total,
        "startIndex": start,
        "itemsPerPage": len(resources),
        "Resources": resources,
    }
    return Reply(200, document)


def create_row(call: Call) -> Reply:
    selection, payload = call.selection, call.payload()
    with transaction.atomic():
        row = call.kind.create(payload)
        return _resource_reply(call.kind.document(row, selection), row.pk, call, 201)


def read_row(call: Call) -> Reply:
    row = call.kind.row(call.path["id"])
    return _resource_reply(call.kind.documents([row], call.selection)[0], row.pk, call)


def replace_row(call: Call) -> Reply:
    return _change_resource(call, call.kind.replace)


def patch_row(call: Call) -> Reply:
    return _change_resource(call, call.kind.patch)


def _change_resource(call: Call, change: Callable[..., None]) -> Reply:
    selection, payload = call.selection, call.payload()
    with transaction.atomic():
        row = call.kind.row(call.path["id"])
        change(row, payload)
        return _resource_reply(call.kind.document(row, selection), row.pk, call)


def delete_row(call: Call) -> Reply:
    with transaction.atomic():
        call.kind.delete(call.kind.row(call.path["id"]))
    return Reply(204)


def _resource_reply(document: JsonObject, row_id: int, call: Call, status: int = 200) -> Reply:
    url = location(call.kind.endpoint, row_id)
    headers = {"Content-Location": url} | ({"Location": url} if status == 201 else {})
    return Reply(status, document, headers)


def read_config(call: Call) -> Reply:
    return Reply(200, discovery.service_provider_config())


def list_resource_types(call: Call) -> Reply:
    documents = discovery.resource_types().values()
    return _list_reply(documents, len(documents))


def list_schemas(call: Call) -> Reply:
    documents = discovery.schemas().values()
    return _list_reply(documents, len(documents))


def read_resource_type(call: Call) -> Reply:
    return _describe_schemas(discovery.resource_types(), call)


def read_schema(call: Call) -> Reply:
    return _describe_schemas(discovery.schemas(), call)


def _describe_schemas(documents: dict[str, JsonObject], call: Call) -> Reply:
    document = documents.get(call.path["id"])
    if document is None:
        raise NotFoundException(detail="No resource with this id.")
    return Reply(200, document)


def refuse_unsupported(call: Call) -> Reply:
    raise NotImplementedException(detail="This part of SCIM is not supported; see ServiceProviderConfig.")


def refuse_unknown(call: Call) -> Reply:
    raise NotFoundException(detail="There is nothing at this path.")
