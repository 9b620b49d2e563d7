"""The kinds, subjects and measures of limits, and their names in headers."""

from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

REQUESTS, TOKENS, COST, CONCURRENT = "requests", "tokens", "cost", "concurrent"  # the measures
# Money is counted in integers of billionths: a token can cost less than a millionth.
NANO = 10**9
MAX_HEADER_INTEGER = 10**15 - 1  # RFC 9651, 3.3.1


class LimitKind(StrEnum):
    """The kind of a check (checks.py explains each); the Redis scripts get the values."""

    COUNT = "n"
    RESERVE = "r"
    LEASE = "l"
    USE = "u"


class Subject(NamedTuple):
    """Whose limit it is: a key, user, group or provider; the licence for active uses."""

    kind: str
    id: int


class LimitDescription(NamedTuple):
    """A limit for people (messages.py) and headers; `policy` and `header` are empty if no header shows it."""

    subject: Subject
    name: str  # the subject's
    measure: str
    window: str
    policy: str = ""  # its name in the headers RateLimit and RateLimit-Policy
    header: str = ""  # its item in RateLimit-Policy

    def header_amount(self, amount: int) -> int:
        """An amount in the unit of headers: money in millionths; at most MAX_HEADER_INTEGER."""
        return min(amount // 1000 if self.measure == COST else amount, MAX_HEADER_INTEGER)


ACTIVE_USES = LimitDescription(Subject("licence", 0), "", "active uses", "none")


def money(amount: int) -> Decimal:
    """Money that is counted in billionths, in the currency's unit."""
    return Decimal(amount) / NANO
