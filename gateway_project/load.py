"""Whether the thread that asks was only taken because all others are busy."""

import threading

_beyond: set[int] = set()  # not a threading.local, which would keep a dictionary for each of a thousand others


def mark() -> None:
    """What this thread does is beyond the number of requests that the process serves at once."""
    _beyond.add(threading.get_ident())


def is_full() -> bool:
    """Whether this request came while all threads were busy."""
    return threading.get_ident() in _beyond
