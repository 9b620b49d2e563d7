"""Graceful shutdown: running requests have a time to finish; calls that run longer are ended in order."""

import threading

# Between the end of the calls and gunicorn killing the worker: for error events and log entries.
MARGIN_SECONDS = 3.0

_timer: threading.Timer | None = None


def begin() -> None:
    """Start the timer that ends the calls still running shortly before gunicorn's deadline."""
    global _timer
    from django.conf import settings

    if _timer is None:
        _timer = threading.Timer(max(settings.GATEWAY_GRACEFUL_TIMEOUT - MARGIN_SECONDS, 0.1), _end_calls)
        _timer.daemon = True
        _timer.start()


def _end_calls() -> None:
    from gateway_project.work.runtime import running

    if (gateway := running()) is not None:
        gateway.end_calls()
