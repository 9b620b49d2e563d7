"""The state of cache, estimate and limits at the decision about a request, as lists of numbers in its log entry."""

from collections.abc import Sequence
from typing import NamedTuple

CACHE_OFF = "off"  # the verdict if the cache was not asked, and the client did not forbid it
LimitValues = tuple[str, int, int, int, int, int]  # those of a LoggedLimit


class LoggedLimit(NamedTuple):
    """A limit without the request, in the unit of its count: money in billionths."""

    name: str  # that of its check: measure, subject, its id and window; "uses" for active uses of the licence
    amount: int
    usage: int
    reserved: int  # for requests in flight
    remaining: int
    ends: int  # when its window ends, in seconds since 1970


class LoggedDecision(NamedTuple):
    """What the cache said, the estimate, and the limits."""

    cache: str  # the verdict
    scope: str | None  # who shares the stored answer; None without a cache key
    input_tokens: int | None  # as estimated; None where no limit needed an estimate
    output_tokens: int | None  # of the longest answer
    limits: Sequence[LimitValues] | None  # None: the request did not come to them
    refusing: str = ""  # the limit that refused it, by the name of its check; absent in entries of older versions
