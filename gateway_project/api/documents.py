"""Bodies: the envelope of requests, and the two media types of responses."""

from collections.abc import Iterable, Mapping
from typing import IO, Any, Protocol

from django.http import HttpRequest
from django.http.request import MediaType
from rest_framework import renderers
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework_json_api.renderers import JSONRenderer

from gateway_project.api.names import camel, list_names, snake
from gateway_project.api.strict_json import parse_object
from gateway_project.errors import Conflict, ValidationError
from gateway_project.errors.problem import escape_pointer
from gateway_project.json_types import JsonObject

JSON_API, JSON = "application/vnd.api+json", "application/json"
ENVELOPE = 'The body must look like {"data": {"attributes": {…}}}.'
MAX_ATTRIBUTES = 100  # many more than any resource has
# The members allowed in a document; others are refused, so that a misspelt `attributes` is not ignored.
DOCUMENT_MEMBERS = frozenset({"data", "jsonapi", "links", "meta"})
DATA_MEMBERS = frozenset({"type", "id", "attributes", "relationships", "links", "meta"})


class Document(JsonObject):
    """The attributes of a request under their Python names; `id` is the text of data.id, if given."""

    id: str | None = None


class Plain(JsonObject):
    """A body that is rendered as it is: errors, {}, and the bodies that the specification spells out."""


class ResourceView(Protocol):
    """What the parser has to know of a viewset."""

    action: str
    resource_name: str
    attributes_optional: tuple[str, ...]


class ApiParser(BaseParser):
    """Reads the envelope; `type` and `id` may be left out. Raises ValidationError, and Conflict for a wrong type."""

    media_type = JSON_API

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, object] | None = None
    ) -> Document:
        view, data = _view(parser_context), _data(parse_object(stream.read()))
        needs_no_attributes = "id" in data and view.action in view.attributes_optional
        attributes = data.get("attributes", {} if needs_no_attributes else None)
        if not isinstance(attributes, dict):
            raise ValidationError(ENVELOPE)
        _check_type(data, view.resource_name)
        document = Document(_python_names(attributes, view))
        document.id = _id(data)
        return document


class FlatParser(ApiParser):
    """The same envelope, sent as application/json."""

    media_type = JSON


def _view(parser_context: Mapping[str, Any] | None) -> ResourceView:
    assert parser_context is not None, "DRF always passes one"
    return parser_context["view"]


def _data(document: JsonObject) -> JsonObject:
    data = document.get("data")
    if not isinstance(data, dict):
        raise ValidationError(ENVELOPE)
    unknown = [("", name) for name in document.keys() - DOCUMENT_MEMBERS]
    unknown += [("/data", name) for name in data.keys() - DATA_MEMBERS]
    if unknown:
        parent, name = min(unknown)
        raise ValidationError(f"is not allowed here. {ENVELOPE}", field=f"{parent}/{_segment(name)}")
    if data.get("relationships", {}) != {}:
        raise ValidationError("send them as attributes, as lists of ids.", field="/data/relationships")
    return data


def _python_names(attributes: JsonObject, view: ResourceView) -> JsonObject:
    if len(attributes) > MAX_ATTRIBUTES:
        raise ValidationError(f"has more than {MAX_ATTRIBUTES} members.", field="/data/attributes")
    return {_python_name(name, view): value for name, value in attributes.items()}


def _python_name(wire_name: str, view: ResourceView) -> str:
    name = snake(wire_name)
    if name is None:
        kind = getattr(view, f"{view.action}_attributes", None)
        problem = f"unknown attribute. {list_names(kind().writable) if kind else ''}".rstrip()
        raise ValidationError(problem, field=f"/data/attributes/{_segment(wire_name)}")
    return name


def _segment(name: str) -> str:
    """A name from the request as a segment of a pointer."""
    return escape_pointer(name[:100])


def _check_type(data: JsonObject, expected: str) -> None:
    resource = data.get("type", expected)
    if not isinstance(resource, str):
        raise ValidationError("must be a text.", field="/data/type")
    if resource != expected:
        raise Conflict(f"is {resource[:100]!r}, and must be {expected!r} here.", field="/data/type")


def _id(data: JsonObject) -> str | None:
    if "id" not in data:
        return None
    row_id = data["id"]
    if isinstance(row_id, bool) or not isinstance(row_id, int | str):
        raise ValidationError("must be a number or a text.", field="/data/id")
    return str(row_id)


class ApiRenderer(JSONRenderer):
    """Resource objects: {"type", "id", "attributes"}."""

    media_type = JSON_API
    charset = "utf-8"

    def render(
        self,
        data: JsonObject | None,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, object] | None = None,
    ) -> bytes:
        if data is None or isinstance(data, Plain):
            return renderers.JSONRenderer.render(self, data, accepted_media_type, renderer_context)
        return super().render(data, accepted_media_type, renderer_context)

    @classmethod
    def build_json_resource_obj(
        cls,
        fields: object,
        resource: JsonObject,
        instance: object,
        resource_name: str,
        *options: object,
    ) -> JsonObject:
        attributes = {camel(name): value for name, value in resource.items() if name != "id"}
        return {"type": resource_name, "id": str(resource["id"]), "attributes": attributes}


class FlatRenderer(renderers.JSONRenderer):
    """The same documents with flat elements: {"id", …}."""

    media_type = JSON

    def render(
        self,
        data: JsonObject | None,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, object] | None = None,
    ) -> bytes:
        if data is not None and not isinstance(data, Plain):
            data = self.document(data)
        return super().render(data, accepted_media_type, renderer_context)

    def document(self, data: JsonObject) -> JsonObject:
        """The document of a list with its meta and links, or of one row."""
        if "results" in data:
            rows = [with_camel_names(row) for row in data["results"]]
            return {"links": data["links"], "data": rows, "meta": with_camel_names(data["meta"])}
        return {"data": with_camel_names(data)}


def with_camel_names(row: Mapping[str, object]) -> JsonObject:
    """A serialized row with camelCase names."""
    return {camel(name): value for name, value in row.items()}


class Negotiation(DefaultContentNegotiation):
    """JSON:API unless application/json is preferred; an Accept that allows neither gets JSON:API, not an error."""

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        media_type = JSON if prefers_media_type(request, JSON) else JSON_API
        renderer = next(renderer for renderer in renderers if renderer.media_type == media_type)
        return renderer, media_type


def prefers_media_type(request: HttpRequest, media_type: str) -> bool:
    """Whether the client prefers this media type to JSON:API."""
    ranges = [MediaType(part.strip().lower()) for part in request.headers.get("Accept", "").split(",")]
    return _preference(ranges, media_type) > _preference(ranges, JSON_API)


def _preference(ranges: list[MediaType], media_type: str) -> tuple[float, int]:
    """(quality, specificity) of the most specific range that covers the media type."""
    matching = [accepted for accepted in ranges if accepted.match(media_type)]
    best = max(matching, key=lambda accepted: accepted.specificity, default=None)
    return (best.quality, best.specificity) if best is not None and best.quality else (0, 0)
