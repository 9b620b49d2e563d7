"""What the scripts of Redis are told of checks and holds, and what their replies mean."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from gateway_project.work.counters import ASKS, AT_ONCE
from gateway_project.work.limits import (
    COUNT,
    LEASE,
    RESERVE,
    USE,
    Admission,
    Hold,
    LimitCheck,
    Lost,
    Standing,
    window_begin,
    window_end,
)
from gateway_project.work.state import Checks


def ends_of(hold: Hold) -> int:
    """The end of the window that a hold belongs to; of a use, how long it lives on."""
    check = hold.check
    return check.window_seconds if check.kind in (LEASE, USE) else window_end(check.window_seconds, hold.begin)


def extra_of(check: LimitCheck) -> str:
    return check.member if check.kind == USE else "1" if check.since else "0"


def admission_of(reply: Any, checks: Checks, choices: Sequence[Checks], *, flies: bool) -> Admission:
    """The script's reply. What Redis holds is hostile until it has been looked at: it may be anything."""
    now = reply[1] / 1000
    if reply[0]:
        return _turned_away(reply, checks, choices, now)
    _, _, value, mode, choice, full, totals, takes = reply
    taken = [*checks, *choices[choice - 1]] if choice else checks
    admission = Admission([standing_of(check, total, now) for check, total in zip(taken, totals, strict=True)])
    admission.value = value if isinstance(value, bytes) else None
    admission.leads = flies and mode == ASKS
    if mode != AT_ONCE:
        held = [(check, take) for check, take in zip(taken, takes, strict=True) if _is_held(check, mode)]
        admission.holds = [Hold(check, take, window_begin(check.window_seconds, now), now) for check, take in held]
    if choice:
        admission.choice = choice - 1
        numbered = [*checks, *chain.from_iterable(choices)]
        admission.full = [Standing(numbered[number - 1], 0, _until(ends, now)) for number, ends in full]
    return admission


def _turned_away(reply: Any, checks: Checks, choices: Sequence[Checks], now: float) -> Admission:
    numbered = [*checks, *chain.from_iterable(choices)]
    if reply[0] > 0:
        number, _, ends, total, totals = reply
        check = numbered[number - 1]
        standing = [standing_of(own, its, now) for own, its in zip(checks, totals, strict=True)]
        return Admission(standing, Standing(check, check.amount - total, _until(ends, now)))
    lost = [(numbered[number - 1], since / 1000) for number, since in reply[2]]
    return Admission([], lost=[Lost(check, window_begin(check.window_seconds, now), since) for check, since in lost])


def standing_of(check: LimitCheck, total: int, now: float) -> Standing:
    seconds = check.window_seconds
    if check.kind in (LEASE, USE):
        reset = 1
    elif seconds > 0:
        reset = seconds - int(now) % seconds
    else:
        reset = _until(window_end(seconds, window_begin(seconds, now)), now)
    return Standing(check, check.amount - total, reset)


def _until(ends: int, now: float) -> int:
    return max(int(ends) - int(now), 1)


def sorted_out(checks: Checks) -> tuple[LimitCheck | None, Checks, bool]:
    """The use that no limit bounds, if there is one; all others; and whether these are requests a minute alone."""
    unbounded, others, plain = None, [], True
    for check in checks:
        if check.kind == USE and not check.amount:
            unbounded = check
        else:
            others.append(check)
            plain = plain and check.kind == COUNT and not check.since
    return unbounded, others, plain


def _is_held(check: LimitCheck, mode: int) -> bool:
    """A count that may have to be rebuilt is remembered too: if it was lost meanwhile, its end counts it."""
    return mode == ASKS if check.kind == RESERVE else check.kind != COUNT or check.since > 0
