"""Prepares the OpenAPI document for its HTML page: operations by tag, schemas as tables of their properties."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

Schema = Mapping[str, Any]
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


def sections(document: Schema) -> dict[str, Any]:
    """The template's context: `tags` with their operations, and `schemas` with their rows."""
    operations = list(_operations(document))
    return {
        "about": prose(document["info"]["description"]),
        "tags": [
            {
                "name": tag["name"],
                "about": prose(tag.get("description", "")),
                "operations": [found for found in operations if found["tag"] == tag["name"]],
            }
            for tag in document["tags"]
        ],
        "schemas": [
            {"name": name, "about": prose(found.get("description", "")), "rows": rows(found)}
            for name, found in sorted(document["components"]["schemas"].items())
        ],
        "security": [
            {"name": name, "about": prose(found["description"])}
            for name, found in document["components"]["securitySchemes"].items()
        ],
    }


def _operations(document: Schema) -> Iterator[dict[str, Any]]:
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            yield {
                "id": told["operationId"],
                "tag": told["tags"][0],
                "method": method.upper(),
                "path": path,
                "summary": told["summary"],
                "about": prose(told["description"]),
                "credentials": [name for taken in told["security"] for name in taken or ("none",)],
                "parameters": [_parameter(found) for found in told["parameters"]],
                **_body(document, told.get("requestBody")),
                "answers": [_answer(document, status, found) for status, found in told["responses"].items()],
            }


def _parameter(found: Schema) -> dict[str, Any]:
    about = prose(found.get("description", ""))
    return {"name": found["name"], "where": found["in"], "kind": words(found["schema"]), "about": about}


def _body(document: Schema, told: Schema | None) -> dict[str, Any]:
    """The rows of the body, or of the attributes in an envelope, and an example."""
    if told is None:
        return {}
    content = next(iter(told["content"].values()))
    examples = [content["example"]] if "example" in content else content["schema"].get("examples", [])
    return {
        "enveloped": "data" in content["schema"]["properties"],
        "body": rows(_attributes(document, content["schema"])),
        "examples": [json.dumps(example, indent=2, ensure_ascii=False) for example in examples],
    }


def _attributes(document: Schema, schema: Schema) -> Schema:
    if "data" not in schema["properties"]:
        return schema
    reference = schema["properties"]["data"]["properties"]["attributes"]["$ref"]
    return document["components"]["schemas"][reference.rpartition("/")[2]]


def _answer(document: Schema, status: str, found: Schema) -> dict[str, Any]:
    if "$ref" in found:
        found = document["components"]["responses"][found["$ref"].rpartition("/")[2]]
    content = found.get("content", {})
    return {
        "status": status,
        "about": prose(found["description"]),
        "headers": [name for name in found["headers"] if name != "X-Svc-Request-ID"],
        # All errors have the same schema; their descriptions are enough.
        "content": [(name, words(told["schema"])) for name, told in content.items() if status.startswith("2")],
    }


def rows(schema: Schema) -> list[dict[str, Any]]:
    """The properties of an object: name, kind, whether it is required, and its description."""
    required = schema.get("required", ())
    return [
        {"name": name, "kind": words(found), "required": name in required, "about": prose(found.get("description", ""))}
        for name, found in schema.get("properties", {}).items()
    ]


def words(schema: Schema) -> SafeString:
    """A schema in a few words, with links to the schemas that have a table."""
    return mark_safe(", ".join(_words(schema)))  # noqa: S308  every part is escaped where it is made


def _words(schema: Schema) -> Iterator[str]:
    yield _kind(schema)
    for name, phrase in CONSTRAINTS.items():
        if name in schema and schema[name] not in HIDDEN_BOUNDS:
            yield phrase.format(escape(schema[name]))


def _kind(schema: Schema) -> str:
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


def _by_type(schema: Schema) -> str:
    kind = schema.get("type", "anything")
    if isinstance(kind, list):
        return " or ".join(_by_type({**schema, "type": one}) for one in kind)
    if kind == "array":
        return f"list of: {_kind(schema['items'])}"
    if kind == "object" and schema.get("properties"):
        inner = ", ".join(f"{escape(name)}: {_kind(found)}" for name, found in schema["properties"].items())
        return f"{{{inner}}}"
    if kind == "object":
        return "{}" if schema.get("maxProperties") == 0 else "object"
    return schema.get("format", WORDS[kind]) if kind == "string" else WORDS.get(kind, kind)


def prose(text: str) -> SafeString:
    """Paragraphs, lists and `code`, out of the little Markdown that descriptions use."""
    blocks = [block for block in text.strip().split("\n\n") if block]
    return mark_safe("".join(map(_block, blocks)))  # noqa: S308  _block escapes


def _block(block: str) -> str:
    told = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(block))
    if not told.startswith("- "):
        return f"<p>{told}</p>"
    items = [f"<li>{item}</li>" for item in re.split(r"(?:^|\n)- ", told) if item]
    return f"<ul>{''.join(items)}</ul>"
