"""The kinds, subjects and measures of limits, and their names in headers."""

from decimal import Decimal
from enum import StrEnum
from math import ceil
from typing import NamedTuple

from gateway_project.env import MEASURES

REQUESTS, TOKENS, COST, CONCURRENT = MEASURES
PROVIDER, CREDENTIAL = "provider", "credential"  # the subjects of limits that serve requests; all others send them
# Units of amounts in the header RateLimit-Policy; that of requests is the default.
HEADER_UNITS = {TOKENS: "tokens", COST: "millionths", CONCURRENT: "concurrent-requests"}
# What a cost limit does with work without a price; with any other value it does not count it.
REFUSE, COUNT_UNPRICED = "refuse", "count"
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
    """Whose limit it is: a key, user, group, provider or credential of one; the licence for active uses."""

    kind: str
    id: int

    @property
    def is_upstream(self) -> bool:
        """Whether it is the limit of a provider or credential, and not of a caller."""
        return self.kind in (PROVIDER, CREDENTIAL)


class LimitDescription(NamedTuple):
    """A limit for people (messages.py) and headers; `policy` and `header` are empty if no header shows it."""

    subject: Subject
    name: str  # the subject's
    measure: str
    window: str
    policy: str = ""  # its name in the headers RateLimit and RateLimit-Policy
    header: str = ""  # its item in RateLimit-Policy
    is_strict: bool = False  # whether a request must fit with its largest possible use
    unpriced: str = REFUSE  # what a cost limit does with work that has no price
    unpriced_price: Decimal = Decimal(0)  # what a million tokens of it count

    @property
    def check_name(self) -> str:
        """The name under which it is counted."""
        return f"{self.measure}:{self.subject.kind}:{self.subject.id}:{self.window}"

    def header_amount(self, amount: int) -> int:
        """An amount in the unit of headers: money in millionths; at most MAX_HEADER_INTEGER."""
        return min(amount // 1000 if self.measure == COST else amount, MAX_HEADER_INTEGER)


ACTIVE_USES = LimitDescription(Subject("licence", 0), "", "active uses", "none")


def unpriced_units(tokens: int, limit: LimitDescription) -> int:
    """What so many tokens without a price count in a cost limit, in billionths."""
    return ceil(tokens * limit.unpriced_price * NANO / 10**6)


def money(amount: int) -> Decimal:
    """Money that is counted in billionths, in the currency's unit."""
    return Decimal(amount) / NANO
