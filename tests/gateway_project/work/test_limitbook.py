"""The limits of everybody: what is set goes before the default, and is counted as long as either may hold."""

from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace

import pytest

from gateway_project.work.limitbook import LimitBook, LimitRow, Subject
from gateway_project.work.limits import MOST
from gateway_project.work.stages.delivery import add_headers
from gateway_project.work.state import LocalState

SET_AT = datetime(2026, 5, 17, 12, 0, 0, 250_000, tzinfo=UTC)
KEY = Subject("key", 5)
DEFAULTS = {"key": {("requests", "minute"): Decimal(600), ("requests", "day"): Decimal(9)}}


def row(amount, measure="requests", window="day", subject=KEY):
    return LimitRow(subject, "it", measure, window, Decimal(amount), SET_AT)


def amounts(book, subject=KEY):
    return {check.name: check.amount for check in book.checks_of(subject)}


def test_a_limit_that_was_set_goes_before_the_default():
    assert amounts(LimitBook([row(5)], DEFAULTS)) == {"requests:key:5:minute": 600, "requests:key:5:day": 5}
    assert amounts(LimitBook([row(5)], DEFAULTS), Subject("user", 5)) == {}


def test_what_is_unlimited_is_not_counted_unless_a_default_may_hold_again():
    assert amounts(LimitBook([row(0)])) == {}
    book = LimitBook([row(0), row(0, "tokens")], DEFAULTS)
    assert amounts(book) == {"requests:key:5:minute": 600, "requests:key:5:day": MOST}
    standing = LocalState(cache_bytes=0).admit(book.checks_of(KEY), blind=True).standing
    headers = []
    nothing = SimpleNamespace(name="", request_id_header="")
    exchange = SimpleNamespace(
        request_id="r", request=None, target=None, dropped="", answer=None, timings=(), standing=standing,
        entrance=SimpleNamespace(door=nothing),
    )  # fmt: skip
    add_headers(headers, exchange)
    assert dict(headers)["RateLimit-Policy"] == '"key";q=600;w=60', "nobody is told of a limit that there is not"


@pytest.mark.parametrize(
    ("measure", "amount", "counted"),
    [("requests", 10**14, 10**14), ("tokens", 10**18, MOST), ("cost", 9_000_000, 9 * 10**15), ("cost", 10**13, MOST)],
)
def test_no_amount_is_larger_than_can_be_counted_whoever_wrote_it(measure, amount, counted):
    (check,) = LimitBook([row(amount, measure, "month")]).checks_of(KEY)
    assert check.amount == counted <= MOST


def test_a_limit_knows_when_it_was_set_and_a_default_since_when_this_process_asks_it():
    book = LimitBook([row(5, "tokens", "month"), row(5, "tokens", "minute")], DEFAULTS, begun=77.0)
    known = {check.name: (check.since, check.set_at) for check in book.checks_of(KEY)}
    assert known == {
        "tokens:key:5:month": (SET_AT.timestamp(), int(SET_AT.timestamp() * 1000)),
        "requests:key:5:day": (77.0, 0),
        "tokens:key:5:minute": (0.0, 0),
        "requests:key:5:minute": (0.0, 0),
    }
