"""The types that the shared state and the stages exchange to check a request against limits.

A `LimitCheck` says how much of what may be taken by whom. Two of its four kinds are counts in a calendar window (UTC);
the other two are leases, which are given back, or lapse when the process that holds them dies:

- COUNT is taken at once and for good: requests.
- RESERVE holds an estimate while the provider works, and is settled with the actual usage: tokens, cost.
- LEASE is held by each request in flight: concurrent requests.
- USE is held by a member (a user), however many of its requests are in flight, and stays live for some seconds
  after the last of them has ended: active uses.
"""

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway_project.work.limits.kinds import ACTIVE_USES, LimitDescription, LimitKind

MINUTE, DAY = 60, 86_400
MONTH = -1  # not a number of seconds: the calendar month
COUNT, RESERVE, LEASE, USE = LimitKind  # an attribute of an enum takes longer to read
LEASE_SECONDS = 10  # a lease lapses this long after its process last renewed it
GRACE_SECONDS = 60  # a counter is kept this long after its window
MAX_AMOUNT = 2**53 - 1  # the largest integer that Lua counts exactly: its numbers are doubles
SPREAD_SECONDS = 2  # after which every process knows of a limit that was set


class LimitCheck(NamedTuple):
    """At most `amount` of something; `name` says of what, and whose.

    To add a check: put one more of these among those that a request is admitted with (admission.py).
    Nothing else is needed: the one admission script evaluates it together with all others, a request that any check
    refuses takes from none, `Admission.holds` is settled when the request ends, and leases are renewed while it runs.
    messages.py turns `Admission.refused` into an error.

    - COUNT, RESERVE: `window_seconds` is 60, 86400 or MONTH. `take` is what this request takes; a RESERVE with less
      room takes what is left, if that is at least `minimum`. `since` (seconds since 1970) is set where a missing count
      has to be rebuilt: since then this check has been counted. `set_at` is the same moment in milliseconds if the
      limit was set then, so that all processes agree on it: an older count, of a former limit of that name, lacks
      what happened between the two. `is_new`: its subject was created just before, and has used next to nothing.
    - LEASE: nothing more.
    - USE: `member` is whose use it is ("5", a user's id), `window_seconds` how long it stays live after the last
      request. A member with a live use is always admitted. An amount of 0 counts uses without a limit; for all other
      kinds omit such a check. `SharedState.count_uses(name)` counts the live ones.
    """

    name: str
    amount: int
    window_seconds: int = 0
    kind: LimitKind = COUNT
    take: int = 1
    minimum: int = 1
    member: str = ""
    since: float = 0.0
    set_at: int = 0
    is_new: bool = False
    limit: LimitDescription = ACTIVE_USES  # for people and headers

    @property
    def is_unbounded(self) -> bool:
        """Whether it only counts, and refuses nobody."""
        return self.kind == USE and not self.amount

    def with_take(self, take: int, minimum: int) -> "LimitCheck":
        """The check for a request that takes so much, and needs that much; faster than _replace()."""
        return LimitCheck._make((*self[:4], take, minimum, *self[6:]))


class CheckSet(tuple[LimitCheck, ...]):
    """Checks of a request, with what follows from them alone: many requests share them.

    `unbounded` is the use without a limit, if any; `bounded` are all others. `is_plain`: these are of requests per
    minute alone; then `names` and `amounts` are their names, and of each its amount and what it takes.
    """

    def __init__(self, checks: Iterable[LimitCheck] = ()) -> None:
        bounded, self.unbounded, self.is_plain = list[LimitCheck](), None, True
        for check in self:
            if check.kind == USE and not check.amount:
                self.unbounded = check
            else:
                bounded.append(check)
                self.is_plain = self.is_plain and check.kind == COUNT and check.window_seconds == MINUTE
        self.bounded: Sequence[LimitCheck] = bounded
        plain = bounded if self.is_plain else ()
        self.names = [check.name for check in plain]
        self.amounts = [amount for check in plain for amount in (check.amount, check.take)]


