"""The lists of models and of prices in the console: price, context, traffic, and whose prices are shown."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from providers.models import ModelPrice, Provider
from providers.pricing.offered import ids_of_offered
from providers.services import add_model, create_provider, set_price, update_provider
from telemetry.models import UsageHour
from telemetry.usage.model_traffic import requests_of_models

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
MODELS, PRICES = (f"/admin/providers/{table}/" for table in ("model", "modelprice"))


@pytest.fixture
def provider() -> Provider:
    options = {"format_name": "openai", "auth_method": "none"}
    return create_provider(name="p", url="https://llm.example.org/v1", models=["small", "large"], **options)


def use(provider: Provider, model: str, *, days_ago: int = 0, requests: int = 1) -> None:
    hour = timezone.now() - timedelta(days=days_ago)
    UsageHour.objects.create(hour=hour, provider_id=provider.pk, model=model, requests=requests)


def cell(page: str, column: str, row: int = 0) -> str:
    """What a column of the list says in a row, without markup."""
    cells = re.findall(rf'<td class="[^"]*field-{column}[ "].*?</td>', page, re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", "", cells[row]).split())


def test_requests_of_a_model_are_those_of_its_provider_in_thirty_days(provider):
    other = create_provider(name="q", url=provider.url, format_name="openai", models=["small"])
    use(provider, "small", requests=2)
    use(provider, "p/small", days_ago=28)
    use(provider, "small", days_ago=31, requests=50)
    use(other, "small", requests=7)
    names = [(provider.pk, "small"), (provider.pk, "large"), (other.pk, "small")]
    assert requests_of_models(names) == {(provider.pk, "small"): 3, (other.pk, "small"): 7}
    assert requests_of_models([]) == {}


def test_a_model_of_the_list_has_price_context_traffic_and_a_link_to_try_it(console, provider):
    set_price(model="small", currency="EUR", input="0.15", output="0.6", request="0.01")
    add_model(provider=provider, name="wide", context_length=128_000)
    use(provider, "small", requests=1234)
    page = console.get(f"{MODELS}?o=1").text
    assert [cell(page, "price", row) for row in range(3)] == [
        "set a price",
        "€0.15 input, €0.6 output, €0.01 a request",
        "set a price",
    ]
    assert [cell(page, "traffic", row) for row in range(3)] == ["0", "1,234", "0"]
    assert cell(page, "context", 2) == "128,000"
    assert "/admin/playground/?model=small" in page
    assert f"/admin/providers/modelprice/add/?model=large&amp;provider={provider.pk}" in page


def test_a_model_has_the_price_of_its_name_at_the_provider(console, provider):
    set_price(model="gpt-x*", currency="USD", input=1, output=2)
    add_model(provider=provider, name="fast", upstream_name="GPT-X-mini")
    assert cell(console.get(f"{MODELS}?q=fast").text, "price") == "$1 input, $2 output"


def test_the_playground_does_not_offer_models_of_a_disabled_provider(console, provider):
    update_provider(provider, enabled=False)
    assert cell(console.get(MODELS).text, "try_it") == ""


def test_the_list_asks_once_for_all_models(console, provider):
    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            console.get(MODELS)
        return len(queries)

    count()
    before = count()
    for number in range(10):
        add_model(provider=provider, name=f"m{number}")
    assert count() == before


def shown_prices(console, query: str = "") -> set[str]:
    return {price.model for price in console.get(f"{PRICES}{query}").context["cl"].result_list}


def test_prices_are_those_of_my_models_unless_all_are_chosen(console, provider):
    ModelPrice.objects.all().delete()
    for name in ("small", "lar*", "other", "oth*"):
        set_price(model=name, currency="USD", input=1, output=2)
    set_price(model="large", host="elsewhere.example.org", currency="USD", input=1, output=2)
    assert shown_prices(console) == {"small", "lar*"}
    assert shown_prices(console, "?of=all") == {"small", "lar*", "other", "oth*", "large"}
    assert "My models" in console.get(PRICES).text


def test_public_prices_are_of_the_name_at_the_provider(provider):
    ModelPrice.objects.all().delete()
    add_model(provider=provider, name="ours", upstream_name="theirs")
    for name in ("ours", "theirs"):
        set_price(model=name, currency="USD", input=1, output=2, source="bundled")
    assert [ModelPrice.objects.get(pk=pk).model for pk in ids_of_offered()] == ["theirs"]


def test_prices_have_unit_and_currency(console, provider):
    set_price(model="small", currency="CHF", input="0.15", output=3)
    page = console.get(PRICES).text
    assert "Input, 1M tokens" in page
    assert "0.15 CHF" in page
    assert "3 CHF" in page


class TestAddressesOfModels:
    """Two providers, p and q, offer the model small."""

    @pytest.fixture
    def other(self, provider) -> Provider:
        return create_provider(name="q", url=provider.url, format_name="openai", models=["small", "team/large"])

    def filled_in(self, console, **names) -> tuple:
        form = console.get(f"{PRICES}add/", names).context["adminform"].form
        return form["model"].value(), form["provider"].value()

    def test_a_price_is_for_the_provider_that_the_name_begins_with(self, console, provider, other):
        assert self.filled_in(console, model="q/small") == ("small", str(other.pk))
        assert self.filled_in(console, model="small", provider=other.pk) == ("small", str(other.pk))
        assert self.filled_in(console, model="team/large") == ("team/large", str(other.pk))
        assert self.filled_in(console, model="large") == ("large", str(provider.pk))

    def test_of_several_providers_none_is_filled_in(self, console, provider, other):
        assert self.filled_in(console, model="small") == ("small", None)
        assert self.filled_in(console, model="gone/small") == ("small", None)
        assert self.filled_in(console, model="unknown") == (None, None)

    def test_a_name_of_its_own_comes_before_a_provider(self, console, provider, other):
        add_model(provider=other, name="p/small")
        assert self.filled_in(console, model="p/small") == ("p/small", str(other.pk))

    def test_the_page_of_a_name_is_that_of_its_provider(self, console, provider, other):
        for name, row in (("q/small", other.models.get(name="small")), ("p/small", provider.models.get(name="small"))):
            location = console.get(f"{MODELS}named/", {"model": name}).headers["Location"]
            assert location == f"{MODELS}{row.pk}/change/"
