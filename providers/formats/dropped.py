"""What is left out where a request or an answer is translated, and how a client is told its names."""

from collections.abc import Iterable
from itertools import islice
from urllib.parse import quote

HEADER = "X-Svc-Dropped"
OF_ANSWER = "answer."  # how the names begin of what an answer held: all others are the client's own parameters
LONGEST_LIST = 2000  # of names, which clients and providers choose
MOST_KINDS = 100  # that one answer may be said to have lost


def named(kinds: Iterable[str]) -> tuple[str, ...]:
    """The names of what an answer held, each once, and of very many the first."""
    return tuple(OF_ANSWER + kind for kind in islice(dict.fromkeys(filter(None, kinds)), MOST_KINDS))


def listed(names: Iterable[str], behind: str = "") -> str:
    """Names as a header can carry them, behind those of a list made before; of more than fit the first."""
    told = behind
    for name in names:
        told += (", " if told else "") + quote(name[:LONGEST_LIST], safe=" ")
        if len(told) > LONGEST_LIST:
            return f"{told[: LONGEST_LIST - 5]}, ..."
    return told


def comment_of(names: tuple[str, ...]) -> bytes:
    """The same in a stream of events, whose headers were sent before anything was lost: clients skip comments."""
    return f": {HEADER}: {listed(names)}\n\n".encode() if names else b""
