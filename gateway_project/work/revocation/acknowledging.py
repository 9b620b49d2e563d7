"""Shows the other processes which changes are in force in this one: how far its snapshot follows the change feed."""

import os
import socket
import time
from typing import NamedTuple

import orjson

from gateway_project.work.revocation.cuts import Cuts
from gateway_project.work.snapshot.follower import Follower
from gateway_project.work.state.acknowledgements import AcknowledgementBoard

HEARTBEAT_SECONDS = 1.0


class Report(NamedTuple):
    """What one process shows; `mark` is that of its position in the change feed, None before it has one."""

    worker: str
    mark: int | str | None
    cuts: dict[str, int]  # the requests that its latest cuts have ended, by credential


class Acknowledger:
    """The part of one process."""

    def __init__(self, board: AcknowledgementBoard, follower: Follower, cuts: Cuts) -> None:
        self.board, self.follower = board, follower
        self._cuts = cuts
        self._published: tuple[int, float] = (0, 0.0)  # the number of polls with changes until then, and when

    def report(self) -> Report:
        """What is in force in this process now."""
        return Report(worker_name(), self.follower.mark, self._cuts.counts())

    def publish(self) -> None:
        """Show it soon after each change, and once a second; called several times a second."""
        changes, now = self.follower.changes_applied, time.monotonic()
        if changes == self._published[0] and now - self._published[1] < HEARTBEAT_SECONDS:
            return
        if self.board.publish(orjson.dumps(tuple(self.report()))):
            self._published = changes, now


def worker_name() -> str:
    """The name of this process for people."""
    return f"{socket.gethostname()}:{os.getpid()}"


def read_report(process: str, payload: bytes | None) -> Report:
    """The report of another process; one that cannot be read acknowledges nothing."""
    try:
        worker, mark, cuts = orjson.loads(payload or b"")
        return Report(str(worker), mark, {str(name): int(number) for name, number in cuts.items()})
    except (ValueError, TypeError, AttributeError):
        return Report(process, None, {})
