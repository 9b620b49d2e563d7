"""JSON schemas of serializers, made by drf-spectacular, with camelCase names."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentRegistry, ResolvedComponent, append_meta
from rest_framework.serializers import Serializer

from gateway_project.api.fields import Attributes, Id
from gateway_project.api.names import camel

EMPTY = {"type": "object", "maxProperties": 0}
ID_TEXT = {"type": "string", "pattern": "^[0-9]{1,19}$"}
META = {
    "type": "object",
    "description": "The page of a list, and its total.",
    "properties": {
        "totalCount": {"type": "integer", "minimum": 0},
        "pageNumber": {"type": "integer", "minimum": 1},
        "pageSize": {"type": "integer", "minimum": 0},
        "totalCountEstimated": {"const": True, "description": "Present if totalCount is an estimate."},
    },
    "required": ["totalCount", "pageNumber", "pageSize"],
}
LINKS = {
    "type": "object",
    "description": "The list, and other pages of it, as paths on this host; a page that does not exist is left out.",
    "properties": {
        "self": {"type": "string", "format": "uri-reference"},
        "first": {"type": "string", "format": "uri-reference"},
        "last": {"type": "string", "format": "uri-reference", "description": "Absent if totalCount is an estimate."},
        "prev": {"type": "string", "format": "uri-reference"},
        "next": {"type": "string", "format": "uri-reference"},
    },
    "required": ["self"],
}


class Schemas(AutoSchema):
    """References to schemas; `components` collects the schemas that were referred to."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = ComponentRegistry()

    @property
    def components(self) -> dict[str, Any]:
        """Every schema that was referred to, by name."""
        return self.registry.build({}).get("schemas", {})

    def attributes(self, kind: type[Attributes], *, partial: bool) -> dict[str, Any]:
        """The attributes of a request."""
        return self.resolve_serializer(_made(kind, partial=partial), "request").ref

    def row(self, kind: type[Serializer]) -> dict[str, Any]:
        """A serialized row, flat."""
        return self.resolve_serializer(_made(kind), "response").ref

    def resource(self, name: str, kind: type[Serializer]) -> dict[str, Any]:
        """The same as a resource object."""
        component = self.resolve_serializer(_made(kind), "response")
        made = ResolvedComponent(f"{component.name}Resource", ResolvedComponent.SCHEMA, object=name)
        if made not in self.registry:
            made.schema = _resource(name, component.schema)
            self.registry.register(made)
        return made.ref

    # -- drf-spectacular's hooks ------------------------------------------------------------------------

    def _map_basic_serializer(self, serializer, direction: str) -> dict[str, Any]:
        schema = super()._map_basic_serializer(serializer, direction)
        properties = {camel(name): _cleaned(found) for name, found in schema["properties"].items()}
        if direction == "response":
            required = [name for name, found in properties.items() if not found.get("writeOnly")]
        else:
            required = [camel(name) for name in schema.get("required", ())]
        if isinstance(serializer, Attributes):
            schema["additionalProperties"] = False
            if serializer.partial:
                properties["id"] = {**Id.schema, "description": "The id, as an alternative to the path."}
        return {**schema, "properties": properties, "required": required}

    def _map_serializer_field(self, field, direction: str, bypass_extensions: bool = False) -> dict[str, Any]:
        declared = getattr(field, "schema", None)
        if isinstance(declared, Mapping):
            return append_meta(deepcopy(dict(declared)), self._get_serializer_field_meta(field, direction))
        return super()._map_serializer_field(field, direction, bypass_extensions)

    def _get_serializer_name(self, serializer, direction: str, bypass_extensions: bool = False) -> str:
        name = super()._get_serializer_name(serializer, direction, bypass_extensions)
        return name.removesuffix("Request") if isinstance(serializer, Attributes) else name


def _made(kind: type[Serializer], **options: Any) -> Serializer:
    return kind(context={"schema": True}, **options)


def _cleaned(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without drf-spectacular's own keywords."""
    return {name: value for name, value in schema.items() if name not in ("x-spec-enum-id", "readOnly", "title")}


def _resource(name: str, flat: dict[str, Any]) -> dict[str, Any]:
    properties = {given: schema for given, schema in flat["properties"].items() if given != "id"}
    attributes = {"type": "object", "properties": properties, "required": list(properties)}
    found = {"type": {"const": name}, "id": ID_TEXT, "attributes": attributes}
    told = {"description": flat["description"]} if "description" in flat else {}
    return {"type": "object", **told, "properties": found, "required": list(found)}
