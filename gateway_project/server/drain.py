"""Graceful shutdown: running requests have a time to finish; calls that run longer end with an error."""

import logging
import sys
import threading
import time
from collections.abc import Callable

log = logging.getLogger("gateway.stop")

# Between the end of the calls and gunicorn killing the worker: for error events and log entries.
MARGIN_SECONDS = 3.0

_thread: threading.Thread | None = None


def begin(count_requests: Callable[[], int]) -> None:
    """Start the thread that logs what the shutdown waits for, and ends calls shortly before gunicorn's deadline.

    `count_requests` returns the number of requests that are being served. Called by a signal handler, which must not
    log itself.
    """
    global _thread
    if _thread is None:
        _thread = threading.Thread(target=_drain, args=[count_requests], name="drain", daemon=True)
        _thread.start()


def _drain(count_requests: Callable[[], int]) -> None:
    if "gateway_project.work.runtime" not in sys.modules:
        return  # the process stops before it has loaded the gateway
    from django.conf import settings

    from gateway_project.work.runtime import running_gateway

    seconds = settings.GATEWAY_GRACEFUL_TIMEOUT
    gateway = running_gateway()
    if requests := count_requests():
        streams = gateway.relay.stream_count if gateway is not None else 0
        log.info("%s", waiting_message(requests, streams, seconds, on_terminal=sys.stderr.isatty()))
    time.sleep(max(seconds - MARGIN_SECONDS, 0.1))
    if gateway is not None:
        gateway.end_calls()


def waiting_message(requests: int, streams: int, seconds: float, *, on_terminal: bool) -> str:
    """What a stop waits for, and for how long."""
    running = _number(streams, "stream") if streams == requests else _number(requests, "request")
    if 0 < streams < requests:
        running += f" ({_number(streams, 'stream')} among them)"
    hint = " Ctrl-C stops at once." if on_terminal else ""
    return f"Stopping: waiting for {running}, for at most {seconds:g} s.{hint}"


def _number(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"
