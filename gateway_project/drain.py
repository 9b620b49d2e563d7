"""The end of a server: running requests have a time to finish, and are ended in good order when it is over."""

import threading

# What is left between ending the calls and gunicorn killing the worker: for error events and log entries.
MARGIN_SECONDS = 3.0

_timer: threading.Timer | None = None


def begin() -> None:
    """A stop was asked for: calls that still run near its deadline are ended."""
    global _timer
    from django.conf import settings

    if _timer is None:
        _timer = threading.Timer(max(settings.GATEWAY_GRACEFUL_TIMEOUT - MARGIN_SECONDS, 0.1), _end_calls)
        _timer.daemon = True
        _timer.start()


def _end_calls() -> None:
    from gateway_project.work.gateway import running

    if (gateway := running()) is not None:
        gateway.end_calls()
