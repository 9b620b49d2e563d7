"""Ends what access requests were granted for a time: every process looks at the clock, and one of them does it."""

import logging
import time

from gateway_project.access_requests.ending import end_due_requests
from gateway_project.background import BackgroundThread
from gateway_project.work.snapshot.records import Snapshot

log = logging.getLogger("gateway.access_requests")

TICK_SECONDS = 0.2


class GrantEnder(BackgroundThread):
    """Asks the database only once the next end, which is in memory, has come."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__("grant ends", log, every=TICK_SECONDS)
        self._snapshot = snapshot

    def run_once(self) -> None:
        if self._snapshot.next_grant_end <= time.time():
            end_due_requests()
