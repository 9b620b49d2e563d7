"""Whether the current request arrived while all request threads were busy, and so runs in a thread of the reserve."""

import threading

# Identifiers; a threading.local would keep a dictionary for each of a thousand other threads.
_reserve_threads: set[int] = set()


def mark_thread() -> None:
    """Mark the current thread as one of the reserve."""
    _reserve_threads.add(threading.get_ident())


def is_overloaded() -> bool:
    """Whether the current thread is one of the reserve."""
    return threading.get_ident() in _reserve_threads
