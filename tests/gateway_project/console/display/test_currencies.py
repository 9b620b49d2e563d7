"""Amounts of money name their currency, and are exact where the pointer rests on them."""

from decimal import Decimal

import pytest
from django.core.cache import caches

from accounts.access_requests.models import AccessRequest
from gateway_project.console.explain import tables
from gateway_project.console.period import ANY_TIME
from gateway_project.me.groups.forms import AmountForm
from licensing.services import set_limit
from providers.services import create_provider, set_price
from telemetry.journal.batches import insert_log_entries
from tests.support.usage_entries import done
from tests.support.user_pages import ask, log_in

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]


@pytest.fixture(autouse=True)
def forget_currency():
    """Each test has prices of its own; a process keeps their currency for a while."""
    caches["process"].clear()


def set_prices(*currencies: str) -> None:
    for currency in currencies:
        set_price(model=f"m-{currency}", currency=currency, input=Decimal(1), output=Decimal(1))


@pytest.mark.parametrize(
    ("cost", "currency", "text", "exact"),
    [
        (None, "", "unknown", ""),
        ("0.0123456", "USD", "$0.012", "0.0123456 USD"),
        ("2.5", "EUR", "€2.50", "€2.50"),
    ],
)
def test_the_estimate_of_an_explanation(cost, currency, text, exact):
    document = {
        "caller": {"userName": "", "userId": None, "keyName": "", "keyId": None, "groups": [], "mayWork": None},
        "cache": {"verdict": "off", "key": None, "ageSeconds": None},
        "estimate": {"inputTokens": 1, "outputTokens": 2, "cost": cost, "currency": currency},
    }
    pages = tables.Pages({}, ANY_TIME)
    facts = dict(tables._facts(document, pages, has_ended=False))
    (cell,) = facts["Cost (at most)"]
    assert (str(cell.text), getattr(cell.text, "exact", "")) == (text, exact)


def test_the_playground_gets_a_short_cost_and_the_exact_one(console):
    insert_log_entries([done("one", cost="0.0123456", currency="USD", cost_status="known")])
    insert_log_entries([done("two", cost_status="unknown", input_tokens=1)])
    answers = [console.get(f"/admin/playground/entry/?request={name}").json() for name in ("one", "two", "three")]
    assert [(answer.get("cost"), answer.get("exactCost")) for answer in answers] == [
        ("$0.012", "0.0123456 USD"), ("no price", ""), (None, None),
    ]  # fmt: skip


class TestTheFormOfALimit:
    NEW = "/admin/licensing/limit/add/"

    @pytest.mark.parametrize(
        ("currencies", "text"),
        [
            ((), "0: unlimited, even if the default setting has a limit."),
            (("USD",), "A cost is in USD. 0: unlimited, even if the default setting has a limit."),
            (
                ("EUR", "USD"),
                "Prices are in EUR and USD: costs are added up without conversion. "
                "0: unlimited, even if the default setting has a limit.",
            ),
        ],
    )
    def test_a_new_one(self, console, currencies, text):
        set_prices(*currencies)
        assert self.help_text(console, self.NEW) == text

    def test_one_that_exists_where_prices_have_several(self, console, ann):
        set_prices("CHF", "EUR", "USD")
        limit = set_limit(measure="cost", window="day", amount=Decimal(5), user=ann)
        text = self.help_text(console, f"/admin/licensing/limit/{limit.pk}/change/")
        assert text.startswith("Prices are in CHF, EUR and USD: costs are added up without conversion. 0: unlimited")

    @pytest.mark.long
    @pytest.mark.parametrize(
        ("measure", "text"),
        [
            ("cost", "In EUR. 0: unlimited, even if the default setting has a limit."),
            ("tokens", "0: unlimited, even if the default setting has a limit."),
        ],
    )
    def test_one_that_exists(self, console, ann, measure, text):
        set_prices("EUR")
        limit = set_limit(measure=measure, window="day", amount=Decimal(5), user=ann)
        assert self.help_text(console, f"/admin/licensing/limit/{limit.pk}/change/") == text

    def help_text(self, console, address: str) -> str:
        return console.get(address).context["adminform"].form.fields["amount"].help_text


