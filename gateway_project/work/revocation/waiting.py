"""Waits until a change is in force in every live process."""

import logging
import time
from collections.abc import Collection

from gateway_project.change_feed.cuts import Credential
from gateway_project.change_feed.feed import has_reached
from gateway_project.revocation.receipts import InForce
from gateway_project.work.revocation.acknowledging import Acknowledger, Report, read_report
from gateway_project.work.state.shared import SharedState

log = logging.getLogger("gateway.revocation")

MIN_POLL_SECONDS, MAX_POLL_SECONDS = 0.03, 0.25


def wait_until_in_force(
    state: SharedState, own: Acknowledger | None, change: int, credentials: Collection[Credential], seconds: float
) -> InForce:
    """Where a change is in force, after at most so many seconds; without an own process only others count."""
    started_at, pause = time.monotonic(), MIN_POLL_SECONDS
    if own is not None:
        own.follower.wake()
    while True:
        reports, are_all = _reports(state, own)
        late = [report.worker for report in reports if not _has_reached(report, change)]
        elapsed = time.monotonic() - started_at
        if (not late and are_all) or elapsed >= seconds:
            break
        time.sleep(min(pause, seconds - elapsed))
        pause = min(pause * 1.5, MAX_POLL_SECONDS)
    workers = len(reports) if are_all else max(len(reports), state.processes)
    _log_late(late, workers - len(reports), elapsed)
    ended = sum(report.cuts.get(str(credential), 0) for report in reports for credential in set(credentials))
    return InForce(workers, len(reports) - len(late), round(elapsed, 3), ended)


def _reports(state: SharedState, own: Acknowledger | None) -> tuple[list[Report], bool]:
    """What the live processes show, and whether these are all: the store may be down."""
    others = state.acknowledgements.read_others()
    reports = [read_report(process, payload) for process, payload in (others or {}).items()]
    return [*([own.report()] if own is not None else []), *reports], others is not None


def _has_reached(report: Report, change: int) -> bool:
    try:
        return report.mark is not None and has_reached(report.mark, change)
    except (ValueError, AttributeError):  # not a mark of this database
        return False


def _log_late(late: list[str], unknown: int, elapsed: float) -> None:
    if late or unknown:
        names = ", ".join([*late, *([f"{unknown} that Redis does not show"] if unknown else [])])
        log.warning("A change is not in force on every worker after %.1f s. Missing: %s.", elapsed, names)
