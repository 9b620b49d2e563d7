"""JSON from providers: read within bounds, taken apart without trust, and written."""

import json
import re
from collections.abc import Callable
from typing import Any

import orjson

from gateway_project.strictjson import is_deeper
from providers.formats.sse import BYTE_ORDER_MARK

# Answers are bounded as requests are (strictjson), with more room: one may be all vectors, or name twenty tokens for
# each that was chosen. A value of so many levels can be written again, whatever it is put into.
MOST_LEVELS, MOST_CONTAINERS, MOST_VALUES = 200, 500_000, 4_000_000
SMALL = 2 * MOST_LEVELS  # has no room for so many levels: most events of a stream are smaller
# Integers of 19 digits or more may exceed 64 bits, and orjson makes floats of those. With every digit as 0, and what
# may stand before a number as a comma, they look alike.
NUMBERS = bytes.maketrans(b"123456789:[- \t\r\n", b"000000000,,,,,,,")
LONG_NUMBER, NINTHS = b"," + b"0" * 19, b"00"
# An escape in a string: a pair of surrogates, half of one (and the digits that tell which), or any other.
HIGH, LOW = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
ESCAPE = re.compile(HIGH + LOW + rb"|\\u[dD]([89a-fA-F][0-9a-fA-F]{2})|\\.")
HALF = re.compile(rb"\\u[dD][89a-fA-F]")
LONGEST_REPAIRED = 256 * 1024  # each escape in it takes its time, a tenth of a second for all
LOST = "\ufffd".encode()


def read_json(body: bytes, half: Callable[[bytes], bytes] | None = None) -> Any:
    """The JSON value in a body, with exact integers; None where it is none, or one that is far too deep or too large.

    Half a surrogate pair is no character: `half` says by its last three digits what is to stand in its place, U+FFFD
    unless told.
    That costs next to nothing in an ordinary body: it is looked for in the bytes first.
    """
    body = body.removeprefix(BYTE_ORDER_MARK)  # which a reader may ignore (RFC 8259, section 8.1)
    opened = body.count(b"{") + body.count(b"[") if len(body) > SMALL else 0
    if opened > MOST_CONTAINERS or (len(body) > MOST_VALUES and body.count(b",") > MOST_VALUES):
        return None
    try:
        value = orjson.loads(body)
        if opened > MOST_LEVELS and is_deeper(value, MOST_LEVELS):
            return None
        # Of 19 bytes in a row two at least are ninths: a ninth of the body tells of most that no such number is there.
        if NINTHS in body[::9].translate(NUMBERS) and LONG_NUMBER in body.translate(NUMBERS):
            return json.loads(body)
    except ValueError:  # orjson's; or Python's about a number with too many digits
        return _repaired(body, half)
    return value


def _repaired(body: bytes, half: Callable[[bytes], bytes] | None) -> Any:
    if len(body) > LONGEST_REPAIRED or not HALF.search(body):
        return None
    whole = ESCAPE.sub(lambda found: _whole(found, half), body)
    return None if whole == body else read_json(whole)


def _whole(escape: re.Match[bytes], half: Callable[[bytes], bytes] | None) -> bytes:
    digits = escape[1]
    if not digits:
        return escape[0]
    return half(digits) if half else LOST


def dumped(value: Any) -> bytes:
    """JSON of a parsed body; integers beyond 64 bits are written as they were read."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def as_dict(value: Any) -> dict:
    """The value if it is an object, else an empty one: for reading what a provider may have left out."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """The value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""
