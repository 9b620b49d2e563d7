"""How long the request of this thread has waited for the thread; by time.perf_counter()."""

import threading


class _Wait(threading.local):
    submitted = 0.0
    begun = 0.0


_wait = _Wait()


def note_wait(submitted: float, begun: float) -> None:
    """Note that this thread serves a connection now that was ready then."""
    _wait.submitted, _wait.begun = submitted, begun


def take_wait() -> tuple[float, float] | None:
    """Since when and until when the request waited, once; None if no server's thread serves it."""
    begun, _wait.begun = _wait.begun, 0.0
    return (_wait.submitted, begun) if begun else None
