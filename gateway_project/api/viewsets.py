"""The base of all resources: a viewset declares its rows, attributes, filters and services, and nothing else.

The order of each request is: method, credential, permission (access.py), licence, query, media type and body,
existence.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from gateway_project.api import audit, licence
from gateway_project.api.access import CALLER_KINDS, TABLE, USER, Caller
from gateway_project.api.documents import ENVELOPE, Document, Plain, flat
from gateway_project.api.fields import Attributes, read_id
from gateway_project.api.filters import Filter, read_parameters, refuse_unknown
from gateway_project.api.names import camel
from gateway_project.api.requests import ApiRequest
from gateway_project.api.response_specs import ResponseSpec
from gateway_project.errors import Conflict, MethodNotAllowed, NotFound, ValidationError

PAGING = ("page[size]", "page[number]")


class ApiViewSet(GenericViewSet):
    """What every resource can do; ListMixin, CreateMixin, UpdateMixin and DestroyMixin add the operations."""

    resource_name: ClassVar[str]  # in paths, as JSON:API's type, and in the table of access.py
    # What may be sent to an operation: {operation}_attributes.
    create_attributes: ClassVar[type[Attributes]]
    update_attributes: ClassVar[type[Attributes]]
    # For the OpenAPI document: responses that differ from the base's, by operation.
    response_specs: ClassVar[Mapping[str, ResponseSpec]] = {}
    # Other media types that an operation can answer with.
    other_media_types: ClassVar[Mapping[str, tuple[str, ...]]] = {}
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

    @property
    def caller(self) -> Caller | None:
        """The authenticated caller; None for an anonymous request."""
        return self.request.auth

    @property
    def operation(self) -> str:
        """The operation's name in the table of access.py."""
        return self.action

    def owner_id(self) -> int | None:
        """The owner of the object, for operations that owners may do; None if it can only be the caller's own."""
        raise ImproperlyConfigured(f"{type(self).__name__} does not say whose its objects are.")

    # -- Handling of a request --------------------------------------------------------------------------

    def initialize_request(self, request, *args, **kwargs) -> ApiRequest:
        made = super().initialize_request(request, *args, **kwargs)
        return ApiRequest(
            request,
            parsers=made.parsers,
            authenticators=made.authenticators,
            negotiator=made.negotiator,
            parser_context=made.parser_context,
        )

    def initial(self, request, *args, **kwargs) -> None:
        if request.method.lower() not in self.action_map:
            raise MethodNotAllowed(f"This path supports {', '.join(self.allowed_methods)}.")
        super().initial(request, *args, **kwargs)
        licence.require_for(self.resource_name)
        self.check_query()

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
            refuse_unknown(self.request.query_params, self.known_parameters())

    def known_parameters(self) -> tuple[str, ...]:
        id_parameter = ("id",) if self.action in ("update", "destroy") and "id" not in self.kwargs else ()
        return (*id_parameter, *self.parameters.get(self.operation, ()))

    def filter_values(self) -> dict[str, Any]:
        """The filters of this request with their values."""
        paging = PAGING if self.serializer_class is not None else ()  # without one it lists no rows
        known = dict.fromkeys((*paging, *self.parameters.get(self.operation, ()))) | dict(self.filters)
        return read_parameters(self.request.query_params, known)

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

    def values(self, kind: type[Attributes], *, partial: bool = False) -> dict[str, Any]:
        """The checked attributes of the request; raises ValidationError."""
        data = dict(self.document)
        if partial and "id" not in kind().fields:
            data.pop("id", None)  # identifies the row, and is no change
        for name in self.read_only_values():
            del data[name]
        serializer = kind(data=data, partial=partial, context=self.get_serializer_context())
        serializer.is_valid(raise_exception=True)
        return serializer.validated_data

    def read_only_values(self) -> dict[str, Any]:
        """The read-only attributes in the document of an update: clients may send back a whole resource object."""
        permission = TABLE[self.resource_name].get("retrieve", USER)
        # A caller who may change rows but not read them must not learn their values by guessing.
        if self.action != "update" or not (permission in CALLER_KINDS or self.caller.has(permission)):
            return {}
        writable, readable = self.update_attributes().fields, self.serializer_class().fields
        read_only = readable.keys() - writable.keys() - {"id"}
        return {name: value for name, value in self.document.items() if name in read_only}

    def refuse_read_only_changes(self, before: Mapping[str, Any] | None) -> None:
        """Raise ValidationError if a read-only attribute was sent with another value than the row's."""
        sent = flat(self.read_only_values())
        if not sent or before is None:  # for a row that is gone, the service raises NotFound
            return
        current = json.loads(JSONRenderer().render(before))
        constant = current.keys() - self.volatile
        if changed := [name for name in sent if name in constant and sent[name] != current[name]]:
            raise ValidationError.from_fields(dict.fromkeys(changed, ("is read-only here.",)))

    def target_id(self) -> int | None:
        """The id of the row, from the path, the query, data.id or attributes.id; None if none of them has it."""
        found = {read_id(str(given), **place) for place, given in self._given_ids()}
        if len(found) > 1:
            raise Conflict("path, query and body contain different ids.", field="id")
        return next(iter(found), None)

    def _given_ids(self) -> list[tuple[dict[str, str], Any]]:
        """Each id with its place, as errors name it; the path has none."""
        sources = [({}, self.kwargs), ({"parameter": "id"}, self.request.query_params)]
        if self.action != "retrieve":
            by_data = {"id": self.document.id} if self.document.id is not None else {}
            sources += [({"field": "/data/id"}, by_data), ({"field": "id"}, self.document)]
        return [(place, source["id"]) for place, source in sources if "id" in source]

    def get_object(self):
        """The target row, among those that the caller may see; raises ValidationError and NotFound."""
        target = self.target_id()
        if target is None:
            raise ValidationError("is missing.", field="id")
        return self.row(target)

    def row(self, row_id: int):
        row = self.get_queryset().filter(pk=row_id).first()
        if row is None:
            raise NotFound(f"There is no such thing in {self.resource_name} with the id {row_id}.")
        return row

    # -- The response, and the log ----------------------------------------------------------------------

    def serialized(self, row) -> dict[str, Any] | None:
        """The row as lists show it, read again from the database; None if it is gone."""
        fresh = self.get_queryset().filter(pk=row.pk).first()
        return flat(self.get_serializer(fresh).data) if fresh is not None else None

    @classmethod
    def serialize_row(cls, row) -> dict[str, Any] | None:
        """The same without a request, for the console and for commands."""
        # A viewset without a queryset takes its rows from the path.
        rows = type(row)._default_manager.all() if cls.queryset is None else cls.queryset.all()
        fresh = rows.filter(pk=row.pk).first()
        return flat(cls.serializer_class(fresh, context={"view": cls()}).data) if fresh is not None else None

    def location(self, row_id: int) -> str:
        """The URL of a row."""
        return f"{settings.GATEWAY_BASE_URL}/{self.resource_name}/{row_id}/"

    def created(self, row_id: int, body: Plain | None = None) -> Response:
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

    def record(self, row_id: int | None, **fields: Any) -> None:
        """Write what this request has changed to the log; `fields` are those of a Change, such as before and after."""
        defaults = {
            "caller": self.caller,
            "correlation_id": self.request.correlation_id,
            "address": self.address,
            "operation": self.operation,
            "resource": self.resource_name,
            "id": row_id,
            "attributes": tuple(sorted(map(camel, self.document.keys() - self.read_only_values().keys()))),
        }
        audit.record(audit.Change(**defaults | fields))

    @contextmanager
    def recorded_change(self, row) -> Iterator[None]:
        """Around a change of a row: writes the row before and after it to the log."""
        before = self.serialized(row)
        self.refuse_read_only_changes(before)
        yield
        self.record(row.pk, before=before, after=self.serialized(row))

    def record_session_event(self, message: str, *, user: Any = None, severity: str = "info") -> None:
        """Write to the log what happened to a user's sessions; `user` is None where it is unknown."""
        caller = Caller(user=user) if user is not None else None
        self.record(None, caller=caller, message=message, severity=severity)


