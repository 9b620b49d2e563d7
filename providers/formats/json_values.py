"""JSON from providers: parsed within bounds, read without assumptions about its shape, and written."""

import json
import re
from collections.abc import Callable
from typing import Any

import orjson

from gateway_project.api.strict_json import is_deeper
from gateway_project.json_types import JsonObject
from providers.formats.sse import BYTE_ORDER_MARK

# Answers are bounded as requests are (strictjson), with more room: one may consist of vectors, or have twenty log
# probabilities per token. A value of this depth can be serialised again inside any other.
MAX_DEPTH, MAX_CONTAINERS, MAX_VALUES = 200, 500_000, 4_000_000
SMALL_BODY_BYTES = 2 * MAX_DEPTH  # too small for that depth, as most events of a stream are
# Integers of 19 digits or more may exceed 64 bits, and orjson reads those as floats. To find them, every digit is
# mapped to 0, and every character that may precede a number to a comma.
NUMBERS = bytes.maketrans(b"123456789:[- \t\r\n", b"000000000,,,,,,,")
LONG_NUMBER, NINTHS = b"," + b"0" * 19, b"00"
# An escape in a string: a surrogate pair, a lone surrogate (whose last three digits are captured), or any other.
HIGH, LOW = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
ESCAPE = re.compile(HIGH + LOW + rb"|\\u[dD]([89a-fA-F][0-9a-fA-F]{2})|\\.")
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
MAX_REPAIRED_BYTES = 256 * 1024  # repairing takes time per escape, at most a tenth of a second here
REPLACEMENT = "\ufffd".encode()


def read_json(body: bytes, replace_surrogate: Callable[[bytes], bytes] | None = None) -> Any:
    """The JSON value in a body, with exact integers; None if it is invalid, too deep or too large.

    Lone surrogates are not characters: each becomes what `replace_surrogate` returns for its last three hex digits,
    U+FFFD by default. Only a body that does not parse is searched for them.
    """
    body = body.removeprefix(BYTE_ORDER_MARK)  # a reader may ignore it (RFC 8259, section 8.1)
    opened = body.count(b"{") + body.count(b"[") if len(body) > SMALL_BODY_BYTES else 0
    if opened > MAX_CONTAINERS or (len(body) > MAX_VALUES and body.count(b",") > MAX_VALUES):
        return None
    try:
        value = orjson.loads(body)
        if opened > MAX_DEPTH and is_deeper(value, MAX_DEPTH):
            return None
        # Of 19 bytes in a row at least two are at a multiple of nine: every ninth byte rules out most bodies.
        if NINTHS in body[::9].translate(NUMBERS) and LONG_NUMBER in body.translate(NUMBERS):
            return json.loads(body)
    except ValueError:  # orjson's; or Python's about a number with too many digits
        return _repair_body(body, replace_surrogate)
    return value


def _repair_body(body: bytes, replace_surrogate: Callable[[bytes], bytes] | None) -> Any:
    if len(body) > MAX_REPAIRED_BYTES or not SURROGATE.search(body):
        return None
    repaired = ESCAPE.sub(lambda escape: _replace_lone(escape, replace_surrogate), body)
    return None if repaired == body else read_json(repaired)


def _replace_lone(escape: re.Match[bytes], replace_surrogate: Callable[[bytes], bytes] | None) -> bytes:
    digits = escape[1]
    if not digits:
        return escape[0]
    return replace_surrogate(digits) if replace_surrogate else REPLACEMENT


def dump_value(value: object) -> bytes:
    """Serialise a parsed value; integers beyond 64 bits keep their digits."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def as_dict(value: object) -> JsonObject:
    """The value if it is an object, else an empty one: for fields that a provider may leave out."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: object) -> str:
    """The value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""
