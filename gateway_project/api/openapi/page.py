"""Prepares the OpenAPI document for its HTML page: operations by tag, schemas as tables of their properties."""

# drf-spectacular's own pages are empty elements that scripts fill. In drf-spectacular 0.30, Swagger UI loads four
# files and Redoc two from cdn.jsdelivr.net and fonts.googleapis.com: without access to the internet they show nothing.
# drf-spectacular-sidecar serves these files from the gateway itself; the pages would still be empty without scripts,
# which the policy would have to allow. This page loads no file, and its Content-Security-Policy allows nothing but its
# own style.

import json
import re
from collections.abc import Iterator

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from gateway_project.json_types import JsonObject

WORDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "null": "null"}
CONSTRAINTS = {
    "minLength": "no shorter than {}",
    "maxLength": "no longer than {}",
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "maxItems": "at most {} of them",
}
# The bounds of 64-bit numbers are not shown.
HIDDEN_BOUNDS = {2**63 - 1, -(2**63)}


def sections(document: JsonObject) -> JsonObject:
    """The template's context: `tags` with their operations, and `schemas` with their rows."""
    operations = list(_operations(document))
    return {
        "about": prose(document["info"]["description"]),
        "tags": [
            {
                "name": tag["name"],
                "about": prose(tag.get("description", "")),
                "operations": [operation for operation in operations if operation["tag"] == tag["name"]],
            }
            for tag in document["tags"]
        ],
        "schemas": [
            {"name": name, "about": prose(schema.get("description", "")), "rows": rows(schema)}
            for name, schema in sorted(document["components"]["schemas"].items())
        ],
        "security": [
            {"name": name, "about": prose(scheme["description"])}
            for name, scheme in document["components"]["securitySchemes"].items()
        ],
    }


def _operations(document: JsonObject) -> Iterator[JsonObject]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield {
                "id": operation["operationId"],
                "tag": operation["tags"][0],
                "method": method.upper(),
                "path": path,
                "summary": operation["summary"],
                "about": prose(operation["description"]),
                "credentials": [name for schemes in operation["security"] for name in schemes or ("none",)],
                "parameters": [_parameter(parameter) for parameter in operation["parameters"]],
                **_body(document, operation.get("requestBody")),
                "answers": [_answer(document, status, response) for status, response in operation["responses"].items()],
            }


def _parameter(parameter: JsonObject) -> JsonObject:
    about = prose(parameter.get("description", ""))
    return {"name": parameter["name"], "where": parameter["in"], "kind": words(parameter["schema"]), "about": about}


def _body(document: JsonObject, body: JsonObject | None) -> JsonObject:
    """The rows of the body, or of the attributes in an envelope, and an example."""
    if body is None:
        return {}
    content = next(iter(body["content"].values()))
    examples = [content["example"]] if "example" in content else content["schema"].get("examples", [])
    return {
        "enveloped": "data" in content["schema"]["properties"],
        "body": rows(_attributes(document, content["schema"])),
        "examples": [json.dumps(example, indent=2, ensure_ascii=False) for example in examples],
    }


def _attributes(document: JsonObject, schema: JsonObject) -> JsonObject:
    if "data" not in schema["properties"]:
        return schema
    reference = schema["properties"]["data"]["properties"]["attributes"]["$ref"]
    return document["components"]["schemas"][reference.rpartition("/")[2]]


def _answer(document: JsonObject, status: str, response: JsonObject) -> JsonObject:
    if "$ref" in response:
        response = document["components"]["responses"][response["$ref"].rpartition("/")[2]]
    content = response.get("content", {})
    return {
        "status": status,
        "about": prose(response["description"]),
        "headers": [name for name in response["headers"] if name != "X-Svc-Request-ID"],
        # All errors have the same schema; their descriptions are enough.
        "content": [(name, words(body["schema"])) for name, body in content.items() if status.startswith("2")],
    }


def rows(schema: JsonObject) -> list[JsonObject]:
    """The properties of an object: name, kind, whether it is required, and its description."""
    required = schema.get("required", ())
    return [
        {"name": name, "kind": words(value), "required": name in required, "about": prose(value.get("description", ""))}
        for name, value in schema.get("properties", {}).items()
    ]


def words(schema: JsonObject) -> SafeString:
    """A schema in a few words, with links to the schemas that have a table."""
    return mark_safe(", ".join(_words(schema)))  # noqa: S308  # nosec B308, B703  # every part is escaped where it is made


def _words(schema: JsonObject) -> Iterator[str]:
    yield _kind(schema)
    for name, phrase in CONSTRAINTS.items():
        if name in schema and schema[name] not in HIDDEN_BOUNDS:
            yield phrase.format(escape(schema[name]))


def _kind(schema: JsonObject) -> str:
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#schema-{name}">{name}</a>'
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return " or ".join(_kind(one) for one in schema[union])
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " or ".join(f"<code>{escape(json.dumps(value))}</code>" for value in values)
    return _by_type(schema)


def _by_type(schema: JsonObject) -> str:
    kind = schema.get("type", "anything")
    if isinstance(kind, list):
        return " or ".join(_by_type({**schema, "type": one}) for one in kind)
    if kind == "array":
        return f"list of: {_kind(schema['items'])}"
    if kind == "object" and schema.get("properties"):
        inner = ", ".join(f"{escape(name)}: {_kind(value)}" for name, value in schema["properties"].items())
        return f"{{{inner}}}"
    if kind == "object":
        return "{}" if schema.get("maxProperties") == 0 else "object"
    return str(schema.get("format", WORDS[kind]) if kind == "string" else WORDS.get(kind, kind))


def prose(text: str) -> SafeString:
    """Paragraphs, lists and `code` from the little Markdown that descriptions use."""
    blocks = [block for block in text.strip().split("\n\n") if block]
    return mark_safe("".join(map(_block, blocks)))  # noqa: S308  # nosec B308, B703  # _block escapes


def _block(block: str) -> str:
    html = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(block))
    if not html.startswith("- "):
        return f"<p>{html}</p>"
    items = [f"<li>{item}</li>" for item in re.split(r"(?:^|\n)- ", html) if item]
    return f"<ul>{''.join(items)}</ul>"
