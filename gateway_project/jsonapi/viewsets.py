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

from gateway_project.access import SORTS, TABLE, USER, Caller
from gateway_project.errors import Conflict, MethodNotAllowed, NotFound, ValidationError
from gateway_project.jsonapi import audit, licence
from gateway_project.jsonapi.documents import ENVELOPE, Document, Plain, flat
from gateway_project.jsonapi.fields import Attributes, read_id
from gateway_project.jsonapi.filters import Filter, read_parameters, refuse_unknown
from gateway_project.jsonapi.names import camel
from gateway_project.jsonapi.requests import ApiRequest
from gateway_project.jsonapi.shapes import Shape

PAGING = ("page[size]", "page[number]")


class ApiViewSet(GenericViewSet):
    """What every resource can do; Lists, Creates, Updates and Destroys add the operations."""

    resource_name: ClassVar[str]  # in paths, as JSON:API's type, and in the table of access.py
    # What may be sent to an operation: {operation}_attributes.
    create_attributes: ClassVar[type[Attributes]]
    update_attributes: ClassVar[type[Attributes]]
    # Answers that are not as the base gives them, by operation.
    shapes: ClassVar[Mapping[str, Shape]] = {}
    # Media types of other answers that it can give, by operation.
    other_forms: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    # What of a row changes by itself, under the names of the wire.
    volatile: ClassVar[frozenset[str]] = frozenset()
    filters: ClassVar[Mapping[str, Filter]] = {}
    # Query parameters beside the filters, by operation; whoever names one reads it.
    parameters: ClassVar[Mapping[str, Mapping[str, Filter]]] = {}
    # Names in the table of access.py that an operation goes by at times; `operation` says when.
    variants: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    # Operations that take a body, and need none.
    bodiless: ClassVar[tuple[str, ...]] = ("destroy",)
    # Operations that an id in the body says everything about; all others want attributes in theirs.
    by_id_alone: ClassVar[tuple[str, ...]] = ("destroy",)
    id_header: ClassVar[str] = ""

    @property
    def caller(self) -> Caller | None:
        """Who asks; None for nobody."""
        return self.request.auth

    @property
    def operation(self) -> str:
        """The name of what is done, as the table of access.py has it."""
        return self.action

    def owner_id(self) -> int | None:
        """Whose object is touched, for operations of owners; None if no other user's can be."""
        raise ImproperlyConfigured(f"{type(self).__name__} does not say whose its objects are.")

    # -- The way of a request ---------------------------------------------------------------------------

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
        # Answers hold what one caller may see: no cache between us and them may keep one.
        return {**super().default_response_headers, "Cache-Control": "no-store"}

    def check_query(self) -> None:
        """Refuse query parameters that this operation does not know."""
        if self.action != "list":
            refuse_unknown(self.request.query_params, self.known_parameters())

    def known_parameters(self) -> tuple[str, ...]:
        by_query = ("id",) if self.action in ("update", "destroy") and "id" not in self.kwargs else ()
        return (*by_query, *self.parameters.get(self.operation, ()))

    def filter_values(self) -> dict[str, Any]:
        """The filters of this request with their values."""
        paging = PAGING if self.serializer_class is not None else ()  # else it is no list of rows
        known = dict.fromkeys((*paging, *self.parameters.get(self.operation, ()))) | dict(self.filters)
        return read_parameters(self.request.query_params, known)

    # -- What was sent ----------------------------------------------------------------------------------

    @property
    def document(self) -> Document:
        """The request's attributes; raises UnsupportedMediaType, PayloadTooLarge and ValidationError."""
        document = self.request.data
        if isinstance(document, Document):
            return document
        if self.action in self.bodiless:
            return Document()
        raise ValidationError(ENVELOPE)

    def values(self, kind: type[Attributes], *, partial: bool = False) -> dict[str, Any]:
        """The checked attributes of the request; raises ValidationError."""
        data = dict(self.document)
        if partial and "id" not in kind().fields:
            data.pop("id", None)  # says which row is meant, and is no change
        for name in self.sent_back():
            del data[name]
        serializer = kind(data=data, partial=partial, context=self.get_serializer_context())
        serializer.is_valid(raise_exception=True)
        return serializer.validated_data

    def sent_back(self) -> dict[str, Any]:
        """What an update says of attributes that are only shown: whoever sends a whole answer back sends them too."""
        seen_by = TABLE[self.resource_name].get("retrieve", USER)
        # Who may change rows and not see them must not find out by trying what stands in them.
        if self.action != "update" or not (seen_by in SORTS or self.caller.has(seen_by)):
            return {}
        writable, shown = self.update_attributes().fields, self.serializer_class().fields
        return {name: said for name, said in self.document.items() if name in shown.keys() - writable.keys() - {"id"}}

    def refuse_other(self, before: Mapping[str, Any] | None) -> None:
        """Raise ValidationError where what is only shown would become another."""
        said = flat(self.sent_back())
        if not said or before is None:  # whoever changes a row finds that it has gone
            return
        known = json.loads(JSONRenderer().render(before))
        kept = known.keys() - self.volatile
        if other := [name for name in said if name in kept and said[name] != known[name]]:
            raise ValidationError.from_fields(dict.fromkeys(other, ("is only shown, and cannot be changed here.",)))

    def target_id(self) -> int | None:
        """Which row is meant: by the path, else the query, else data.id, else attributes.id; None if none says it."""
        found = {read_id(str(given)) for given in self._given_ids()}
        if len(found) > 1:
            raise Conflict("id: path, query and body name different ones.")
        return next(iter(found), None)

    def _given_ids(self) -> list[Any]:
        places = [self.kwargs, self.request.query_params]
        if self.action != "retrieve":
            by_data = {"id": self.document.id} if self.document.id is not None else {}
            places += [by_data, self.document]
        return [place["id"] for place in places if "id" in place]

    def get_object(self):
        """The row that is meant, among those that the caller may see; raises ValidationError and NotFound."""
        target = self.target_id()
        if target is None:
            raise ValidationError("id: is missing; it says which one is meant.")
        return self.row(target)

    def row(self, row_id: int):
        row = self.get_queryset().filter(pk=row_id).first()
        if row is None:
            raise NotFound(f"There is no such thing in {self.resource_name} with the id {row_id}.")
        return row

    # -- What goes out, and what the log is told --------------------------------------------------------

    def shown(self, row) -> dict[str, Any] | None:
        """The row as lists show it, read anew; None if it is gone."""
        fresh = self.get_queryset().filter(pk=row.pk).first()
        return flat(self.get_serializer(fresh).data) if fresh is not None else None

    @classmethod
    def as_listed(cls, row) -> dict[str, Any] | None:
        """The same where there is no request: for the console and for commands."""
        # None where the rows of a resource are those of a path.
        rows = type(row)._default_manager.all() if cls.queryset is None else cls.queryset.all()
        fresh = rows.filter(pk=row.pk).first()
        return flat(cls.serializer_class(fresh, context={"view": cls()}).data) if fresh is not None else None

    def location(self, row_id: int) -> str:
        """Where a row is found."""
        return f"{settings.GATEWAY_BASE_URL}/{self.resource_name}/{row_id}/"

    def created(self, row_id: int, body: Plain | None = None) -> Response:
        """201 with the headers that lead to the row; the body is {} unless told."""
        location = self.location(row_id)
        headers = {"Location": location, "Content-Location": location}
        if self.id_header:
            headers[self.id_header] = str(row_id)
        return Response(Plain() if body is None else body, status=201, headers=headers)

    @property
    def address(self) -> str:
        """The client's address."""
        return self.request.META.get("REMOTE_ADDR", "")

    def record(self, row_id: int | None, **told: Any) -> None:
        """Tell the log what this request has changed: before and after, or whatever else a Change can say."""
        known = {
            "caller": self.caller,
            "correlation_id": self.request.correlation_id,
            "address": self.address,
            "operation": self.operation,
            "resource": self.resource_name,
            "id": row_id,
            "attributes": tuple(sorted(map(camel, self.document.keys() - self.sent_back().keys()))),
        }
        audit.record(audit.Change(**known | told))

    @contextmanager
    def changing(self, row) -> Iterator[None]:
        """Around a change of a row: tells the log how it was before and after."""
        before = self.shown(row)
        self.refuse_other(before)
        yield
        self.record(row.pk, before=before, after=self.shown(row))

    def tell(self, message: str, *, user: Any = None, severity: str = "info") -> None:
        """Tell the log what happened to a user's sessions; `user` None: nobody knows whose they would be."""
        caller = Caller(user=user) if user is not None else None
        self.record(None, caller=caller, message=message, severity=severity)


