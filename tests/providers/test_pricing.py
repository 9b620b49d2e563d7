"""Prices as rows: what changes makes a new one, and nothing overlaps."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from gateway_project.errors import Conflict, ValidationError
from providers.models import ModelPrice
from providers.services import change_price, create_provider, end_price, set_price

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]


def new(model="m", **values):
    return set_price(**{"model": model, "currency": "USD", "input": Decimal(1), "output": Decimal(2)} | values)


def history(model="m"):
    """(input, begin, end) of each row, in their order; begins and ends as the numbers of the moments."""
    rows = list(ModelPrice.objects.filter(model=model).order_by("valid_from"))
    moments = sorted({moment for row in rows for moment in (row.valid_from, row.valid_until) if moment})
    number = {moment: position for position, moment in enumerate(moments)} | {None: None}
    return [(int(row.input), number[row.valid_from], number[row.valid_until]) for row in rows]


def test_a_changed_price_is_a_new_row_and_the_old_one_ends_where_it_begins():
    price = new(cache_read=Decimal("0.5"), source="bundled")
    changed = change_price(price, input=Decimal(3))
    assert history() == [(1, 0, 1), (3, 1, None)]
    assert (changed.cache_read, changed.output, changed.source) == (Decimal("0.5"), 2, "edited")
    change_price(changed, input=Decimal(4))
    assert history() == [(1, 0, 1), (3, 1, 2), (4, 2, None)]


def test_what_has_ended_stays_as_it_is():
    price = new()
    change_price(price, input=Decimal(3))
    for change in (lambda: change_price(price, input=Decimal(9)), lambda: end_price(price)):
        with pytest.raises(Conflict, match="has an end"):
            change()
    assert history() == [(1, 0, 1), (3, 1, None)]


def test_a_change_can_be_told_ahead_and_taken_back():
    price = new()
    later = timezone.now() + timedelta(days=30)
    ahead = change_price(price, input=Decimal(3), valid_from=later)
    assert history() == [(1, 0, 1), (3, 1, None)]
    assert list(ModelPrice.objects.current().values_list("input", flat=True)) == [1]
    assert list(ModelPrice.objects.current(later).values_list("input", flat=True)) == [3]
    change_price(ahead, input=Decimal(5))
    assert history() == [(1, 0, 1), (5, 1, None)]
    end_price(ahead)
    assert history() == [(1, 0, None)]


def test_a_deleted_price_ends_and_can_be_set_anew():
    end_price(new())
    assert history() == [(1, 0, 1)]
    assert not ModelPrice.objects.current().exists()
    new(input=Decimal(7))
    assert history() == [(1, 0, 1), (7, 2, None)]


def test_nothing_is_changed_in_the_past():
    past = timezone.now() - timedelta(days=1)
    with pytest.raises(ValidationError, match="past"):
        new(valid_from=past)
    with pytest.raises(ValidationError, match="past"):
        change_price(new(), input=Decimal(3), valid_from=past)


def test_one_thing_has_one_price_whatever_it_is_a_price_of():
    provider = create_provider(name="p", url="https://api.example.org", format_name="openai")
    kinds = [{}, {"host": "api.example.org"}, {"provider": provider}, {"above_input_tokens": 200_000}]
    for kind in kinds:
        new(**kind)
        with pytest.raises(Conflict):
            new(model="M", **kind)
        with pytest.raises(IntegrityError), transaction.atomic():
            ModelPrice.objects.create(model="m", currency="USD", input=1, output=1, **kind)


@pytest.mark.parametrize(
    "values",
    [
        {"currency": "usd"},
        {"currency": "dollar"},
        {"input": Decimal(-1)},
        {"input": None},
        {"output": Decimal("NaN")},
        {"input": Decimal("0.0000001")},
        {"input": Decimal(1_000_000)},
        {"request": Decimal(-1)},
        {"model": ""},
        {"model": "a b"},
        {"host": "api example"},
    ],
)
def test_impossible_prices_are_refused(values):
    with pytest.raises(ValidationError):
        new(**values)


def test_a_price_is_of_a_provider_or_of_a_host():
    provider = create_provider(name="p", url="https://api.example.org", format_name="openai")
    with pytest.raises(ValidationError, match="not for both"):
        new(provider=provider, host="x.org")


def test_a_providers_prices_go_with_it():
    provider = create_provider(name="p", url="https://api.example.org", format_name="openai")
    new(provider=provider)
    provider.delete()
    assert not ModelPrice.objects.exists()
