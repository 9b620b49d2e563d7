"""How long the request of this thread has waited for the thread; by time.perf_counter()."""

import threading


class _Wait(threading.local):
    span: tuple[float, float] | None = None


_wait = _Wait()


def note_wait(submitted: float, begun: float) -> None:
    """Note that this thread serves a connection now that was ready then."""
    _wait.span = submitted, begun


def take_wait() -> tuple[float, float] | None:
    """Since when and until when the request waited, once; None if no server's thread serves it."""
    span, _wait.span = _wait.span, None
    return span
