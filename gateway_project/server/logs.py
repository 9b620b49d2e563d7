"""Logging filters that keep the server's output short."""

import logging
import time

SECONDS = 60.0
MAX_KINDS = 200


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


class EachOncePerMinute(logging.Filter):
    """Passes one record a minute of each kind, cut to its first line: its kind is its logger and its template.

    So what anybody can cause hides no message of another kind.
    """

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[tuple[str, object], OncePerMinute] = {}
        self._others = OncePerMinute()

    def filter(self, record: logging.LogRecord) -> bool:
        is_new = (kind := (record.name, record.msg)) not in self._kinds
        if is_new and len(self._kinds) < MAX_KINDS:  # a template may be a client's own text
            self._kinds[kind] = OncePerMinute()
        record.exc_info = record.exc_text = None
        return self._kinds.get(kind, self._others).filter(record)


def is_not_client_timeout(record: logging.LogRecord) -> bool:
    """gunicorn would log a read that timed out as an error of the gateway, with its stack."""
    return not (record.exc_info and isinstance(record.exc_info[1], BlockingIOError))
