"""The base of all resources: a viewset declares its rows, attributes, filters and services, and nothing else.

The order of each request is: method, credential, permission (access.py), limit of writes, licence, query, media type
and body, existence.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Generic, TypeVar, Unpack

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import models, transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer
from rest_framework.viewsets import GenericViewSet

from gateway_project.api import audit
from gateway_project.api.access import CALLER_KINDS, DELEGATED, MANAGER, OWNER, TABLE, USER, Caller, require_licence_for
from gateway_project.api.documents import ENVELOPE, Document, Plain, with_camel_names
from gateway_project.api.fields import Attributes, read_id
from gateway_project.api.filters import Filter, read_parameters, refuse_unknown
from gateway_project.api.names import camel
from gateway_project.api.requests import ApiRequest
from gateway_project.api.response_specs import ResponseSpec
from gateway_project.api.write_limit import count_write, take_back
from gateway_project.database.guarding import HEADER, override_access_tests, override_reason
from gateway_project.errors import Conflict, MethodNotAllowed, NotFound, Place, ValidationError
from gateway_project.json_types import JsonObject
from gateway_project.server.bodies import MAX_MANAGEMENT_BYTES

PAGING = ("page[size]", "page[number]")
PROMPT_SECONDS = 0.1  # a body that takes longer arrives well after its sender was authenticated
Row = TypeVar("Row", bound=models.Model)
Value = TypeVar("Value")


class ApiViewSet(GenericViewSet[Row], Generic[Row]):
    """What every resource can do; ListMixin, CreateMixin, UpdateMixin and DestroyMixin add the operations."""

    request: ApiRequest
    serializer_class: type[Serializer[Row]] | None = None

    resource_name: ClassVar[str]  # in paths, as JSON:API's type, and in the table of access.py
    # What may be sent to an operation: {operation}_attributes.
    create_attributes: ClassVar[type[Attributes]]
    update_attributes: ClassVar[type[Attributes]]
    # For the OpenAPI document: responses that differ from the base's, by operation.
    response_specs: ClassVar[Mapping[str, ResponseSpec]] = {}
    # Other media types that an operation can answer with, and their schemas.
    other_media_types: ClassVar[Mapping[str, Mapping[str, JsonObject]]] = {}
    # Attributes that change without a request, under the names of the wire.
    volatile: ClassVar[frozenset[str]] = frozenset()
    filters: ClassVar[Mapping[str, Filter]] = {}
    # Query parameters beside the filters, by operation; the subclass that declares one reads it.
    parameters: ClassVar[Mapping[str, Mapping[str, Filter]]] = {}
    # Other names of an operation in the table of access.py; `operation` returns the one that applies.
    variants: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    # Operations whose body may be left out.
    body_optional: ClassVar[tuple[str, ...]] = ("destroy",)
    # Operations whose body may hold an id without attributes.
    attributes_optional: ClassVar[tuple[str, ...]] = ("destroy",)
    id_header: ClassVar[str] = ""
    # A body is read once its sender is authenticated and may do this.
    max_body_bytes: ClassVar[int] = MAX_MANAGEMENT_BYTES
    _write: str = ""  # under which name this write is counted

    @property
    def caller(self) -> Caller | None:
        """The authenticated caller; None for an anonymous request."""
        caller = self.request.auth
        return caller if isinstance(caller, Caller) else None

    @property
    def authenticated_caller(self) -> Caller:
        """The caller of an operation that the access table refuses to anonymous requests."""
        assert self.caller is not None
        return self.caller

    @property
    def operation(self) -> str:
        """The operation's name in the table of access.py."""
        return self.action

    def owner_id(self) -> int | None:
        """The owner of the object, for operations that owners may do; None if it can only be the caller's own."""
        raise ImproperlyConfigured(f"{type(self).__name__} does not say whose its objects are.")

    # -- Handling of a request --------------------------------------------------------------------------

    def dispatch(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        with (
            audit.acting_as(lambda: self.actor),
            override_access_tests(_as_text(request.headers.get(HEADER, "")), header=HEADER),
        ):
            return super().dispatch(request, *args, **kwargs)

    @property
    def actor(self) -> audit.Actor:
        """Who makes the changes of this request."""
        return audit.Actor(self.caller, self.request.correlation_id, self.address)

    def initialize_request(self, request: HttpRequest, *args: object, **kwargs: object) -> ApiRequest:
        plain = super().initialize_request(request, *args, **kwargs)
        result = ApiRequest(
            request,
            parsers=plain.parsers,
            authenticators=self.get_authenticators(),
            negotiator=plain.negotiator,
            parser_context=plain.parser_context,
        )
        result.max_body_bytes = self.max_body_bytes
        return result

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        if str(request.method).lower() not in self.action_map:
            raise MethodNotAllowed(f"This path supports {', '.join(self.allowed_methods)}.")
        super().initial(request, *args, **kwargs)
        self._receive_body()
        self._write = count_write(self.caller, str(request.method))
        override_reason()  # an invalid one is refused even if none is needed
        require_licence_for(self.resource_name)
        self.check_query()

    def _receive_body(self) -> None:
        """Read the body. After a slow one the sender is authenticated again, since rights may be lost meanwhile."""
        started_at = time.monotonic()
        self.request.receive()
        if time.monotonic() - started_at > PROMPT_SECONDS:
            self.request.authenticate_again()
            self.check_permissions(self.request)

    def finalize_response(self, request: Request, response: Response, *args: object, **kwargs: object) -> Response:
        if response.status_code >= 400:  # nothing was written
            take_back(self._write)
        return super().finalize_response(request, response, *args, **kwargs)

    @property
    def allowed_methods(self) -> list[str]:
        """For the header Allow: the framework names OPTIONS too, which no path here supports."""
        return [method for method in super().allowed_methods if method.lower() in self.action_map]

    @property
    def default_response_headers(self) -> dict[str, str]:
        # Responses hold what one caller may see: no cache on the way may store them.
        return {**super().default_response_headers, "Cache-Control": "no-store"}

    def check_query(self) -> None:
        """Refuse query parameters that this operation does not know."""
        if self.action != "list":
            refuse_unknown(self.request.query_params, self.parameter_names())

    def parameter_names(self) -> tuple[str, ...]:
        id_parameter = ("id",) if self.action in ("update", "destroy") and "id" not in self.kwargs else ()
        return (*id_parameter, *self.parameters.get(self.operation, ()))

    def filter_queryset(self, queryset: QuerySet[Row, Value]) -> QuerySet[Row, Value]:
        """The rows that the query selects."""
        for name, value in self.filter_values().items():
            queryset = self.filters[name].apply(queryset, value)
        return queryset

    def filter_values(self) -> JsonObject:
        """The filters of this request with their values."""
        paging = PAGING if self.serializer_class is not None else ()  # without one it lists no rows
        others: dict[str, Filter | None] = dict.fromkeys((*paging, *self.parameters.get(self.operation, ())))
        return read_parameters(self.request.query_params, others | dict(self.filters))

    # -- The request's document -------------------------------------------------------------------------

    @property
    def document(self) -> Document:
        """The request's attributes; raises UnsupportedMediaType, PayloadTooLarge and ValidationError."""
        document = self.request.data
        if isinstance(document, Document):
            return document
        if self.action in self.body_optional:
            return Document()
        raise ValidationError(ENVELOPE)

    def values(self, kind: type[Attributes], *, partial: bool = False) -> JsonObject:
        """The checked attributes of the request; raises ValidationError."""
        data = dict(self.document)
        if partial and "id" not in kind().fields:
            data.pop("id", None)  # identifies the row, and is no change
        for name in self.read_only_values():
            del data[name]
        serializer = kind(data=data, partial=partial, context=self.get_serializer_context())
        serializer.is_valid(raise_exception=True)
        return serializer.validated_data

    def read_only_values(self) -> JsonObject:
        """The read-only attributes in the document of an update: clients may send back a whole resource object."""
        if self.action != "update" or not self._may_read():
            return {}
        writable, readable = self.update_attributes().fields, self.row_serializer().fields
        read_only = readable.keys() - writable.keys() - {"id"}
        return {name: value for name, value in self.document.items() if name in read_only}

    def _may_read(self) -> bool:
        """Whether the caller may read what they may change: else they must not learn values by guessing."""
        kinds = [TABLE[self.resource_name].get(operation, USER) for operation in ("retrieve", "update")]
        needed = DELEGATED.get(kinds[0], kinds[0])
        # Owners may read their own rows.
        return needed in CALLER_KINDS or kinds[1] in (OWNER, MANAGER) or self._has(needed)

    def _has(self, feature: str) -> bool:
        return self.caller is not None and self.caller.has(feature)

    def refuse_read_only_changes(self, before: JsonObject | None) -> None:
        """Raise ValidationError if a read-only attribute was sent with another value than the row's."""
        values = with_camel_names(self.read_only_values())
        if not values or before is None:  # for a row that is gone, the service raises NotFound
            return
        current = json.loads(JSONRenderer().render(before))
        constant = current.keys() - self.volatile
        if changed := [name for name in values if name in constant and values[name] != current[name]]:
            raise ValidationError.from_fields(dict.fromkeys(changed, ("is read-only here.",)))

    def target_id(self) -> int | None:
        """The id of the row, from the path, the query, data.id or attributes.id; None if none of them has it."""
        ids = {read_id(str(source["id"]), **place) for place, source in self._id_sources() if "id" in source}
        if len(ids) > 1:
            raise Conflict("path, query and body contain different ids.", field="id")
        return next(iter(ids), None)

    def _id_sources(self) -> Iterator[tuple[Place, Mapping[str, object]]]:
        """Where an id can be, with the place as errors name it; the path has none."""
        yield {}, self.kwargs
        yield {"parameter": "id"}, self.request.query_params
        if self.action != "retrieve":
            yield {"field": "/data/id"}, {"id": self.document.id} if self.document.id is not None else {}
            yield {"field": "id"}, self.document

    def get_object(self) -> Row:
        """The target row, among those that the caller may see; raises ValidationError and NotFound."""
        target = self.target_id()
        if target is None:
            raise ValidationError("is missing.", field="id")
        return self.row(target)

    def row(self, row_id: int) -> Row:
        """The row with this id, among those that the caller may see; raises NotFound."""
        row = self.get_queryset().filter(pk=row_id).first()
        if row is None:
            raise NotFound(f"No {self.get_queryset().model._meta.verbose_name} with id {row_id}.")
        return row

    # -- The response, and the log ----------------------------------------------------------------------

    def serialize_stored(self, row: Row) -> JsonObject | None:
        """The row as lists show it, read again from the database; None if it is gone."""
        fresh = self.get_queryset().filter(pk=row.pk).first()
        return with_camel_names(self.get_serializer(fresh).data) if fresh is not None else None

    @classmethod
    def serialize_row(cls, row: Row) -> JsonObject | None:
        """The same without a request, for the console and for commands."""
        # A viewset without a queryset takes its rows from the path.
        rows = type(row)._default_manager.all() if cls.queryset is None else cls.queryset.all()
        fresh = rows.filter(pk=row.pk).first()
        return with_camel_names(cls.row_serializer(fresh).data) if fresh is not None else None

    @classmethod
    def row_serializer(cls, row: Row | None = None) -> Serializer[Row]:
        """The serializer of a row outside of a request."""
        assert cls.serializer_class is not None, f"{cls.__name__} lists no rows"
        return cls.serializer_class(row, context={"view": cls()})

    def location(self, row_id: int) -> str:
        """The URL of a row."""
        return f"{settings.GATEWAY_BASE_URL}/{self.resource_name}/{row_id}/"

    def created_response(self, row_id: int, body: Plain | None = None) -> Response:
        """201 with the headers that name the row; the body is {} unless given."""
        location = self.location(row_id)
        headers = {"Location": location, "Content-Location": location}
        if self.id_header:
            headers[self.id_header] = str(row_id)
        return Response(Plain() if body is None else body, status=201, headers=headers)

    @property
    def address(self) -> str:
        """The client's address."""
        return self.request.META.get("REMOTE_ADDR", "")

    def record(self, row_id: int | None, **details: Unpack[audit.ChangeDetails]) -> None:
        """Write what this request has changed to the log."""
        self._record_as(self.caller, row_id, **details)

    def _record_as(self, caller: Caller | None, row_id: int | None, **details: Unpack[audit.ChangeDetails]) -> None:
        actor = audit.Actor(caller, self.request.correlation_id, self.address)
        details.setdefault("attributes", map(camel, self.document.keys() - self.read_only_values().keys()))
        audit.record(actor, self.operation, self.resource_name, row_id, **details)

    @contextmanager
    def recorded_change(self, row: Row) -> Iterator[None]:
        """Around a change of a row: writes the row before and after it to the log."""
        before = self.serialize_stored(row)
        self.refuse_read_only_changes(before)
        yield
        self.record(row.pk, before=before, after=self.serialize_stored(row))

    def record_session_event(
        self, message: str, *, user: object = None, severity: str = "info", is_refusal: bool = False
    ) -> None:
        """Write to the log what happened to a user's sessions; `user` is None if the user is unknown."""
        caller = Caller(user) if user is not None else None
        self._record_as(caller, None, message=message, severity=severity, is_refusal=is_refusal)


def _as_text(header: str) -> str:
    """A header that was written in UTF-8: WSGI has read each byte as a character."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeError:
        return header


class ListMixin(ApiViewSet[Row]):
    """GET of all rows and of one."""

    def list(self, request: Request, **kwargs: str) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)

    def retrieve(self, request: Request, **kwargs: str) -> Response:
        return Response(self.get_serializer(self.get_object()).data)


class CreateMixin(ApiViewSet[Row]):
    """POST; a subclass calls its service in perform_create()."""

    def create(self, request: Request, **kwargs: str) -> Response:
        values = self.values(self.create_attributes)
        with transaction.atomic():
            row = self.perform_create(values)
            self.record(row.pk, after=self.serialize_stored(row))
        return self.created_response(row.pk)

    def perform_create(self, values: JsonObject) -> Row:
        """The new row; raises GatewayError."""
        raise NotImplementedError


class UpdateMixin(ApiViewSet[Row]):
    """PATCH; a subclass calls its service in perform_update()."""

    def update(self, request: Request, **kwargs: str) -> Response:
        values = self.values(self.update_attributes, partial=True)
        self.prepare_update(values)
        with transaction.atomic():
            row = self.get_object()
            with self.recorded_change(row):
                self.perform_update(row, values)
        return Response(Plain())

    def prepare_update(self, values: JsonObject) -> None:
        """Work that must not hold the transaction open, or must be kept if it fails."""

    def perform_update(self, row: Row, values: JsonObject) -> None:
        raise NotImplementedError


class DestroyMixin(ApiViewSet[Row]):
    """DELETE; a subclass calls its service in perform_destroy()."""

    def destroy(self, request: Request, **kwargs: str) -> Response:
        self.values(Attributes, partial=True)  # an id, and nothing else
        with transaction.atomic():
            row = self.get_object()
            row_id, before = row.pk, self.serialize_stored(row)
            self.perform_destroy(row)
            self.record(row_id, before=before, after=self.serialize_stored(row))
        return Response(Plain())

    def perform_destroy(self, row: Row) -> None:
        raise NotImplementedError
