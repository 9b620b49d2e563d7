"""Whether the thread that asks was only taken because all others are busy."""

import threading

_thread = threading.local()


def mark(beyond: bool) -> None:
    """What this thread does next is beyond the number of requests that the process serves at once."""
    _thread.beyond = beyond


def is_full() -> bool:
    """Whether this request came while all threads were busy."""
    return getattr(_thread, "beyond", False)