class ListMixin(ApiViewSet):
    """GET of all rows and of one."""

    def list(self, request, **kwargs) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)

    def retrieve(self, request, **kwargs) -> Response:
        return Response(self.get_serializer(self.get_object()).data)


class CreateMixin(ApiViewSet):
    """POST; a subclass calls its service in perform_create()."""

    def create(self, request, **kwargs) -> Response:
        values = self.values(self.create_attributes)
        with transaction.atomic():
            row = self.perform_create(values)
            self.record(row.pk, after=self.serialized(row))
        return self.created(row.pk)

    def perform_create(self, values: dict[str, Any]):
        raise NotImplementedError


class UpdateMixin(ApiViewSet):
    """PATCH; a subclass calls its service in perform_update()."""

    def update(self, request, **kwargs) -> Response:
        values = self.values(self.update_attributes, partial=True)
        self.prepare_update(values)
        with transaction.atomic():
            row = self.get_object()
            with self.recorded_change(row):
                self.perform_update(row, values)
        return Response(Plain())

    def prepare_update(self, values: dict[str, Any]) -> None:
        """Work that must not hold the transaction open, or must be kept if it fails."""

    def perform_update(self, row, values: dict[str, Any]) -> None:
        raise NotImplementedError


class DestroyMixin(ApiViewSet):
    """DELETE; a subclass calls its service in perform_destroy()."""

    def destroy(self, request, **kwargs) -> Response:
        self.values(Attributes, partial=True)  # an id, and nothing else
        with transaction.atomic():
            row = self.get_object()
            row_id, before = row.pk, self.serialized(row)
            self.perform_destroy(row)
            self.record(row_id, before=before, after=self.serialized(row))
        return Response(Plain())

    def perform_destroy(self, row) -> None:
        raise NotImplementedError
