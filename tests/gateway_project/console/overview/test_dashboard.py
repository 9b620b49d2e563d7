"""What the console's first page draws attention to, beside what other tests look at on the page itself."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from gateway_project.console.overview import dashboard as overview
from keys.models import ApiKey
from keys.services import issue_key
from telemetry.journal.shipping import Backlog


def texts_of(notices) -> list[str]:
    return [notice.text for notice in notices]


def test_a_log_that_waits_for_the_database_for_long():
    assert texts_of(overview._about_the_log(Backlog(bytes=5_000, seconds=29.0))) == []
    (text,) = texts_of(overview._about_the_log(Backlog(bytes=5_000, seconds=95.0)))
    assert text == "5,000 bytes of log entries wait for the database, the oldest for 95 seconds."


def test_keys_that_expire_soon_the_first_of_many(ann):
    now = timezone.now()
    for number in range(overview.SHOWN + 1):
        issue_key(owner=ann, name=f"key-{number}", expiry=now + timedelta(hours=number + 1))
    (text,) = texts_of(overview._about_keys(ApiKey.objects.all()))
    assert text == "These keys expire within 7 days: key-0, key-1, key-2, key-3, key-4 and others."
    assert texts_of(overview._about_keys(ApiKey.objects.none())) == []


@pytest.mark.parametrize(
    ("errors", "requests", "texts"),
    [
        (0, 0, []),
        (5, 100, []),
        (6, 100, ["6 of 100 requests since 08:00 UTC failed. The log shows them."]),
        (1200, 1200, ["1,200 of 1,200 requests since 08:00 UTC failed. The log shows them."]),
    ],
)
def test_many_errors_of_the_last_hour(errors, requests, texts):
    figures = {"since": datetime(2027, 1, 15, 8, tzinfo=UTC), "totals": {"errors": errors, "requests": requests}}
    assert texts_of(overview._about_errors(figures)) == texts


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        ({}, "0"),
        ({"USD": Decimal("1234.567")}, "$1,234.57"),
        ({"EUR": Decimal("0.00319"), "USD": Decimal(2)}, "€0.0032, $2.00"),
    ],
)
def test_money_has_cents_or_where_there_is_less_more_of_them(cost, text):
    assert overview._money(cost) == text
