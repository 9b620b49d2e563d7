"""How limits stand at this moment: what is counted now, or what the log tells where nothing has been counted yet."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal

from gateway_project.work.limitbook import COST, NANO, REQUESTS, TOKENS, LimitBook, LimitRow, Subject
from gateway_project.work.limits import LimitCheck, window_begin, window_end
from gateway_project.work.state import SharedState
from licensing.models import Limit
from licensing.standing import Stands
from telemetry.quotas import Used, used

BOOK = LimitBook()


def standing_in(state: SharedState, limits: Sequence[Limit]) -> list[Stands]:
    """How these limits stand."""
    now, log = time.time(), Log()
    checks = [_check(limit) for limit in limits]
    return [_stands(check, total, now, log) for check, total in zip(checks, state.used(checks), strict=True)]


def _stands(check: LimitCheck, counted: int | None, now: float, log: "Log") -> Stands:
    if not check.window_seconds:
        return Stands(None if counted is None else Decimal(counted), None)
    begin = window_begin(check.window_seconds, now)
    units = log.tells(check, begin, now) if check.since and (counted is None or not check.amount) else counted
    amount = None if units is None else Decimal(units) / (NANO if check.limit.measure == COST else 1)
    return Stands(amount, datetime.fromtimestamp(window_end(check.window_seconds, begin), UTC))


def in_units(tells: Used) -> dict[str, int]:
    """What the log tells, by measure, in the units that are counted."""
    return {REQUESTS: tells.requests, TOKENS: tells.tokens, COST: round(tells.cost * NANO)}


class Log:
    """Asks the log once for each subject and window."""

    def __init__(self) -> None:
        self._told: dict[tuple[Subject, int], dict[str, int]] = {}

    def tells(self, check: LimitCheck, begin: int, until: float) -> int:
        """What was used of this by requests that had ended by a moment."""
        subject = check.limit.subject
        if (subject, begin) not in self._told:
            self._told[subject, begin] = in_units(used(subject.kind, subject.id, begin=begin, until=until))
        return self._told[subject, begin][check.limit.measure]


def _check(limit: Limit) -> LimitCheck:
    kind = limit.subject_kind
    subject = Subject(kind, getattr(limit, f"{kind}_id"))
    return BOOK.check(LimitRow(subject, "", limit.measure, limit.window, limit.amount, limit.bounds_since))
