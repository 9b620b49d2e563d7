"""The current status of limits: from their counts, or from the log if nothing has been counted yet."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal

from django.conf import settings

from gateway_project.work.limits.book import LimitBook, LimitRow
from gateway_project.work.limits.checks import LimitCheck, window_begin, window_end
from gateway_project.work.limits.kinds import (
    COST,
    COUNT_UNPRICED,
    NANO,
    REQUESTS,
    TOKENS,
    LimitDescription,
    Subject,
    unpriced_units,
)
from gateway_project.work.state.clock import Clock
from gateway_project.work.state.shared import SharedState
from licensing.models import Limit
from licensing.status import LimitStatus
from telemetry.usage.quotas import QuotaUsage, quota_usage

BOOK = LimitBook()
CLOCK_TOLERANCE_SECONDS = 1.0


def statuses_of(state: SharedState, limits: Sequence[Limit]) -> list[LimitStatus]:
    """The status of each of these limits."""
    now, checks = state.clock.now(), [_check(limit) for limit in limits]
    totals = zip(checks, state.used_amounts(checks), strict=True)
    amounts = [total if _is_counted(check) else None for check, total in totals]
    missing = [check for check, total in zip(checks, amounts, strict=True) if _is_missing(check, total)]
    from_log = _usage_by_window(missing, now, state.clock)
    return [_status(check, total, now, from_log) for check, total in zip(checks, amounts, strict=True)]


def in_units(usage: QuotaUsage, limit: LimitDescription) -> int:
    """Usage from the log in the unit of this limit's count."""
    return LOGGED[limit.measure](usage, limit)


def _cost_units(usage: QuotaUsage, limit: LimitDescription) -> int:
    counts_unpriced = limit.unpriced == COUNT_UNPRICED
    return round(usage.cost * NANO) + (unpriced_units(usage.unpriced_tokens, limit) if counts_unpriced else 0)


# How the count of each measure that has windows is read from the log.
LOGGED: dict[str, Callable[[QuotaUsage, LimitDescription], int]] = {
    REQUESTS: lambda usage, _: usage.requests,
    TOKENS: lambda usage, _: usage.tokens,
    COST: _cost_units,
}


def usage_from_log(kind: str, ids: Iterable[int], begin: int, until: float, clock: Clock) -> dict[int, QuotaUsage]:
    """What each of these used, by the log, from `begin` until `until`, both by the clock of the shared state.

    The log has this process's times, and answers fastest for full hours: `begin` is not converted while the clocks
    nearly agree.
    """
    if abs(clock.offset) > CLOCK_TOLERANCE_SECONDS:
        return quota_usage(kind, ids, begin=clock.to_local(begin), until=clock.to_local(until))
    return quota_usage(kind, ids, begin=begin, until=clock.to_local(until))


def _is_counted(check: LimitCheck) -> bool:
    """Whether requests are counted for it: for an unlimited one only if a default applies once it is deleted."""
    limit = check.limit
    defaults = settings.GATEWAY_LIMITS.get(limit.subject.kind, {})
    return check.amount > 0 or defaults.get((limit.measure, limit.window), 0) > 0


def _is_missing(check: LimitCheck, total: int | None) -> bool:
    return check.since > 0 and (total is None or not check.amount)


def _usage_by_window(checks: Iterable[LimitCheck], now: float, clock: Clock) -> dict[tuple[Subject, int], QuotaUsage]:
    """The usage up to now, by subject and window; one query for all subjects of a kind in a window."""
    ids_by_window = defaultdict(set)
    for check in checks:
        subject = check.limit.subject
        ids_by_window[subject.kind, window_begin(check.window_seconds, now)].add(subject.id)
    return {
        (Subject(kind, number), begin): amounts
        for (kind, begin), ids in ids_by_window.items()
        for number, amounts in usage_from_log(kind, sorted(ids), begin, now, clock).items()
    }


def _status(
    check: LimitCheck, total: int | None, now: float, from_log: dict[tuple[Subject, int], QuotaUsage]
) -> LimitStatus:
    if not check.window_seconds:
        return LimitStatus(None if total is None else Decimal(total), None)
    begin, limit = window_begin(check.window_seconds, now), check.limit
    units = in_units(from_log[limit.subject, begin], limit) if _is_missing(check, total) else total
    amount = None if units is None else Decimal(units) / (NANO if limit.measure == COST else 1)
    return LimitStatus(amount, datetime.fromtimestamp(window_end(check.window_seconds, begin), UTC))


def _check(limit: Limit) -> LimitCheck:
    kind = limit.subject_kind
    subject = Subject(kind, getattr(limit, f"{kind}_id"))
    options = limit.is_strict, limit.unpriced, limit.unpriced_price
    set_at = None if limit.pk is None else limit.bounds_since  # a default of the settings is not stored
    return BOOK.check(LimitRow(subject, "", limit.measure, limit.window, limit.amount, set_at, *options))
