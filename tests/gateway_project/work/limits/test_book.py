"""The limits of everybody: what is set goes before the default, and is counted as long as either may hold."""

from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace

import pytest

from gateway_project.work.exchange import Exchange, RequestLimits
from gateway_project.work.limits.book import LimitBook, LimitRow
from gateway_project.work.limits.checks import COUNT, DAY, LEASE, MAX_AMOUNT, MINUTE, MONTH, RESERVE
from gateway_project.work.limits.kinds import Subject
from gateway_project.work.state.shared import LocalState
from gateway_project.work.streaming.delivery import add_headers
from gateway_project.work.streaming.stream import ClientConnection
from providers.transport.calls import Call

SET_AT = datetime(2026, 5, 17, 12, 0, 0, 250_000, tzinfo=UTC)
KEY = Subject("key", 5)
DEFAULTS = {"key": {("requests", "minute"): Decimal(600), ("requests", "day"): Decimal(9)}}


def row(amount, measure="requests", window="day", subject=KEY):
    return LimitRow(subject, "it", measure, window, Decimal(amount), SET_AT)


def amounts(book, subject=KEY):
    return {check.name: check.amount for check in book.checks_for(subject)}


def test_a_limit_that_was_set_goes_before_the_default():
    assert amounts(LimitBook([row(5)], DEFAULTS)) == {"requests:key:5:minute": 600, "requests:key:5:day": 5}
    assert amounts(LimitBook([row(5)], DEFAULTS), Subject("user", 5)) == {}


def test_what_is_unlimited_is_not_counted_unless_a_default_may_hold_again():
    assert amounts(LimitBook([row(0)])) == {}
    book = LimitBook([row(0), row(0, "tokens")], DEFAULTS)
    assert amounts(book) == {"requests:key:5:minute": 600, "requests:key:5:day": MAX_AMOUNT}
    statuses = LocalState(cache_bytes=0).admit(book.checks_for(KEY), ignore_lost=True).statuses
    headers = []
    call = Call(client=None, total_seconds=1)
    exchange = Exchange(ClientConnection({}), call=call, limits=RequestLimits(statuses=statuses))
    add_headers(headers, exchange)
    assert dict(headers)["RateLimit-Policy"] == '"key";q=600;w=60', "nobody is told of a limit that there is not"


@pytest.mark.parametrize(
    ("measure", "amount", "counted"),
    [
        ("requests", 10**14, 10**14),
        ("tokens", 10**18, MAX_AMOUNT),
        ("cost", 9_000_000, 9 * 10**15),
        ("cost", 10**13, MAX_AMOUNT),
    ],
)
def test_no_amount_is_larger_than_can_be_counted_whoever_wrote_it(measure, amount, counted):
    (check,) = LimitBook([row(amount, measure, "month")]).checks_for(KEY)
    assert check.amount == counted <= MAX_AMOUNT


def test_a_limit_knows_when_it_was_set_and_a_default_since_when_this_process_asks_it():
    book = LimitBook([row(5, "tokens", "month"), row(5, "tokens", "minute")], DEFAULTS, started_at=77.0)
    values = {check.name: (check.since, check.set_at) for check in book.checks_for(KEY)}
    assert values == {
        "tokens:key:5:month": (SET_AT.timestamp(), int(SET_AT.timestamp() * 1000)),
        "requests:key:5:day": (77.0, 0),
        "tokens:key:5:minute": (0.0, 0),
        "requests:key:5:minute": (0.0, 0),
    }


ANN = SimpleNamespace(id=1, name="ann", group_ids=(2, 3))
CALLERS_KEY = SimpleNamespace(id=5, name="first")


def test_a_caller_is_held_to_the_limits_of_its_key_its_user_and_each_of_its_groups():
    book = LimitBook(
        [
            row(4, "concurrent", "none", Subject("group", 2)),
            row("1.5", "cost", "day", Subject("user", 1)),
            row(7, "requests", "month", Subject("group", 3)),
            row(10**17, "tokens", "minute"),
            row(9, "requests", "minute"),
            row(1, "requests", "minute", Subject("group", 4)),
        ]
    )
    limits = book.for_caller(CALLERS_KEY, ANN)
    results = [
        (check.name, check.amount, check.window_seconds, check.kind, check.limit.header) for check in limits.checks
    ]
    assert results == [
        ("tokens:key:5:minute", MAX_AMOUNT, MINUTE, RESERVE, '"key-tokens";q=999999999999999;qu="tokens";w=60'),
        ("requests:key:5:minute", 9, MINUTE, COUNT, '"key";q=9;w=60'),
        ("cost:user:1:day", 1_500_000_000, DAY, RESERVE, '"user-cost-day";q=1500000;qu="millionths";w=86400'),
        ("concurrent:group:2:none", 4, 0, LEASE, '"group-2-concurrent";q=4;qu="concurrent-requests"'),
        ("requests:group:3:month", 7, MONTH, COUNT, '"group-3-month";q=7'),
    ]
    assert {type(check.amount) for check in limits.checks} == {int}
    assert book.for_caller(CALLERS_KEY, ANN) is limits
    assert book.for_caller(None, ANN).checks == limits.checks[2:]
    assert book.for_caller(None, SimpleNamespace(id=1, name="ann", group_ids=())).checks == limits.checks[2:3]
    assert book.for_caller(CALLERS_KEY, SimpleNamespace(id=6, name="bob", group_ids=())).checks == limits.checks[:2]


