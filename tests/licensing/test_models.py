"""What the database accepts as licence, limit and peak."""

from datetime import date
from decimal import Decimal

import pytest
from django.db import IntegrityError, transaction

from accounts.models import Group
from accounts.services import create_user
from gateway_project.env import MEASURES, WINDOWS
from licensing.models import DailyPeak, Licence, Limit, Measure, Window
from providers.models import ModelPrice
from providers.services import set_price

pytestmark = pytest.mark.either_store


@pytest.fixture
def ann(db):
    return create_user(username="ann", password="a secret")


def refused(model, **values):
    with pytest.raises(IntegrityError), transaction.atomic():
        model.objects.create(**values)


def test_one_licence_is_installed(db):
    Licence.objects.create(key="a")
    Licence.objects.update_or_create(id=Licence.ONLY_ID, defaults={"key": "b"})
    assert Licence.objects.get().key == "b"
    refused(Licence, id=2, key="c")


def test_a_limit_has_one_subject(ann):
    values = {"measure": "requests", "window": "day", "amount": 5}
    Limit.objects.create(user=ann, **values)
    refused(Limit, **values)
    refused(Limit, user=ann, group=Group.objects.create(name="team"), **(values | {"window": "month"}))


def test_a_subject_has_one_limit_of_a_measure_and_window(ann):
    Limit.objects.create(user=ann, measure="requests", window="day", amount=5)
    Limit.objects.create(user=ann, measure="requests", window="month", amount=5)
    refused(Limit, user=ann, measure="requests", window="day", amount=6)


@pytest.mark.parametrize(
    ("measure", "window", "amount"),
    [
        ("concurrent", "day", 1),
        ("requests", "none", 1),
        ("wishes", "day", 1),
        ("requests", "year", 1),
        ("requests", "day", -1),
    ],
)
def test_impossible_limits_are_refused(ann, measure, window, amount):
    refused(Limit, user=ann, measure=measure, window=window, amount=amount)


def test_an_amount_of_0_bounds_nothing(ann):
    Limit.objects.create(user=ann, measure="concurrent", window="none", amount=0)
    assert not Limit.objects.effective().exists()


def test_limits_have_the_measures_and_windows_of_the_settings():
    assert (Measure.values, Window.values) == (list(MEASURES), [*WINDOWS, Window.NONE])


def test_a_day_has_one_peak(db):
    DailyPeak.objects.create(date=date(2026, 1, 2), peak_use=3)
    refused(DailyPeak, date=date(2026, 1, 2), peak_use=4)
    refused(DailyPeak, date=date(2026, 1, 3), peak_use=-1)
    assert DailyPeak.objects.since(date(2026, 1, 2)).count() == 1
    assert not DailyPeak.objects.since(date(2026, 1, 3)).exists()


@pytest.mark.parametrize(
    ("measure", "window", "amount", "text"),
    [
        ("cost", "month", "0.000500", "cost of 0.0005 per month"),
        ("cost", "month", "1000000", "cost of 1,000,000 per month"),
        ("requests", "minute", "600", "600 requests per minute"),
        ("tokens", "day", "1", "1 token per day"),
        ("tokens", "month", "2000000", "2,000,000 tokens per month"),
        ("concurrent", "none", "1", "1 concurrent request"),
        ("concurrent", "none", "20", "20 concurrent requests"),
    ],
)
def test_a_limit_is_written_with_its_unit(measure, window, amount, text):
    assert str(Limit(measure=measure, window=window, amount=Decimal(amount))) == text


@pytest.mark.parametrize(
    ("currencies", "text", "currency"),
    [
        ([], "cost of 0.5 per day", ""),
        (["EUR"], "0.5 EUR per day", "EUR"),
        (["EUR", "EUR"], "0.5 EUR per day", "EUR"),
        (["EUR", "USD"], "0.5 EUR+USD per day", "EUR+USD"),
        (["CHF", "EUR", "USD"], "0.5 mixed currencies per day", "mixed currencies"),
    ],
)
def test_a_cost_limit_and_its_refusals_have_the_currency_of_the_prices(ann, currencies, text, currency):
    Limit.objects.create(user=ann, measure="cost", window="day", amount=Decimal("0.5"))
    for number, name in enumerate(currencies):
        set_price(model=f"model-{number}", currency=name, input=Decimal(1), output=Decimal(1))
    assert str(Limit.objects.shown().get()) == text
    assert ModelPrice.objects.not_over().book().currency == currency
