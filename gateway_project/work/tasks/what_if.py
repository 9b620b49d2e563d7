"""Starts a process of its own for a what-if that waits: it takes nothing from the threads that serve requests."""

import logging
import subprocess
import sys

from django.conf import settings

from gateway_project.background import BackgroundThread
from rules.what_if.models import WhatIf
from rules.what_if.services import claim_next, delete_old_results, release_claim

log = logging.getLogger("gateway.tasks")

IDLE_SECONDS, BUSY_SECONDS, STOP_SECONDS = 10.0, 0.5, 5.0
DELETE_EVERY_RUNS = 360


class WhatIfStarter(BackgroundThread):
    """The thread that claims what waits, one at a time in all processes, and starts a process for it.

    What a process has claimed that was killed is claimed again once its claim is over.
    """

    def __init__(self) -> None:
        super().__init__("what-if starter", log, every=IDLE_SECONDS)
        self.stop_seconds = STOP_SECONDS
        self._process: subprocess.Popen[bytes] | None = None
        self._claim = ""
        self._runs = 0

    def pause(self) -> float:
        return IDLE_SECONDS if self._process is None else BUSY_SECONDS

    def run_once(self) -> None:
        if self._runs % DELETE_EVERY_RUNS == 0:
            delete_old_results()
        self._runs += 1
        if self._process is not None and self._process.poll() is None:
            return
        self._end()
        if (what_if := claim_next()) is not None:
            self._start(what_if)

    def run_last(self) -> None:
        """End the process; another one begins again what it has worked on."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS / 2)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._end()

    def _start(self, what_if: WhatIf) -> None:
        command = [sys.executable, "manage.py", "what-if", "--run", str(what_if.pk), "--claim", what_if.claim]
        self._claim = what_if.claim
        try:
            self._process = subprocess.Popen(command, cwd=settings.BASE_DIR, stdin=subprocess.DEVNULL)
        except OSError:
            self._end()
            raise

    def _end(self) -> None:
        """Forget the process; what it has not ended is left to the next."""
        if self._claim:
            release_claim(self._claim)
        self._process, self._claim = None, ""
