"""How limits stand at this moment: what is counted now, or what the log tells where nothing has been counted yet."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from gateway_project.work.clock import Clock
from gateway_project.work.limit_book import COST, NANO, REQUESTS, TOKENS, LimitBook, LimitRow, Subject
from gateway_project.work.limits import LimitCheck, window_begin, window_end
from gateway_project.work.state import SharedState
from licensing.models import Limit
from licensing.status import LimitStatus
from telemetry.quotas import QuotaUsage, quota_usage

BOOK = LimitBook()
NEARLY_SECONDS = 1.0


def statuses_of(state: SharedState, limits: Sequence[Limit]) -> list[LimitStatus]:
    """How these limits stand."""
    now, checks = state.clock.now(), [_check(limit) for limit in limits]
    counted = state.used_amounts(checks)
    missing = [check for check, total in zip(checks, counted, strict=True) if _is_missing(check, total)]
    told = _told_by_the_log(missing, now, state.clock)
    return [_stands(check, total, now, told) for check, total in zip(checks, counted, strict=True)]


def in_units(tells: QuotaUsage) -> dict[str, int]:
    """What the log tells, by measure, in the units that are counted."""
    return {REQUESTS: tells.requests, TOKENS: tells.tokens, COST: round(tells.cost * NANO)}


def logged(kind: str, ids: Iterable[int], begin: int, until: float, clock: Clock) -> dict[int, QuotaUsage]:
    """What the log tells that each of these used in a window up to a moment, both by the clock of the shared state.

    The log has this process's times, and tells fastest of full hours: clocks that nearly agree count as one.
    """
    if abs(clock.offset) > NEARLY_SECONDS:
        return quota_usage(kind, ids, begin=clock.to_local(begin), until=clock.to_local(until))
    return quota_usage(kind, ids, begin=begin, until=clock.to_local(until))


def _is_missing(check: LimitCheck, counted: int | None) -> bool:
    return check.since > 0 and (counted is None or not check.amount)


def _told_by_the_log(
    checks: Iterable[LimitCheck], now: float, clock: Clock
) -> dict[tuple[Subject, int], dict[str, int]]:
    """What was used up to now, by subject and window; one question for all of a kind in a window."""
    wanted = defaultdict(set)
    for check in checks:
        subject = check.limit.subject
        wanted[subject.kind, window_begin(check.window_seconds, now)].add(subject.id)
    return {
        (Subject(kind, number), begin): in_units(amounts)
        for (kind, begin), ids in wanted.items()
        for number, amounts in logged(kind, sorted(ids), begin, now, clock).items()
    }


def _stands(check: LimitCheck, counted: int | None, now: float, told: dict[tuple[Subject, int], Any]) -> LimitStatus:
    if not check.window_seconds:
        return LimitStatus(None if counted is None else Decimal(counted), None)
    begin, limit = window_begin(check.window_seconds, now), check.limit
    units = told[limit.subject, begin][limit.measure] if _is_missing(check, counted) else counted
    amount = None if units is None else Decimal(units) / (NANO if limit.measure == COST else 1)
    return LimitStatus(amount, datetime.fromtimestamp(window_end(check.window_seconds, begin), UTC))


def _check(limit: Limit) -> LimitCheck:
    kind = limit.subject_kind
    subject = Subject(kind, getattr(limit, f"{kind}_id"))
    return BOOK.check(LimitRow(subject, "", limit.measure, limit.window, limit.amount, limit.bounds_since))
