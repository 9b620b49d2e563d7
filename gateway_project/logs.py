"""What keeps the server's own output readable."""

import logging
import time

SECONDS = 60.0


class Refusals(logging.Filter):
    """Keeps what is told of answers with 503 away: whoever is refused is told why, strangers among them."""

    def filter(self, record: logging.LogRecord) -> bool:
        return getattr(record, "status_code", None) != 503


class Seldom(logging.Filter):
    """Lets one record through, and no other one for a minute; of its text the first line."""

    def __init__(self) -> None:
        super().__init__()
        self._passed = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now - self._passed < SECONDS:
            return False
        self._passed = now
        lines = record.getMessage().splitlines() or [""]
        record.msg, record.args = f"{lines[0]} (Nothing more of this for a minute.)", ()
        return True
