"""Prices as a resource: an admin's affair, in which nothing that was is ever changed."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from providers.models import ModelPrice
from providers.services import create_provider, set_price
from telemetry.models import LogEntry
from tests.support.management import refused

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.either_store]


@pytest.fixture
def provider():
    return create_provider(name="p", url="https://api.example.org", format_name="openai")


def new(admin, **attributes):
    given = {"model": "Large-1", "currency": "USD", "input": "2.5", "output": 10, **attributes}
    return admin.post("/prices/", **given)


def test_a_price_is_made_and_listed(admin, provider):
    response = new(admin, providerId=provider.pk, cacheRead=0.25, reasoning="12.000001")
    assert response.status_code == 201, response.text
    price_id = int(response.headers["PriceId"])
    (row,) = admin.rows("/prices/")
    moment = row.pop("validFrom")
    assert moment.endswith("Z")
    assert row == {
        "id": price_id, "providerId": provider.pk, "providerName": "p", "host": "", "model": "large-1",
        "aboveInputTokens": 0, "currency": "USD", "input": "2.5", "output": "10", "cacheRead": "0.25",
        "cacheWrite": None, "cacheWriteHour": None, "reasoning": "12.000001", "request": "0", "validUntil": None,
        "current": True, "source": "edited",
    }  # fmt: skip


def test_a_change_makes_a_new_row_and_leaves_the_old_one(admin):
    first = int(new(admin, host="api.example.org").headers["PriceId"])
    response = admin.patch(f"/prices/{first}/", input="3", cacheRead=None)
    assert (response.status_code, response.json()) == (200, {})
    old, changed = admin.rows("/prices/")
    assert (old["id"], old["input"], old["current"]) == (first, "2.5", False)
    assert (changed["input"], changed["output"], changed["current"]) == ("3", "10", True)
    assert old["validUntil"] == changed["validFrom"]
    assert response.headers["PriceId"] == str(changed["id"])
    assert response.headers["Content-Location"].endswith(f"/prices/{changed['id']}/")
    assert admin.get(f"/prices/{first}/").headers.keys().isdisjoint({"PriceId", "Content-Location"})
    refused(admin.patch(f"/prices/{first}/", input="4"), 409, "Conflict", "has an end")
    entry = LogEntry.objects.filter(entry_type="Message", message__contains="changed prices").get()
    assert f"prices {changed['id']}" in entry.message
    assert '"input":"2.5"' in entry.payload
    assert '"input":"3"' in entry.payload


@pytest.mark.parametrize("attributes", [{}, {"input": 2.50, "currency": "USD", "cacheRead": None}])
def test_a_change_that_changes_nothing_makes_no_row(admin, attributes):
    price_id = int(new(admin).headers["PriceId"])
    before = admin.rows("/prices/")
    assert admin.patch(f"/prices/{price_id}/", **attributes).status_code == 200
    assert admin.rows("/prices/") == before


def test_a_change_can_be_told_ahead(admin):
    price_id = int(new(admin).headers["PriceId"])
    later = timezone.now() + timedelta(days=3)
    admin.patch(f"/prices/{price_id}/", input="3", validFrom=later.isoformat())
    assert [row["input"] for row in admin.rows("/prices/?current=true")] == ["2.5"]
    assert [row["input"] for row in admin.rows("/prices/?current=false")] == ["3"]


def test_a_deleted_price_ends_and_stays_in_the_list(admin):
    price_id = int(new(admin).headers["PriceId"])
    assert admin.delete(f"/prices/{price_id}/").status_code == 200
    (row,) = admin.rows("/prices/")
    assert row["current"] is False
    refused(admin.delete(f"/prices/{price_id}/"), 409, "Conflict")
    assert new(admin).status_code == 201


@pytest.mark.parametrize(
    ("attributes", "word"),
    [
        ({"input": "-1"}, "input"),
        ({"input": "NaN"}, "input"),
        ({"input": True}, "input"),
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": "1e9"}, "input"),
        ({"input": "0.0000001"}, "6 digits before the point and 6 behind it"),
        ({"input": "999999999999.999999999999"}, "6 digits before the point and 6 behind it"),
        ({"output": 10**6}, "output: Must be an amount"),
        ({"request": "1.0000000000001"}, "5 digits before the point and 12 behind it"),
        ({"request": "999999.999999999999"}, "5 digits before the point and 12 behind it"),
        ({"currency": "euro"}, "currency"),
        ({"currency": "€€€"}, "currency"),
        ({"model": ""}, "model"),
        ({"model": "a b"}, "model"),
        ({"providerId": 999_999}, "providerId"),
        ({"aboveInputTokens": -1}, "aboveInputTokens"),
        ({"validFrom": "2020-01-01T00:00:00Z"}, "validFrom"),
        ({"source": "bundled"}, "source"),
        ({"validUntil": "2030-01-01T00:00:00Z"}, "validUntil"),
    ],
)
def test_what_is_no_price_is_refused(admin, attributes, word):
    refused(new(admin, **attributes), 400, "ValidationError", word)
    assert not ModelPrice.objects.exists()


def test_the_greatest_amounts_that_are_promised_are_taken(admin):
    greatest = {"input": "999999.999999", "output": 1e-6, "request": "99999.999999999999"}
    assert new(admin, **greatest).status_code == 201


def test_one_thing_has_one_price(admin, provider):
    new(admin, providerId=provider.pk)
    refused(new(admin, providerId=provider.pk, model="large-1"), 409, "Conflict", "Change that price")
    refused(new(admin, providerId=provider.pk, host="x.org"), 400, "ValidationError", "not for both")


def test_what_a_price_is_of_does_not_change(admin):
    price_id = int(new(admin).headers["PriceId"])
    refused(admin.patch(f"/prices/{price_id}/", model="other"), 400, "ValidationError", "model")


def test_the_list_is_filtered(admin, provider):
    amounts = {"currency": "USD", "input": Decimal(1), "output": Decimal(1)}
    set_price(model="a", provider=provider, **amounts)
    set_price(model="ab", host="x.org", source="bundled", **amounts)
    set_price(model="c", **amounts)
    found = {
        query: [row["model"] for row in admin.rows(f"/prices/?{query}")]
        for query in (
            f"providerId={provider.pk}", "providerId=0", "host=X.org", "model=A", "modelContains=a", "source=bundled",
            "page[size]=1&page[number]=3",
        )
    }  # fmt: skip
    assert list(found.values()) == [["a"], ["ab", "c"], ["ab"], ["a"], ["a", "ab"], ["ab"], ["c"]]
    refused(admin.get("/prices/?colour=red"), 400, "ValidationError", "colour")
