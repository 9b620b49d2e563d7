"""What a request is checked against and takes from: the words that the shared state and the stages have in common.

A `LimitCheck` says how much of what may be taken by whom. Of the four kinds two are counts in a calendar window
(UTC), and two are leases, which are given back, and lapse by themselves when the process that has them dies:

- COUNT takes at once and for good: requests.
- RESERVE holds an estimate while the provider works, and is settled with what was used: tokens, cost.
- LEASE is held by each request in flight: concurrent requests.
- USE is held by a member (a user), however many of its requests are in flight, and lives on for some seconds
  after the last of them has ended: active uses.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

MINUTE, DAY = 60, 86_400
MONTH = -1  # a window that is no number of seconds
COUNT, RESERVE, LEASE, USE = "n", "r", "l", "u"
# A lease lapses so long after its process was last heard of.
LEASE_SECONDS = 10
GRACE_SECONDS = 60  # a counter is kept so long after its window
MOST = 2**53 - 1  # that scripts in Redis count exactly: its numbers are floating point
# A limit that was set is known to every process so many seconds later.
SPREAD_SECONDS = 2


class LimitCheck(NamedTuple):
    """At most `amount` of something; `name` says of what, and whose.

    To add a check: put one more of these among those that a request is admitted with (stages/admission.py).
    Nothing else is needed: the one script of an admission asks it together with all others, a request that is
    refused by any takes from none, `Admission.holds` is settled when the request ends, and leases are renewed
    while it runs. `Admission.refused.check` is the one that refused, of which stages/admission.py makes an error.

    - COUNT, RESERVE: `window_seconds` is 60, 86400 or MONTH. `take` is what this request takes; of a RESERVE that
      finds less room it takes what there is, as long as that is `least` or more. `since` is set (seconds since
      1970) where a count that is missing has to be rebuilt: the moment from which on this check has been asked.
      `set_at` is that moment in milliseconds where all processes agree on it, because the limit was set then: a
      count from before it, of an earlier limit of that name, lacks what happened between the two.
    - LEASE: nothing more.
    - USE: `member` is whose use it is ("5", the id of a user), `window_seconds` how long it lives on after the
      last request. A member with a live use is admitted always. An amount of 0 counts uses without a limit;
      for all other kinds leave such a check away. `SharedState.uses(name)` counts the live ones.
    """

    name: str
    amount: int
    window_seconds: int = 0
    kind: str = COUNT
    take: int = 1
    least: int = 1
    member: str = ""
    since: float = 0.0
    set_at: int = 0
    limit: Any = None  # what it is to people: a LimitSnapshot

    @property
    def is_unbounded(self) -> bool:
        """Whether it counts and refuses nobody."""
        return self.kind == USE and not self.amount


class Standing(NamedTuple):
    """A limit after this request: what is left of it, and the seconds until it is whole again.

    Of leases the seconds are those until one of them can be free again.
    """

    check: LimitCheck
    left: int
    reset_seconds: int

    @property
    def used(self) -> int:
        return self.check.amount - self.left


class Hold(NamedTuple):
    """What a request has taken of a check and gives back, or settles, when it ends."""

    check: LimitCheck
    take: int = 0
    begin: int = 0  # the window in which it began, which is the one that it counts in
    admitted: float = 0.0
    local: bool = False  # taken from this process's share, while Redis was away

    @property
    def is_late(self) -> bool:
        """Whether its limit was not known yet when the request was admitted, and so has nothing of it."""
        return self.check.kind == COUNT and not self.take


class Lost(NamedTuple):
    """A count that is missing: nobody knows what was used in this window up to a moment (seconds since 1970).

    Both are those of the shared state's clock.
    The log tells of the requests that had ended by then; those that end later count themselves.
    """

    check: LimitCheck
    begin: int
    until: float

    @property
    def until_ms(self) -> int:
        return round(self.until * 1000)


class Settlement(NamedTuple):
    """The end of a request: what it held, what each of these came to at last, and when it ended.

    That is the moment that the log has, by the clock of the shared state.
    """

    token: str
    holds: Sequence[Hold] = ()
    amounts: Sequence[int] = ()
    ended: float = math.inf


NOTHING_HELD = Settlement("")


@dataclass(slots=True)
class Admission:
    """What one round trip found out.

    `refused` is the limit that has no room, and `lost` are counts that have to be rebuilt first: with either,
    nothing was counted; `standing` then tells of the caller's own limits alone. `value` is a cached answer; `leads`
    says that this request is the one to call the provider. `choice` is the candidate whose limits have room, those
    before it were passed over because of `full`.
    """

    standing: list[Standing]
    refused: Standing | None = None
    value: bytes | None = None
    leads: bool = False
    holds: list[Hold] = field(default_factory=list)
    choice: int = 0
    full: Sequence[Standing] = ()
    lost: Sequence[Lost] = ()

    @property
    def turned_away(self) -> bool:
        """Whether nothing was counted, because a limit refused it or is not known."""
        return self.refused is not None or bool(self.lost)


def window_begin(window_seconds: int, now: float) -> int:
    """The first second of the calendar window that a moment lies in (UTC, seconds since 1970)."""
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
