"""Strict JSON: a text that two parsers could read differently is refused."""

import json
import math
import re
from codecs import BOM_UTF8
from typing import NoReturn

from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject

MAX_DEPTH = 64
# A parsed value takes many times the memory of its text; an image or a long prompt is one value.
MAX_CONTAINERS, MAX_VALUES = 100_000, 2_000_000
# Beyond it a float stands for several integers.
EXACT = 2**53
BACKSLASH = ord("\\")
ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def parse_object(raw: bytes, *, subject: str = "body") -> JsonObject:
    """The JSON object in a body, or in another subject. Raises ValidationError saying what is wrong with it."""
    containers = raw.count(b"{") + raw.count(b"[")
    if containers > MAX_CONTAINERS or (len(raw) > MAX_VALUES and raw.count(b",") > MAX_VALUES):
        raise ValidationError(
            f"The {subject} contains more than {MAX_CONTAINERS} objects and lists, or more than {MAX_VALUES} values."
        )
    try:
        value = _decoder.decode(raw.decode("utf-8"))
        if BACKSLASH in raw and b"\\u" in raw:  # searching for one byte is ten times as fast as for two
            json.dumps(value, ensure_ascii=False).encode()  # fails for half a surrogate pair
    except UnicodeDecodeError:
        raise ValidationError(f"The {subject} is not UTF-8.") from None
    except UnicodeEncodeError:
        raise ValidationError(f"The {subject} holds half a surrogate pair (\\ud800 to \\udfff).") from None
    except RecursionError:
        raise ValidationError(f"The {subject} is nested more than {MAX_DEPTH} levels deep.") from None
    except json.JSONDecodeError as error:
        raise ValidationError(f"The {subject} is not JSON: {_why_not(raw, error)}.") from None
    except ValueError as error:  # of the hooks below, or of Python for a number with too many digits
        raise ValidationError(f"The {subject} is not usable JSON: {_first_line(error)}.") from None
    if type(value) is not dict:
        raise ValidationError(f"The {subject} must be a JSON object.")
    if containers > MAX_DEPTH and is_deeper(value, MAX_DEPTH):
        raise ValidationError(f"The {subject} is nested more than {MAX_DEPTH} levels deep.")
    return value


def is_deeper(value: object, levels: int) -> bool:
    """Whether a value is nested more than so many levels deep; works without recursion."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        level = [
            child
            for item in level
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, dict | list)
        ]
        if not level:
            break
    return bool(level)


def has_nul(text: str) -> bool:
    """Whether a text of a JSON document contains NUL, which PostgreSQL does not store."""
    return ESCAPED_NUL.search(text) is not None


def _why_not(raw: bytes, error: json.JSONDecodeError) -> str:
    if raw.startswith(BOM_UTF8):  # some editors and shells write it at the beginning of a file; it is invisible
        return "it begins with a byte order mark, which is not allowed"
    return f"{error.msg} at character {error.pos}"


def _object(pairs: list[tuple[str, object]]) -> JsonObject:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a name appears twice in one object")
    return members


def _number(text: str) -> float | int:
    """The number; 1.0 and 1e0 are read as 1, so that one value has one form."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return int(number) if -EXACT < number < EXACT and number.is_integer() else number


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON value")


def _first_line(error: ValueError) -> str:
    text = str(error)
    return "a number has too many digits" if "integer string" in text else text


_decoder = json.JSONDecoder(object_pairs_hook=_object, parse_float=_number, parse_constant=_constant)