@pytest.mark.parametrize(
    ("currencies", "text"), [(["EUR", "USD"], "0.00 EUR+USD of 5.00 EUR+USD"), (["CHF"], "0.00 CHF of 5.00 CHF")]
)
def test_the_bar_of_a_limit_has_the_currencies_that_it_adds_up(console, ann, currencies, text):
    set_prices(*currencies)
    set_limit(measure="cost", window="day", amount=Decimal(5), user=ann)
    for page in (console.get("/admin/licensing/limit/"), log_in(ann).get("/me/")):
        assert text in page.text


@pytest.mark.long
@pytest.mark.parametrize(
    ("currencies", "measure", "text"),
    [
        (["USD"], "cost", "limit of $500 per month"),
        (["CHF"], "cost", "limit of 500 CHF per month"),
        (["EUR", "USD"], "cost", "limit of 500 EUR+USD per month"),
        (["USD"], "tokens", "limit of 500 tokens per month"),
        (["USD"], "concurrent", "limit of 500 concurrent requests"),
    ],
)
def test_an_access_request_names_the_currency_of_a_limit(console, ann, currencies, measure, text):
    set_prices(*currencies)
    browser = log_in(ann)
    ask(browser, "limit", measure=measure, window="month", amount="500")
    assert AccessRequest.objects.shown().get().subject == text
    for page in (browser.get("/me/access/"), console.get("/admin/access-requests/")):
        assert text in page.text
    assert text in console.get("/admin/accounts/accessrequest/").text


def test_the_limits_of_an_explanation():
    set_prices("USD")
    row = {"limit": "daily cost limit of user bob", "name": "cost:user:1:day", "resets": None}
    row |= {"amount": "12.5", "used": "0.0123456", "reserved": "0", "remaining": "12.4876544"}
    amounts = [cell.text for cell in tables._limit(row)[1:5]]
    assert (amounts, amounts[1].exact) == (["$12.50", "$0.012", "$0.00", "$12.49"], "0.0123456 USD")


def test_forms_say_in_which_currency_a_cost_is(console, ann):
    set_prices("EUR")
    assert "A cost is in EUR." in log_in(ann).get("/me/access/new/limit/").text
    form = console.get("/admin/keys/apikey/add/").context["adminform"].form
    assert form.fields["limit_amount"].help_text.startswith("A cost is in EUR. 0: unlimited")


def test_forms_say_that_nothing_is_converted_where_prices_have_several(console, ann):
    set_prices("EUR", "USD")
    for address, browser in (("/me/access/new/limit/", log_in(ann)), ("/admin/keys/apikey/add/", console)):
        assert "Prices are in EUR and USD: costs are added up without conversion." in browser.get(address).text


@pytest.mark.parametrize(
    ("measure", "text"), [("cost", "Prices are in EUR and USD: costs are added up without conversion."), ("tokens", "")]
)
def test_so_does_the_form_of_a_groups_limit(ann, measure, text):
    set_prices("EUR", "USD")
    form = AmountForm(None)
    form.name_currency(set_limit(measure=measure, window="day", amount=Decimal(5), user=ann))
    assert form.fields["amount"].help_text == text


def test_forms_say_nothing_where_the_prices_do_not(console, ann):
    assert "A cost is in" not in log_in(ann).get("/me/access/new/limit/").text
    assert "A cost is in" not in console.get("/admin/keys/apikey/add/").text


@pytest.mark.parametrize(
    ("candidates", "page"),
    [
        ([{"model": "m", "provider": "east"}], "/admin/providers/modelprice/add/?model=m&provider={}"),
        ([{"model": "m", "provider": "gone"}], "/admin/providers/modelprice/add/?model=m"),
        ([], ""),
    ],
)
def test_an_explanation_without_a_cost_leads_to_the_price_of_the_first_target(candidates, page):
    provider = create_provider(name="east", url="https://api.example.org", models=["m"], format_name="openai")
    assert tables._price_page(candidates, {"east": provider.pk}) == page.format(provider.pk)
