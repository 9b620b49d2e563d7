"""Bodies: the envelope of requests, and the two media types of responses."""

from collections.abc import Mapping
from typing import Any

from django.http.request import MediaType
from rest_framework import renderers
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework_json_api.renderers import JSONRenderer

from gateway_project.api.names import camel, snake
from gateway_project.api.strict_json import parse_object
from gateway_project.errors import Conflict, ValidationError
from gateway_project.problem import escape_pointer

JSON_API, JSON = "application/vnd.api+json", "application/json"
ENVELOPE = 'The body must look like {"data": {"attributes": {…}}}.'
MAX_ATTRIBUTES = 100  # many more than any resource has
# The members allowed in a document; others are refused, so that a misspelt `attributes` is not ignored.
DOCUMENT_MEMBERS = frozenset({"data", "jsonapi", "links", "meta"})
DATA_MEMBERS = frozenset({"type", "id", "attributes", "relationships", "links", "meta"})


class Document(dict):
    """The attributes of a request under their Python names; `id` is the text of data.id, if given."""

    id: str | None = None


class Plain(dict):
    """A body that is rendered as it is: errors, {}, and the bodies that the specification spells out."""


class ApiParser(BaseParser):
    """Reads the envelope; `type` and `id` may be left out. Raises ValidationError, and Conflict for a wrong type."""

    media_type = JSON_API

    def parse(self, stream, media_type=None, parser_context=None) -> Document:
        view, data = parser_context["view"], _data(parse_object(stream.read()))
        needs_no_attributes = "id" in data and view.action in view.attributes_optional
        attributes = data.get("attributes", {} if needs_no_attributes else None)
        if not isinstance(attributes, dict):
            raise ValidationError(ENVELOPE)
        _check_type(data, view.resource_name)
        document = Document(_python_names(attributes))
        document.id = _id(data)
        return document


class FlatParser(ApiParser):
    """The same envelope, sent as application/json."""

    media_type = JSON


def _data(document: dict[str, Any]) -> dict[str, Any]:
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


def _python_names(attributes: dict[str, Any]) -> dict[str, Any]:
    if len(attributes) > MAX_ATTRIBUTES:
        raise ValidationError(f"has more than {MAX_ATTRIBUTES}.", field="/data/attributes")
    names = {given: snake(given) for given in attributes}
    if unknown := [given for given, name in names.items() if name is None]:
        raise ValidationError("unknown attribute.", field=f"/data/attributes/{_segment(unknown[0])}")
    return {names[given]: value for given, value in attributes.items()}


def _segment(name: str) -> str:
    """A name that somebody sent, as a segment of a pointer."""
    return escape_pointer(name[:100])


def _check_type(data: dict[str, Any], expected: str) -> None:
    given = data.get("type", expected)
    if not isinstance(given, str):
        raise ValidationError("must be a text.", field="/data/type")
    if given != expected:
        raise Conflict(f"is {given[:100]!r}, and must be {expected!r} here.", field="/data/type")


def _id(data: dict[str, Any]) -> str | None:
    if "id" not in data:
        return None
    given = data["id"]
    if isinstance(given, bool) or not isinstance(given, int | str):
        raise ValidationError("must be a number or a text.", field="/data/id")
    return str(given)


class ApiRenderer(JSONRenderer):
    """Resource objects: {"type", "id", "attributes"}."""

    media_type = JSON_API
    charset = "utf-8"

    def render(self, data, accepted_media_type=None, renderer_context=None) -> bytes:
        if data is None or isinstance(data, Plain):
            return renderers.JSONRenderer.render(self, data, accepted_media_type, renderer_context)
        return super().render(data, accepted_media_type, renderer_context)

    @classmethod
    def build_json_resource_obj(cls, fields, resource, instance, resource_name, *rest):  # noqa: ARG003
        attributes = {camel(name): value for name, value in resource.items() if name != "id"}
        return {"type": resource_name, "id": str(resource["id"]), "attributes": attributes}


class FlatRenderer(renderers.JSONRenderer):
    """The same documents with flat elements: {"id", …}."""

    media_type = JSON

    def render(self, data, accepted_media_type=None, renderer_context=None) -> bytes:
        if data is not None and not isinstance(data, Plain):
            data = self.document(data)
        return super().render(data, accepted_media_type, renderer_context)

    def document(self, data: Mapping[str, Any]) -> dict[str, Any]:
        if "results" in data:
            rows = [flat(row) for row in data["results"]]
            return {"links": data["links"], "data": rows, "meta": flat(data["meta"])}
        return {"data": flat(data)}


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A serialized row with camelCase names."""
    return {camel(name): value for name, value in row.items()}


class Negotiation(DefaultContentNegotiation):
    """JSON:API unless application/json is preferred; an Accept that allows neither gets JSON:API, not an error."""

    def select_renderer(self, request, renderers, format_suffix=None):
        chosen = JSON if prefers(request, JSON) else JSON_API
        renderer = next(one for one in renderers if one.media_type == chosen)
        return renderer, renderer.media_type


def prefers(request, media_type: str) -> bool:
    """Whether the client prefers this media type to JSON:API."""
    ranges = [MediaType(part.strip().lower()) for part in request.headers.get("Accept", "").split(",")]
    return _preference(ranges, media_type) > _preference(ranges, JSON_API)


def _preference(ranges: list[MediaType], media_type: str) -> tuple[float, int]:
    """(quality, specificity) of the most specific range that covers the media type."""
    matching = [accepted for accepted in ranges if accepted.match(media_type)]
    best = max(matching, key=lambda accepted: accepted.specificity, default=None)
    return (best.quality, best.specificity) if best is not None and best.quality else (0, 0)
