"""Converts checks and holds to the arguments of the Redis scripts, and their replies to admissions."""

from collections.abc import Sequence
from itertools import chain

from gateway_project.work.limits.checks import (
    COUNT,
    LEASE,
    MINUTE,
    RESERVE,
    USE,
    Admission,
    CheckStatus,
    Hold,
    LimitCheck,
    LostCount,
    Reading,
    window_begin,
    window_end,
)
from gateway_project.work.state.clock import Clock
from gateway_project.work.state.counters import CALLS_PROVIDER, ENDS_AT_ONCE, Counters
from gateway_project.work.state.figures import Figures
from gateway_project.work.state.redis.connection import Reply
from gateway_project.work.state.shared import Checks

WHOLE = 2  # the mark of a count of which nothing was lost since its limit was set


def end_argument(hold: Hold) -> int:
    """The end of the hold's window (seconds since 1970); for leases and uses the seconds for which it stays live."""
    check = hold.check
    return check.window_seconds if check.kind in (LEASE, USE) else window_end(check.window_seconds, hold.begin)


def extra_argument(check: LimitCheck) -> str:
    return check.member if check.kind == USE else "1" if check.since else "0"


def admission_of(reply: Reply, checks: Checks, candidate_checks: Sequence[Checks], *, claims_flight: bool) -> Admission:
    """The admission in ADMIT's reply. The cached value is not trusted: it may be of any type."""
    now = reply[1] / 1000
    if reply[0]:
        return _rejection(reply, checks, candidate_checks, now)
    _, _, value, mode, choice, full, totals, takes, froms, uses, helds = reply
    value = value if isinstance(value, bytes) else None
    leads = claims_flight and mode == CALLS_PROVIDER
    if not takes and not choice:  # requests per minute alone
        reset = MINUTE - int(now) % MINUTE
        statuses = [
            CheckStatus(check, check.amount - total, reset) for check, total in zip(checks, totals, strict=True)
        ]
        return Admission(statuses, None, value, leads, at=now, readings=None)
    admitted = [*checks, *candidate_checks[choice - 1]] if choice else checks
    statuses = [status_of(check, total, now) for check, total in zip(admitted, totals, strict=True)]
    readings = _readings_before(statuses, uses, helds)
    admission = Admission(statuses, None, value, leads, at=now, readings=readings)
    admission.holds = [
        Hold(check, take, window_begin(check.window_seconds, now), max(now, since / 1000))
        for check, take, since in zip(admitted, takes, froms, strict=True)
        if _is_held(check, mode, is_early=since > reply[1])
    ]
    if choice:
        admission.choice = choice - 1
        numbered = [*checks, *chain.from_iterable(candidate_checks)]
        admission.full = [
            CheckStatus(numbered[number - 1], 0, _seconds_until(ends, now)) for number, ends, _, _ in full
        ]
        figures = [row[2:] for row in full]
        readings += [_reading_before(one, *its) for one, its in zip(admission.full, figures, strict=True)]
    return admission


def _rejection(reply: Reply, checks: Checks, candidate_checks: Sequence[Checks], now: float) -> Admission:
    numbered = [*checks, *chain.from_iterable(candidate_checks)]
    if reply[0] > 0:
        number, _, ends, total, totals, reserved, helds = reply
        check = numbered[number - 1]
        statuses = [status_of(own, its, now) for own, its in zip(checks, totals, strict=True)]
        refused = CheckStatus(check, check.amount - total, _seconds_until(ends, now))
        pairs = zip(statuses, helds or [0] * len(statuses), strict=True)
        readings = [_reading_before(one, one.usage - amount, amount) for one, amount in pairs if one.check != check]
        readings = [*readings, _reading_before(refused, total - reserved, reserved)]
        return Admission(statuses, refused, readings=readings, at=now)
    rows = [(numbered[number - 1], since / 1000, mark == WHOLE) for number, since, mark in reply[2]]
    begins = [window_begin(check.window_seconds, now) for check, _, _ in rows]
    return Admission(
        [], lost=[LostCount(check, begin, *rest) for (check, *rest), begin in zip(rows, begins, strict=True)]
    )


def status_of(check: LimitCheck, total: int, now: float) -> CheckStatus:
    seconds = check.window_seconds
    if check.kind in (LEASE, USE):
        reset = 1
    elif seconds > 0:
        reset = seconds - int(now) % seconds
    else:
        reset = _seconds_until(window_end(seconds, window_begin(seconds, now)), now)
    return CheckStatus(check, check.amount - total, reset)


def _readings_before(
    statuses: Sequence[CheckStatus], uses: Sequence[int], reservations: Sequence[int]
) -> list[Reading]:
    """The limits before this request, of which this much was used and reserved."""
    return [
        Reading(check, usage, reserved, check.amount - usage - reserved, reset)
        for (check, _, reset), usage, reserved in zip(statuses, uses, reservations, strict=True)
    ]


def _reading_before(status: CheckStatus, usage: int, reserved: int) -> Reading:
    """A limit before this request, of which this much was used and reserved."""
    return Reading(status.check, usage, reserved, status.check.amount - usage - reserved, status.reset_seconds)


def _seconds_until(ends: int, now: float) -> int:
    return max(int(ends) - int(now), 1)


def counters_of(reply: Reply, checks: Checks, clock: Clock) -> Counters:
    """The counters with what FIGURES has reported of these checks."""
    at, rows = reply
    counters, now = Counters(clock=clock), at / 1000
    for check, row in zip(checks, rows, strict=True):
        counters.put(check, _figures(check, row, now), now)
    return counters


def _figures(check: LimitCheck, row: Sequence[int], now: float) -> Figures:
    if check.kind in (LEASE, USE):
        live, is_member, ends = row
        return Figures(live, is_member=bool(is_member), ends_at=ends / 1000)
    usage, reserved, begin_ms, is_lost, set_at, early = row
    # A count of a minute is never lost: it has its beginning where its window has.
    since = begin_ms / 1000 if begin_ms >= 0 else None if check.since else window_begin(check.window_seconds, now)
    return Figures(usage, reserved, since, bool(is_lost), set_at, early)


def _is_held(check: LimitCheck, mode: int, *, is_early: bool) -> bool:
    """Whether it is held until the request ends; so is a count that can be lost: then the end counts it again.

    `is_early`: the log will tell what ends before the count begins, so its end has to be known.
    """
    if check.kind == RESERVE:
        return mode == CALLS_PROVIDER
    if check.kind == COUNT:
        return check.since > 0 and (mode != ENDS_AT_ONCE or is_early)
    return mode != ENDS_AT_ONCE
