"""The terms of an installation: those of its licence, or of a community installation without one."""

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from licensing.signing import Claims

COMMUNITY, INVALID = "community", "invalid"
WARNING_DAYS = 30
# A clock set back by less than the first is tolerated; by more than the second, administrators are warned.
CLOCK_TOLERANCE_SECONDS, CLOCK_WARNING_SECONDS = 24 * 3600, 3600
HOW_TO_REPAIR = "Until an admin installs a valid one (POST /licence/), only login, licence and rules are served."


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms in force; `refusal` says why the installed key is invalid, and is empty for a valid one.

    `max_active_uses` 0 is unlimited, `active_use_life_time` is in seconds, `expiry` is the last valid day (UTC);
    `ends` is the time of its end and `latest_time` the latest time observed here, both in seconds since 1970.
    """

    type: str
    max_active_uses: int
    active_use_life_time: int
    has_key: bool = False
    licensee: str = ""
    expiry: date | None = None
    refusal: str = ""
    ends: float = math.inf
    latest_time: float = -math.inf

    def problem(self, now: float) -> str:
        """Why the gateway does not serve at this moment (seconds since 1970); empty if it does."""
        if now < self.latest_time - CLOCK_TOLERANCE_SECONDS:
            return f"{self._clock(now)} Until it is corrected, only login, licence and rules are served."
        if now < self.ends:
            return ""
        if self.refusal:
            return f"The installed licence is invalid. {self.refusal} {HOW_TO_REPAIR}"
        return f"The licence expired at the end of {self.expiry} (UTC). {HOW_TO_REPAIR}"

    def sentence(self, now: float) -> str:
        """One sentence for people about the terms at this moment."""
        if problem := self.problem(now):
            return problem
        if not self.has_key:
            return "No licence is installed: this is a community installation."
        return f"The licence is {self.type}, for {self.licensee}, valid until the end of {self.expiry} (UTC)."

    def expires_in(self, now: float) -> int | None:
        """Days until the expiry: 0 on the last valid day, negative afterwards; None where nothing expires."""
        return (self.expiry - _day(now)).days if self.expiry else None

    def warning(self, now: float) -> str:
        """A warning for administrators, from 30 days before the expiry; empty if there is none."""
        days = self.expires_in(now)
        if not self.problem(now) and now < self.latest_time - CLOCK_WARNING_SECONDS:
            return self._clock(now)
        if (problem := self.problem(now)) or days is None or days > WARNING_DAYS:
            return problem
        return f"The licence expires {_days_in_words(days)}, at the end of {self.expiry} (UTC)."

    def _clock(self, now: float) -> str:
        current, latest = (datetime.fromtimestamp(moment, UTC) for moment in (now, self.latest_time))
        return f"The clock was set back from {latest:%Y-%m-%d %H:%M} to {current:%Y-%m-%d %H:%M} (UTC)."


def community_terms(max_active_uses: int, active_use_life_time: int) -> Terms:
    """The terms of an installation without a licence."""
    return Terms(COMMUNITY, max_active_uses, active_use_life_time)


def licensed_terms(claims: Claims, latest_time: float = -math.inf) -> Terms:
    """The terms of a verified key; `latest_time` is the latest time observed here."""
    return Terms(
        claims.type,
        claims.max_active_uses,
        claims.active_use_life_time,
        has_key=True,
        licensee=claims.licensee,
        expiry=claims.expiry,
        ends=_end_of(claims.expiry),
        latest_time=latest_time,
    )


def refused_terms(reason: str, max_active_uses: int, active_use_life_time: int) -> Terms:
    """The terms of an installed key that does not verify; its claims are ignored."""
    return Terms(INVALID, max_active_uses, active_use_life_time, has_key=True, refusal=reason, ends=-math.inf)


def _end_of(day: date) -> float:
    try:
        return datetime.combine(day + timedelta(days=1), time(), UTC).timestamp()
    except OverflowError:  # the last day of datetime
        return math.inf


def _day(now: float) -> date:
    return datetime.fromtimestamp(now, UTC).date()


def _days_in_words(days: int) -> str:
    return {0: "today", 1: "tomorrow"}.get(days, f"in {days} days")
