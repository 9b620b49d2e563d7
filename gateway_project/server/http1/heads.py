"""Reads and checks the heads of requests and responses at once where they have the usual form.

gunicorn does so header by header, which is a third of the CPU time of a short request. It still reads and checks all
other heads, so that its rules and its errors hold for everything. Each part has a test that compares both.
"""

import re
from collections.abc import Sequence
from email.utils import formatdate
from functools import lru_cache
from typing import Any

from gunicorn.config import Config
from gunicorn.http import wsgi
from gunicorn.util import is_hoppish

Header = tuple[str, str]
RequestLine = tuple[str, str, str, str, str, tuple[int, int]]  # method, target, path, query, fragment, version

# Lines `name: value` without a fold or a control character, and without `_` in a name: whether a peer may send such a
# name, gunicorn decides.
_USUAL_LINES = re.compile(rb"(?:[!#$%&'*+\-.^`|~0-9A-Za-z]++:[\t\x20-\x7e\x80-\xff]*+(?:\r\n(?=[^\r])|\Z))++")
_VALUES = re.compile(r"[ \t\x21-\x7e\x80-\xff\n]*+")  # of headers, joined by line breaks
CONTENT_LENGTH = "Content-Length"
MAX_LINES, MAX_LINE_BYTES = 1024, 128


def settle_config(config: Config) -> None:
    """Make each setting an attribute: gunicorn looks some twenty of them up for each request, by a method call."""
    vars(config).update({name: setting.get() for name, setting in config.settings.items()})


def usual_headers(data: bytes, most: int, most_bytes: int) -> list[Header] | None:
    """The names, in upper case, and values of these lines; None if gunicorn has to read them, as for a repeated name.

    `most` is the number of lines, and `most_bytes` the length of a line with its end, that gunicorn accepts.
    """
    if not _USUAL_LINES.fullmatch(data):
        return None
    lines = data.decode("latin-1").split("\r\n")
    parts = [line.partition(":") for line in lines]
    headers = [(name.upper(), value.strip(" \t")) for name, _, value in parts]
    names = dict(headers)
    is_short = len(lines) <= most and max(map(len, lines)) + 2 <= most_bytes
    return headers if is_short and len(names) == len(headers) and "EXPECT" not in names else None


class RequestLines:
    """What gunicorn has read of short request lines: clients send the same ones again and again.

    Those with a query are left out, since it may hold a key.
    """

    def __init__(self) -> None:
        self._lines: dict[bytes, RequestLine] = {}

    def find(self, line: bytes) -> RequestLine | None:
        return self._lines.get(line)

    def keep(self, line: bytes, parts: RequestLine) -> None:
        if len(line) <= MAX_LINE_BYTES and b"?" not in line and len(self._lines) < MAX_LINES:
            self._lines[line] = parts


def are_usual(headers: Sequence[Header]) -> bool:
    """Whether an application's headers may be sent as they are, without gunicorn's checks of each.

    Headers of a single hop, such as Connection, and other spellings of CONTENT_LENGTH need these checks.
    """
    if not headers:
        return True
    names, values = zip(*headers, strict=True)
    text = "\n".join(values)
    is_usual = text.count("\n") == len(values) - 1 and _VALUES.fullmatch(text) is not None
    return is_usual and all(map(_is_usual_name, names))


@lru_cache(maxsize=1024)
def _is_usual_name(name: str) -> bool:
    is_misspelt = name != CONTENT_LENGTH and name.lower() == CONTENT_LENGTH.lower()
    return wsgi.TOKEN_RE.fullmatch(name) is not None and not is_hoppish(name) and not is_misspelt


def base_environ(config: Config) -> dict[str, Any]:
    """What WSGI's environment has for every request: gunicorn's, made once."""
    return _base_environ(config).copy()


_base_environ = lru_cache(maxsize=1)(wsgi.base_environ)


@lru_cache(maxsize=2)
def date_at(second: int) -> str:
    """The header Date of a response that is sent in this second (since 1970)."""
    return formatdate(second, usegmt=True)
