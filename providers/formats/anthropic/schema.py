"""JSON schemas as Claude models take them for structured answers and strict tools: a part of JSON schema.

https://platform.claude.com/docs/en/build-with-claude/structured-outputs; what does not belong to it is a 400. As
Anthropic's SDK does, bounds become words in the description, and objects are closed.
"""

from collections.abc import Callable

from gateway_project.json_types import JsonObject
from providers.formats.json_values import as_text, dump_value

BOUNDS = frozenset({
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
    *("minItems", "maxItems", "uniqueItems", "minContains", "maxContains", "minProperties", "maxProperties"),
})  # fmt: skip
FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)  # of strings
CLOSED = "additionalProperties"


def supported_schema(schema: JsonObject) -> JsonObject:
    """The schema with what these models take, and all other bounds in descriptions."""
    bounds = {name: value for name, value in schema.items() if _is_unsupported(name, value)}
    supported = {
        "anyOf" if name == "oneOf" and "anyOf" not in schema else name: INSIDE[name](value) if name in INSIDE else value
        for name, value in schema.items()
        if name not in bounds
    }
    if bounds:
        words = [as_text(schema.get("description")), dump_value(bounds).decode()]
        supported["description"] = "\n\n".join(filter(None, words))
    if schema.get("type") == "object" or isinstance(schema.get("properties"), dict):
        supported.setdefault(CLOSED, False)
    return supported


def _is_unsupported(name: str, value: object) -> bool:
    if name == "format":
        return value not in FORMATS
    return name in BOUNDS and not (name == "minItems" and value in (0, 1))


def _translate_schema(value: object) -> object:
    return supported_schema(value) if isinstance(value, dict) else value


def _translate_list(value: object) -> object:
    return [_translate_schema(item) for item in value] if isinstance(value, list) else value


def _translate_members(value: object) -> object:
    return {name: _translate_schema(field) for name, field in value.items()} if isinstance(value, dict) else value


# The members of a schema that contain schemas.
INSIDE: dict[str, Callable[[object], object]] = {
    "properties": _translate_members,
    "$defs": _translate_members,
    "definitions": _translate_members,
    "items": _translate_schema,
    "anyOf": _translate_list,
    "oneOf": _translate_list,
    "allOf": _translate_list,
}