class Lists(ApiViewSet):
    """GET of all rows and of one."""

    def list(self, request, **kwargs) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)

    def retrieve(self, request, **kwargs) -> Response:
        return Response(self.get_serializer(self.get_object()).data)


class Creates(ApiViewSet):
    """POST; a subclass calls its service in perform_create()."""

    def create(self, request, **kwargs) -> Response:
        values = self.values(self.create_attributes)
        with transaction.atomic():
            row = self.perform_create(values)
            self.record(row.pk, after=self.shown(row))
        return self.created(row.pk)

    def perform_create(self, values: dict[str, Any]):
        raise NotImplementedError


class Updates(ApiViewSet):
    """PATCH; a subclass calls its service in perform_update()."""

    def update(self, request, **kwargs) -> Response:
        values = self.values(self.update_attributes, partial=True)
        self.prepare_update(values)
        with transaction.atomic():
            row = self.get_object()
            with self.changing(row):
                self.perform_update(row, values)
        return Response(Plain())

    def prepare_update(self, values: dict[str, Any]) -> None:
        """What must not wait inside the transaction, or must stay when it fails."""

    def perform_update(self, row, values: dict[str, Any]) -> None:
        raise NotImplementedError


class Destroys(ApiViewSet):
    """DELETE; a subclass calls its service in perform_destroy()."""

    def destroy(self, request, **kwargs) -> Response:
        self.values(Attributes, partial=True)  # an id, and nothing else
        with transaction.atomic():
            row = self.get_object()
            row_id, before = row.pk, self.shown(row)
            self.perform_destroy(row)
            self.record(row_id, before=before, after=self.shown(row))
        return Response(Plain())

    def perform_destroy(self, row) -> None:
        raise NotImplementedError
