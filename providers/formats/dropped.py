"""What is left out where a request or an answer is translated, and how a client is told its names."""

from collections.abc import Iterable
from urllib.parse import quote

HEADER = "X-Svc-Dropped"
OF_ANSWER = "answer."  # how the names begin of what an answer held: all others are the client's own parameters
LONGEST_LIST = 2000  # of names, which clients and providers choose
MOST_KINDS = 100  # that one answer may be said to have lost


def named(kinds: Iterable[str]) -> tuple[str, ...]:
    """The names of what an answer held, each once."""
    return tuple(OF_ANSWER + kind for kind in dict.fromkeys(kinds))


def listed(names: Iterable[str], behind: str = "") -> str:
    """Names as a header can carry them, behind those of a list made before; of more than fit the first."""
    shown = [quote(name[:LONGEST_LIST], safe=" ") for name in tuple(names)[:LONGEST_LIST]]
    told = ", ".join([behind, *shown] if behind else shown)
    return told if len(told) <= LONGEST_LIST else f"{told[: LONGEST_LIST - 5]}, ..."


def comment_of(names: tuple[str, ...]) -> bytes:
    """The same in a stream of events, whose headers were sent before anything was lost: clients skip comments."""
    return f": {HEADER}: {listed(names)}\n\n".encode() if names else b""
