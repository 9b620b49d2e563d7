"""Providers, models and prices in the console: what the API refuses is refused there too, beside the field."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from providers.health.status import Health
from providers.models import (
    LONGEST_CREDENTIAL,
    LONGEST_TIMEOUT,
    MAX_INTEGER,
    MOST_MODELS,
    Model,
    ModelPrice,
    Provider,
)
from providers.services import create_provider, end_price, set_price
from tests.console.forms import fields_of

pytestmark = pytest.mark.django_db
PROVIDERS, MODELS, PRICES = (f"/admin/providers/{table}/" for table in ("provider", "model", "modelprice"))


@pytest.fixture
def provider() -> Provider:
    return create_provider(name="p", format_name="openai", url="https://llm.example.org/v1", auth_method="none")


@pytest.fixture
def price() -> ModelPrice:
    return set_price(model="gpt-5", currency="USD", input=1, output=2, valid_from=timezone.now())


def sent(console, path: str, **fields):
    """The answer to the form at this path, with these fields changed."""
    return console.post(path, fields_of(console.get(path).text) | fields)


def refused(console, path: str, **fields) -> dict[str, list[str]]:
    return sent(console, path, **fields).context["adminform"].form.errors


def test_each_of_several_problems_stands_beside_its_field(console):
    errors = refused(console, f"{PRICES}add/", model="m", currency="dol", input="1", output="-1")
    assert {name: len(told) for name, told in errors.items()} == {"currency": 1, "output": 1}
    assert "output" not in errors["currency"][0]


def test_a_new_provider_has_no_credential_to_keep(console, provider):
    kept = "Leave empty to keep it"
    assert kept not in console.get(f"{PROVIDERS}add/").text
    assert kept in console.get(f"{PROVIDERS}{provider.pk}/change/").text


def test_a_price_is_for_the_model_by_the_name_at_its_provider(console):
    assert "The provider's name for it" in console.get(f"{PRICES}add/").text


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((f"{what}_timeout_seconds", LONGEST_TIMEOUT + 1) for what in ("connect", "first_byte", "idle", "total")),
        ("max_response_bytes", 0),
        ("priority", MAX_INTEGER + 1),
        ("weight", 0),
        ("weight", MAX_INTEGER + 1),
        ("cache_ttl_seconds", MAX_INTEGER + 1),
        ("secret", "x" * (LONGEST_CREDENTIAL + 1)),
    ],
)
def test_a_provider_has_the_bounds_of_the_api(console, provider, field, value):
    path = f"{PROVIDERS}{provider.pk}/change/"
    assert list(refused(console, path, auth_method="bearer", **{field: value})) == [field]
    before = Provider.objects.values().get()
    assert before["auth_method"] == "none"
    assert before["updated_at"] == provider.updated_at


def test_the_bounds_themselves_are_taken(console, provider):
    fields = {"connect_timeout_seconds": LONGEST_TIMEOUT, "max_response_bytes": 1, "priority": MAX_INTEGER}
    path = f"{PROVIDERS}{provider.pk}/change/"
    assert sent(console, path, auth_method="bearer", secret="x" * LONGEST_CREDENTIAL, **fields).status_code == 302
    assert Provider.objects.filter(**fields).exists()


def test_a_new_provider_has_so_many_models_and_no_more(console, provider):
    fields = {"name": "q", "url": provider.url, "format": provider.format_id, "auth_method": "none"}
    names = [f"m{number}" for number in range(MOST_MODELS + 1)]
    errors = refused(console, f"{PROVIDERS}add/", new_models="\n".join(names), **fields)
    assert errors == {"new_models": [f"Must be at most {MOST_MODELS}."]}
    assert Provider.objects.count() == 1


def test_a_models_longest_answer_has_the_bounds_of_the_api(console, provider):
    fields = {"provider": provider.pk, "name": "m", "max_output_tokens": MAX_INTEGER + 1}
    assert list(refused(console, f"{MODELS}add/", **fields)) == ["max_output_tokens"]
    assert not Model.objects.exists()


NEW_PRICE = {"model": "gpt-5", "currency": "USD", "input": "1", "output": "2"}
PAST, AHEAD = ({"valid_from_0": day, "valid_from_1": "00:00:00"} for day in ("2020-01-01", "2100-01-01"))


def test_a_price_does_not_begin_in_the_past(console, price):
    for path, fields in ((f"{PRICES}add/", NEW_PRICE | {"model": "other"}), (f"{PRICES}{price.pk}/change/", {})):
        errors = refused(console, path, **fields, **PAST)
        assert errors == {"valid_from": ["Must not lie in the past: the cost of past requests does not change."]}
    assert ModelPrice.objects.count() == 1


def test_a_new_price_begins_now_unless_told(console):
    begun = timezone.now()
    assert sent(console, f"{PRICES}add/", **NEW_PRICE).status_code == 302
    assert begun <= ModelPrice.objects.get().valid_from <= timezone.now()
    assert sent(console, f"{PRICES}add/", **NEW_PRICE | {"model": "later"}, **AHEAD).status_code == 302
    assert ModelPrice.objects.get(model="later").valid_from.year == 2100


def test_a_changed_price_begins_now_however_old_the_one_before_is(console, price):
    ModelPrice.objects.update(valid_from=timezone.now() - timedelta(days=90))
    assert sent(console, f"{PRICES}{price.pk}/change/", input="3").status_code == 302
    assert timezone.now() - ModelPrice.objects.open().get().valid_from < timedelta(minutes=1)


def test_amounts_stand_there_without_zeros_that_say_nothing(console, price):
    set_price(model="cheap", currency="USD", input="0.00001", output=100)
    for row, shown in ((price, ["1", "2", "0"]), (ModelPrice.objects.get(model="cheap"), ["0.00001", "100", "0"])):
        fields = fields_of(console.get(f"{PRICES}{row.pk}/change/").text)
        assert [fields[name][0] for name in ("input", "output", "request")] == shown
    before = list(ModelPrice.objects.values())
    assert sent(console, f"{PRICES}{price.pk}/change/").status_code == 302
    assert list(ModelPrice.objects.values()) == before


def test_so_they_do_on_the_page_of_one_that_has_ended(console, price):
    end_price(price)
    page = console.get(f"{PRICES}{price.pk}/change/").text
    assert 'name="_save"' not in page
    assert not re.search(r"0\.0|E-|\.0", page.partition("<fieldset")[2].partition("</fieldset")[0])


@pytest.mark.parametrize(
    ("enabled", "processes", "told"), [(True, 0, "new"), (True, 2, "asked"), (False, 0, "off"), (False, 2, "off")]
)
def test_a_provider_is_told_as_it_is_set_before_all_processes_know(enabled, processes, told):
    assert Health(enabled, processes, resting=0, failures={}, usage=None).state == told
