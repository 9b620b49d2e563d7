"""Amounts of money name their currency, and are exact where the pointer rests on them."""

from decimal import Decimal

import pytest

from gateway_project.console.explain import tables
from licensing.services import set_limit
from providers.services import set_price
from telemetry.journal.batches import insert_log_entries
from tests.telemetry.usage.test_rollups import done

pytestmark = pytest.mark.django_db


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
    facts = dict(tables._facts(document, has_ended=False))
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
            ((), "0 is unlimited, whatever the default setting says."),
            (("USD",), "A cost is in USD. 0 is unlimited, whatever the default setting says."),
            (("EUR", "USD"), "0 is unlimited, whatever the default setting says."),
        ],
    )
    def test_a_new_one(self, console, currencies, text):
        set_prices(*currencies)
        assert self.help_text(console, self.NEW) == text

    @pytest.mark.parametrize(
        ("measure", "text"),
        [
            ("cost", "In EUR. 0 is unlimited, whatever the default setting says."),
            ("tokens", "0 is unlimited, whatever the default setting says."),
        ],
    )
    def test_one_that_exists(self, console, ann, measure, text):
        set_prices("EUR")
        limit = set_limit(measure=measure, window="day", amount=Decimal(5), user=ann)
        assert self.help_text(console, f"/admin/licensing/limit/{limit.pk}/change/") == text

    def help_text(self, console, address: str) -> str:
        return console.get(address).context["adminform"].form.fields["amount"].help_text
