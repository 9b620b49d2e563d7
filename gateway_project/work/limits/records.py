"""The state of the limits without a request, as a few numbers for its log entry."""

from collections.abc import Sequence

from gateway_project.work.exchange import RequestLimits
from gateway_project.work.limits.checks import MAX_AMOUNT, Reading


def record_readings(limits: RequestLimits, readings: Sequence[Reading], at: float) -> None:
    """Note the limits for the log entry; of one that is read again, as when a request has waited, what it then was.

    `at` is when they were read, by the clock of the shared state: windows end by that clock.
    """
    if limits.records is None:
        limits.records = {}
    now = int(at)
    for check, usage, reserved, remaining, reset_seconds in readings:
        if 0 < check.amount < MAX_AMOUNT:  # others only count
            name = check.name
            limits.records[name] = (name, check.amount, usage, reserved, remaining, now + reset_seconds)
