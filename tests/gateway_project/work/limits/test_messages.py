"""What a 429 says, for every kind of limit."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from gateway_project.errors import ActiveUseLimitReached, QuotaExceeded, RateLimited
from gateway_project.work.limits.book import LimitBook, LimitRow
from gateway_project.work.limits.checks import USE, CheckStatus, LimitCheck
from gateway_project.work.limits.kinds import Subject
from gateway_project.work.limits.messages import limit_error

pytestmark = pytest.mark.embedded

NOW = datetime(2026, 11, 23, 21, 21, 10, 400_000, tzinfo=UTC)
ASK_FOR_LESS = "Ask for a shorter answer (max_tokens), or send less input."


def check(measure, window, amount, subject="user", **changes):
    (row,) = LimitBook([LimitRow(Subject(subject, 1), "bob", measure, window, Decimal(amount))]).checks_for(
        Subject(subject, 1)
    )
    return row._replace(**changes)


def error(refused, remaining=0, seconds=614_329, currency="USD"):
    return limit_error(CheckStatus(refused, remaining, seconds), NOW.timestamp(), currency)


@pytest.mark.parametrize(
    ("refused", "seconds", "message"),
    [
        (
            check("requests", "minute", 600, "key"), 50,
            "The request limit of key bob (600 requests per minute) is used up. It resets at 21:22 UTC.",
        ),
        (
            check("requests", "day", 1), 9530,
            "The daily request limit of user bob (1 request) is used up. It resets on 24 November, 00:00 UTC.",
        ),
        (
            check("tokens", "month", 20_000, "group"), 614_330,
            "The monthly token limit of group bob (20,000 tokens) is used up. It resets on 1 December, 00:00 UTC.",
        ),
        (
            check("cost", "month", "0.0005"), 614_329,
            "The monthly cost limit of user bob (0.0005 USD) is used up. It resets on 1 December, 00:00 UTC.",
        ),
        (
            check("concurrent", "none", 1, "provider"), 1,
            "The limit of provider bob (1 concurrent request) is reached. "
            "Try again when one of its requests has finished.",
        ),
        (
            LimitCheck("uses", 5, 60, USE, member="1"), 1,
            "All 5 active uses of the licence are taken. One may become free in 1 second.",
        ),
        (
            LimitCheck("uses", 1, 60, USE, member="1"), 12,
            "The only active use of the licence is taken. It may become free in 12 seconds.",
        ),
    ],
)  # fmt: skip
def test_a_limit_that_is_used_up_says_whose_it_is_and_when_it_resets(refused, seconds, message):
    assert error(refused, seconds=seconds).message == message


def test_a_reservation_that_exceeds_the_rest_says_how_much_the_request_may_use():
    refused = check("tokens", "day", 100, take=31, minimum=31)
    assert error(refused, remaining=30).message == (
        "The daily token limit of user bob (100 tokens) has too little left for this request, which may use up to "
        "31 tokens. It resets on 1 December, 00:00 UTC."
    )
    assert "is used up" in error(refused, remaining=0).message


def test_a_reservation_that_never_fits_asks_for_less():
    refused = error(check("cost", "minute", "0.5", minimum=600_000_000))
    assert refused.permanent
    assert refused.message == (
        "This request may cost up to 0.6 USD, more than the cost limit of user bob (0.5 USD per minute) allows. "
        + ASK_FOR_LESS
    )


def test_money_has_no_currency_where_prices_have_several_or_none():
    assert "(0.5)" in error(check("cost", "day", "0.5"), currency="").message


@pytest.mark.parametrize(
    ("refused", "kind"),
    [
        (check("requests", "minute", 1), RateLimited),
        (check("concurrent", "none", 1), RateLimited),
        (check("cost", "day", 1), QuotaExceeded),
        (check("tokens", "month", 1), QuotaExceeded),
        (LimitCheck("uses", 5, 60, USE), ActiveUseLimitReached),
    ],
)
def test_the_error_carries_the_limit_and_the_time_of_its_reset(refused, kind):
    raised = error(refused, seconds=50)
    assert type(raised) is kind
    assert raised.limit is refused.limit
    assert (raised.resets_at - NOW).total_seconds() == 50
    assert raised.headers["Retry-After"] == "50"
