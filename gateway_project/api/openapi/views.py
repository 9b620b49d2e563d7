"""GET /schema/ and GET /docs/: what the gateway can do, for programs and for people."""

import threading
from base64 import b64encode
from functools import lru_cache
from hashlib import sha256

import orjson
import yaml
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from gateway_project.api.access import ANYBODY
from gateway_project.api.filters import refuse_unknown
from gateway_project.api.openapi.endpoints import Answer, Operation, endpoint
from gateway_project.api.openapi.page import sections
from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject

_lock = threading.Lock()
FORMATS = ("json", "yaml")
FORMAT = {"name": "format", "in": "query", "required": False, "schema": {"enum": list(FORMATS), "default": "json"}}
SCHEMA = Operation(
    "This document",
    {"200": Answer("OpenAPI 3.1.", {"application/json": {"type": "object"}, "application/yaml": {"type": "object"}})},
    tag="documentation",
    who=ANYBODY,
    parameters=(FORMAT,),
    errors=(ValidationError,),
)
DOCS = Operation(
    "This document as a page for the browser",
    {"200": Answer("A self-contained page.", {"text/html": {"type": "string"}})},
    tag="documentation",
    who=ANYBODY,
)


@endpoint(get=SCHEMA)
def schema(request: HttpRequest) -> HttpResponse:
    """The OpenAPI document, as JSON or with ?format=yaml."""
    refuse_unknown(request.GET, ("format",))
    name = request.GET.get("format", "json")
    if name not in FORMATS:
        raise ValidationError(f"must be {' or '.join(FORMATS)}.", parameter="format")
    return HttpResponse(serialized_document(name), content_type=f"application/{name}")


@lru_cache(maxsize=2)
def serialized_document(name: str) -> bytes:
    """The document in one of FORMATS."""
    text = orjson.dumps(_document())
    if name == "json":
        return text
    # Parsed again, so that objects used twice are written twice rather than as YAML aliases.
    return yaml.dump(orjson.loads(text), Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True).encode()


@endpoint(get=DOCS)
def docs(request: HttpRequest) -> HttpResponse:
    """The same as a page of HTML without scripts."""
    page, style = render_docs()
    return HttpResponse(page, headers={"Content-Security-Policy": policy(style)})


@lru_cache(maxsize=1)
def render_docs() -> tuple[str, str]:
    """The page, and its inline style."""
    style = (settings.BASE_DIR / "templates/docs.css").read_text()
    content = _document()
    return render_to_string("docs.html", {"document": content, "style": style, **sections(content)}), style


def _document() -> JsonObject:
    # Imported on demand: drf-spectacular loads Django's test client, 2 MB that nothing else needs.
    from gateway_project.api.openapi.document import document

    with _lock:  # drf-spectacular's loading of extensions is not thread-safe
        return document()


def policy(style: str) -> str:
    """The page's Content-Security-Policy: it allows nothing but this style."""
    digest = b64encode(sha256(style.encode()).digest()).decode()
    nothing = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    return f"{nothing}; style-src 'sha256-{digest}'; img-src data:"
