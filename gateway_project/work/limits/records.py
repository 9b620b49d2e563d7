"""The state of the limits without a request, as a few numbers for its log entry."""

from collections.abc import Sequence

from gateway_project.work.exchange import RequestLimits
from gateway_project.work.limits.checks import MAX_AMOUNT, Admission, CheckStatus
from telemetry.journal.decisions import LimitValues


def record_limits(limits: RequestLimits, admission: Admission) -> None:
    """Note the limits for the log entry; if a limit is read again after a wait, the later reading replaces the first.

    Windows end by the clock of the shared state.
    """
    if (records := limits.records) is None:
        records = limits.records = {}
    now = int(admission.at)
    if admission.readings is None:
        _record_counts(records, admission.statuses, now)
        return
    for check, usage, reserved, remaining, reset_seconds in admission.readings:
        if 0 < check.amount < MAX_AMOUNT:  # others only count
            records[check.name] = (check.name, check.amount, usage, reserved, remaining, now + reset_seconds)


def _record_counts(records: dict[str, LimitValues], statuses: Sequence[CheckStatus], now: int) -> None:
    """Note the limits of requests per minute as they were before this request; nothing of them is reserved."""
    for check, remaining, reset_seconds in statuses:
        name, amount, before = check.name, check.amount, remaining + check.take
        if amount < MAX_AMOUNT:
            records[name] = (name, amount, amount - before, 0, before, now + reset_seconds)