def test_it_says_whether_something_is_reserved():
    rows = [row(9), row(5, "tokens", "day", Subject("group", 2)), row(3, subject=Subject("provider", 7))]
    book = LimitBook(rows)
    assert [book.for_caller(key, ANN).reserves for key in (CALLERS_KEY, None)] == [True, True]
    assert not LimitBook(rows[:1]).for_caller(CALLERS_KEY, ANN).reserves
    limits = book.for_provider(SimpleNamespace(id=7, name="it", account=(7, 0)))
    assert ([check.name for check in limits.checks], limits.reserves) == (["requests:provider:7:day"], False)
    assert book.for_provider(SimpleNamespace(id=7, name="it", account=(7, 0))) is limits


@pytest.mark.parametrize(
    ("rows", "defaults", "expected"),
    [
        ([row(9)], DEFAULTS, False),
        ([row(9), row(9, subject=Subject("provider", 7))], {}, True),
        ([], {"provider": {("requests", "minute"): Decimal(0)}}, False),
        ([], {"provider": {("requests", "minute"): Decimal(0), ("tokens", "day"): Decimal(1)}}, True),
    ],
)
def test_it_says_whether_any_provider_has_limits(rows, defaults, expected):
    assert LimitBook(rows, defaults).has_provider_limits == expected


def test_a_description_names_the_subject():
    book = LimitBook([row(9, subject=Subject("user", 1))], DEFAULTS | {"group": DEFAULTS["key"]})
    subjects = [(check.limit.subject.kind, check.limit.name) for check in book.for_caller(CALLERS_KEY, ANN).checks]
    assert subjects == [("key", "first")] * 2 + [("user", "ann")] + [("group", "2")] * 2 + [("group", "3")] * 2


GUARDS = {
    "login": {("requests", "minute"): Decimal(60)},
    "user": {("requests", "minute"): Decimal(300), ("concurrent", "none"): Decimal(8)},
}


def limits_of(book, key):
    caller = SimpleNamespace(id=5, name="ann", group_ids=())
    return {check.name: check.amount for check in book.for_caller(key, caller).checks}


def test_a_user_without_limits_has_the_guards_and_an_access_token_one_of_its_own():
    book = LimitBook(guards=GUARDS)
    of_user = {"requests:user:5:minute": 300, "concurrent:user:5:none": 8}
    assert limits_of(book, SimpleNamespace(id=7, name="laptop")) == of_user
    assert limits_of(book, None) == {"requests:login:5:minute": 60} | of_user


@pytest.mark.parametrize(("amount", "left"), [(1000, {"requests:user:5:minute": 1000}), (0, {})])
def test_a_limit_that_was_set_goes_before_a_guard_even_if_it_is_unlimited(amount, left):
    book = LimitBook([row(amount, window="minute", subject=Subject("user", 5))], guards=GUARDS)
    key = SimpleNamespace(id=7, name="laptop")
    assert limits_of(book, key) == left | {"concurrent:user:5:none": 8}


def test_a_default_of_the_settings_goes_before_a_guard():
    book = LimitBook(defaults={"user": {("requests", "minute"): Decimal(20)}}, guards=GUARDS)
    assert limits_of(book, SimpleNamespace(id=7, name="laptop"))["requests:user:5:minute"] == 20


def test_a_guard_of_zero_is_none_and_no_header_shows_one():
    book = LimitBook(guards={"user": {("requests", "minute"): Decimal(0), ("concurrent", "none"): Decimal(8)}})
    (check,) = book.checks_for(Subject("user", 5))
    assert (check.name, check.limit.policy, check.limit.header) == ("concurrent:user:5:none", "", "")
