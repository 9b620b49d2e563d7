"""JSON schemas of serializers, made by drf-spectacular, with camelCase names."""

from collections.abc import Mapping
from copy import deepcopy

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentRegistry, ResolvedComponent, append_meta
from rest_framework.fields import Field
from rest_framework.serializers import Serializer

from gateway_project.api.fields import Attributes, Id
from gateway_project.api.names import camel
from gateway_project.json_types import JsonObject

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
    "description": "Links to this list and its other pages, as paths on this host. A page that does not exist has no "
    "link.",
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
    def components(self) -> JsonObject:
        """Every schema that was referred to, by name."""
        return self.registry.build({}).get("schemas", {})

    def attributes(self, kind: type[Attributes], *, partial: bool) -> JsonObject:
        """The attributes of a request."""
        return self.resolve_serializer(_serializer(kind, partial=partial), "request").ref

    def row(self, kind: type[Serializer]) -> JsonObject:
        """A serialized row, flat."""
        return self.resolve_serializer(_serializer(kind), "response").ref

    def resource(self, name: str, kind: type[Serializer]) -> JsonObject:
        """The same as a resource object."""
        component = self.resolve_serializer(_serializer(kind), "response")
        resource = ResolvedComponent(f"{component.name}Resource", ResolvedComponent.SCHEMA, object=name)
        if resource not in self.registry:
            resource.schema = _resource(name, component.schema)
            self.registry.register(resource)
        return resource.ref

    # -- drf-spectacular's hooks ------------------------------------------------------------------------

    def _map_basic_serializer(self, serializer: Serializer, direction: str) -> JsonObject:
        schema = super()._map_basic_serializer(serializer, direction)
        properties = {camel(name): _without_extensions(value) for name, value in schema.get("properties", {}).items()}
        if direction == "response":
            absent = set(map(camel, getattr(serializer, "may_be_absent", ())))
            required = [name for name, value in properties.items() if not value.get("writeOnly") and name not in absent]
        else:
            required = [camel(name) for name in schema.get("required", ())]
        if isinstance(serializer, Attributes):
            schema["additionalProperties"] = False
            if serializer.partial:
                properties["id"] = {**Id.schema, "description": "The id, as an alternative to the path."}
        return {**schema, "properties": properties, "required": required}

    def _map_serializer_field(self, field: Field, direction: str, bypass_extensions: bool = False) -> JsonObject:
        declared = getattr(field, "schema", None)
        if isinstance(declared, Mapping):
            return append_meta(deepcopy(dict(declared)), self._get_serializer_field_meta(field, direction))
        return super()._map_serializer_field(field, direction, bypass_extensions)

    def _get_serializer_name(self, serializer: Serializer, direction: str, bypass_extensions: bool = False) -> str:
        name = super()._get_serializer_name(serializer, direction, bypass_extensions)
        return name.removesuffix("Request") if isinstance(serializer, Attributes) else name


def _serializer(kind: type[Serializer], *, partial: bool = False) -> Serializer:
    return kind(context={"schema": True}, partial=partial)


def _without_extensions(schema: JsonObject) -> JsonObject:
    """The schema without drf-spectacular's own keywords."""
    return {name: value for name, value in schema.items() if name not in ("x-spec-enum-id", "readOnly", "title")}


def _resource(name: str, flat: JsonObject) -> JsonObject:
    properties = {member: schema for member, schema in flat["properties"].items() if member != "id"}
    attributes = {"type": "object", "properties": properties, "required": list(properties)}
    members: JsonObject = {"type": {"const": name}, "id": ID_TEXT, "attributes": attributes}
    description = {"description": flat["description"]} if "description" in flat else {}
    return {"type": "object", **description, "properties": members, "required": list(members)}
