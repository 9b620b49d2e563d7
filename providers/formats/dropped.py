"""Names of what translation drops from a request or an answer, and how clients get them."""

from collections.abc import Iterable
from itertools import islice
from urllib.parse import quote

HEADER = "X-Svc-Dropped"
ANSWER_PREFIX = "answer."  # of names of answer content; names without it are the client's parameters
MAX_HEADER_LENGTH = 2000  # clients and providers choose number and length of the names
MAX_DROPPED_KINDS = 100  # per answer


def answer_names(kinds: Iterable[str]) -> tuple[str, ...]:
    """The names of dropped answer content: each once, at most MAX_DROPPED_KINDS."""
    return tuple(ANSWER_PREFIX + kind for kind in islice(dict.fromkeys(filter(None, kinds)), MAX_DROPPED_KINDS))


def dropped_header(names: Iterable[str], after: str = "") -> str:
    """The header's value with these names, appended to the value `after`; cut at MAX_HEADER_LENGTH."""
    value = after
    for name in names:
        value += (", " if value else "") + quote(name[:MAX_HEADER_LENGTH], safe=" ")
        if len(value) > MAX_HEADER_LENGTH:
            return f"{value[: MAX_HEADER_LENGTH - 5]}, ..."
    return value


def dropped_comment(names: tuple[str, ...]) -> bytes:
    """The same as an SSE comment, which clients skip: a stream's headers are sent before anything is dropped."""
    return f": {HEADER}: {dropped_header(names)}\n\n".encode() if names else b""
