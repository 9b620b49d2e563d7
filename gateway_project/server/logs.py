"""Logging filters that keep the server's output short."""

import logging
import time

SECONDS = 60.0


class SkipUnavailable(logging.Filter):
    """Drops records of responses with 503: the client is told why, and anyone can cause them."""

    def filter(self, record: logging.LogRecord) -> bool:
        return getattr(record, "status_code", None) != 503


class OncePerMinute(logging.Filter):
    """Passes at most one record a minute, cut to its first line."""

    def __init__(self) -> None:
        super().__init__()
        self._passed = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now - self._passed < SECONDS:
            return False
        self._passed = now
        lines = record.getMessage().splitlines() or [""]
        record.msg, record.args = f"{lines[0]} (Further messages of this kind are suppressed for a minute.)", ()
        return True


def is_not_client_timeout(record: logging.LogRecord) -> bool:
    """gunicorn would log a read that timed out as an error of the gateway, with its stack."""
    return not (record.exc_info and isinstance(record.exc_info[1], BlockingIOError))