class CheckStatus(NamedTuple):
    """A limit after this request: what remains, and the seconds until the window ends.

    For leases and uses: the seconds until one of them can be free again.
    """

    check: LimitCheck
    remaining: int
    reset_seconds: int

    @property
    def usage(self) -> int:
        return self.check.amount - self.remaining


class Reading(NamedTuple):
    """A limit at one moment, without the request that looks; the seconds are until its window ends, if it has one."""

    check: LimitCheck
    usage: int
    reserved: int
    remaining: int
    reset_seconds: int


class Hold(NamedTuple):
    """The amount that a request has taken of a limit; it is given back or settled when the request ends.

    `admitted` is when it was taken, but no earlier than its count begins: a count that begins later does not have it.
    """

    check: LimitCheck
    take: int = 0
    begin: int = 0  # of the window in which the request began and counts
    admitted: float = 0.0

    @property
    def is_late(self) -> bool:
        """Whether its limit was not known yet when the request was admitted, so that nothing was taken."""
        return self.check.kind == COUNT and not self.take


class LostCount(NamedTuple):
    """A missing count: what was used in this window until a moment has to be rebuilt from the log.

    `begin` and `until` are seconds since 1970 by the clock of the shared state. The log has the requests that ended
    before `until`; later ones count themselves. `is_whole`: nothing has been lost since the limit was set.
    """

    check: LimitCheck
    begin: int
    until: float
    is_whole: bool = False

    @property
    def is_small(self) -> bool:
        """Whether next to nothing is missing: what a new subject used before it had a limit."""
        return self.is_whole and self.check.is_new

    @property
    def until_ms(self) -> int:
        return round(self.until * 1000)


class Settlement(NamedTuple):
    """The end of a request: what it held, the actual amount of each hold, and when it ended.

    `ended` is the time in its log entry, converted to the clock of the shared state. An amount of 0 takes a request
    out of its count again.
    """

    token: str
    holds: Sequence[Hold] = ()
    amounts: Sequence[int] = ()
    ended: float = math.inf


NOTHING_HELD = Settlement("")


@dataclass(slots=True)
class Admission:
    """The result of one admission round trip.

    `refused` is the limit without room, and `lost` are counts to be rebuilt first: with either, nothing was counted,
    and `statuses` has the caller's own limits only. `value` is a cached answer. `leads`: this request is the one to
    call the provider. `choice` is the index of the candidate whose limits have room; `full` are the limits because of
    which those before it were passed over. `at` is when it was admitted, by the clock of the shared state.
    `readings` are the limits without this request: those of `statuses`, the one that refused, and the full ones; None
    where the statuses tell them, since they are of requests per minute alone.
    """

    statuses: list[CheckStatus]
    refused: CheckStatus | None = None
    value: bytes | None = None
    leads: bool = False
    holds: list[Hold] = field(default_factory=list)
    choice: int = 0
    full: Sequence[CheckStatus] = ()
    lost: Sequence[LostCount] = ()
    at: float = 0.0
    readings: Sequence[Reading] | None = ()

    @property
    def is_rejected(self) -> bool:
        """Whether nothing was counted, because a limit refused the request or its count was lost."""
        return self.refused is not None or bool(self.lost)


def window_begin(window_seconds: int, now: float) -> int:
    """The first second of the calendar window that contains `now` (UTC, seconds since 1970)."""
    now = int(now)
    if window_seconds > 0:
        return now - now % window_seconds
    return now - now % DAY - (time.gmtime(now).tm_mday - 1) * DAY


def days_around(now: float) -> tuple[int, int, int]:
    """The first seconds of yesterday, today and tomorrow (UTC): the clocks of two machines may see different days."""
    today = window_begin(DAY, now)
    return today - DAY, today, today + DAY


def window_end(window_seconds: int, begin: int) -> int:
    """The first second after the calendar window that begins then."""
    return begin + window_seconds if window_seconds > 0 else window_begin(MONTH, begin + 32 * DAY)
