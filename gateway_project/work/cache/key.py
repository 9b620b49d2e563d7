"""The cache key: equal requests have the same key, different requests never share one."""

import hashlib
import json
import re
import unicodedata

import orjson

from gateway_project.json_types import JsonObject

# All combining marks that exist.
MARKS = "".join(mark for mark in map(chr, range(0x300, 0x1F000)) if unicodedata.combining(mark))
LONGEST_COMPOSED = 1024 * 1024  # in characters
LONG_RUN = re.compile(f"[{MARKS}]{{31}}")


def digest(body: JsonObject) -> bytes:
    """SHA-256 of a parsed request as canonical JSON: the canonical form of a long request is not kept in memory."""
    return hashlib.sha256(canonical_json(body)).digest()


def canonical_json(body: JsonObject) -> bytes:
    """A parsed request as canonical JSON: sorted names, one spelling of each character.

    Numbers have one form since they were parsed (strictjson). `model` is left out: the name that the
    provider is asked for is a part of the key in its own right.
    """
    value = {name: item for name, item in body.items() if name != "model"}
    text = _dump_sorted(value)
    if text.isascii() or _is_composed(text.decode()):
        return text
    return _dump_sorted(_normal(value))


def cache_key(content: bytes, *parts: object) -> str:
    """SHA-256 over the digest of a request and the parts (model, provider, operation, headers, scope, …), as hex."""
    return hashlib.sha256(content + orjson.dumps(parts)).hexdigest()


def _is_composed(text: str) -> bool:
    """Whether a text is left as it is: it is composed, very long, or has runs of marks that no language has.

    Composing such a run takes quadratic time (UAX #15 draws the line at 30, too), and while a text is composed the
    process does nothing else.
    """
    return len(text) > LONGEST_COMPOSED or bool(LONG_RUN.search(text)) or unicodedata.is_normalized("NFC", text)


def _dump_sorted(value: object) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # an integer beyond 64 bits
        return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def _normal(value: object) -> object:
    """The value with every text composed; names too, before they are sorted, since composing may change their order."""
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, list):
        return [_normal(item) for item in value]
    if isinstance(value, dict):
        composed = {unicodedata.normalize("NFC", name): _normal(item) for name, item in value.items()}
        return composed if len(composed) == len(value) else value  # two spellings of one name are two fields
    return value
