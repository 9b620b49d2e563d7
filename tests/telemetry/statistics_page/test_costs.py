"""Costs on the page of statistics: currencies, and requests without a price."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest

from providers.services import create_provider
from telemetry.statistics_page.totals import Total
from tests.support.statistics_page import PAGE, WEEK, charts, table, use

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]  # tests/telemetry/usage tries the sums with both


def spend(amount, currency, **fields):
    use(cost=amount, currency=currency, cost_status="known", **fields)


class TestCurrencies:
    def test_costs_of_two_dimensions_have_a_chart_for_each_currency(self, console):
        spend("2", "USD", model="m"), spend("3", "EUR", model="m"), spend("5", "USD", model="n", day=1)
        response = console.get(f"{PAGE}?{WEEK}&by=day&then=model&chart=cost")
        assert charts(response) == {
            "Cost (EUR)": {"m": [3, 0, 0, 0, 0, 0, 0]},
            "Cost (USD)": {"n": [0, 5, 0, 0, 0, 0, 0], "m": [2, 0, 0, 0, 0, 0, 0]},
        }
        units = [json.loads(chart.data)["datasets"][0]["suffixYAxis"] for chart in response.context["charts"]]
        assert units == ["EUR", "USD"]

    def test_one_currency_has_one_chart(self, console):
        spend("2", "USD", model="m"), spend("3", "USD", model="n")
        assert list(charts(console.get(f"{PAGE}?{WEEK}&by=day&then=model&chart=cost"))) == ["Cost"]

    @pytest.mark.long
    def test_totals_have_an_amount_for_each_currency(self, console):
        spend("2", "USD"), spend("3", "EUR"), spend("4", "EUR", day=2)
        totals = console.get(f"{PAGE}?{WEEK}").context["totals"]
        assert [total.text for total in totals if total.title == "Cost"] == ["€7.00", "$2.00"]

    @pytest.mark.parametrize("by", ["user", "model&then=provider", "group", "tag&then=user", "hour", "day&then=group"])
    def test_totals_are_the_same_whatever_the_rows_are(self, console, by):
        spend("2", "USD", model="m", user_id=1, group_ids=[1, 2], tags={"a": "1", "b": "2"}, input_tokens=5)
        spend("3", "EUR", model="n", user_id=2, day=2), use(3, outcome="failed", user_id=1, group_ids=[2])
        totals = {
            query: [(total.title, total.text) for total in console.get(f"{PAGE}?{WEEK}&by={query}").context["totals"]]
            for query in (by, "day")
        }
        assert totals[by] == totals["day"]
        assert ("Requests", "3") in totals[by]


class TestRequestsWithoutAPrice:
    @pytest.fixture
    def provider_ids(self) -> list[int]:
        """Two providers: the first served `many` three times, the second `few` once; nobody knows a price."""
        ids = [
            create_provider(name=name, url=f"https://{name}.example.org", models=[model], format_name="openai").pk
            for name, model in (("west", "many"), ("east", "few"))
        ]
        for place, model in ((0, "many"), (0, "many"), (0, "many"), (1, "few")):
            use(
                model=model,
                provider_id=ids[place],
                cost_status="unknown",
                input_tokens=7,
                user_id=place + 1,
                tags={"t": "x"},
            )
        return ids

    def total(self, console, query: str) -> Total:
        return console.get(f"{PAGE}?{WEEK}&{query}").context["missing"][0]

    def test_all_usage_names_the_model_with_the_most(self, console, provider_ids):
        total = self.total(console, "chart=cost")
        assert (total.text, total.change) == ("+ 4 requests without a price", "Set a price for many")

    @pytest.mark.parametrize("query", ["model=few", "provider={}"])
    def test_a_filter_by_model_or_provider_names_a_model_that_it_selects(self, console, provider_ids, query):
        total = self.total(console, f"chart=cost&{query.format(provider_ids[1])}")
        assert (total.text, total.change) == ("+ 1 request without a price", "Set a price for few")
        assert parse_qs(urlsplit(total.address).query) == {"model": ["few"], "provider": [str(provider_ids[1])]}

    @pytest.mark.parametrize("query", ["user=2", "tag=t%3Dx", "user=2&model=few"])
    def test_another_filter_leads_to_its_models(self, console, provider_ids, query):
        total = self.total(console, f"chart=cost&by=day&then=user&{query}")
        assert total.change == "Show the models"
        address = parse_qs(urlsplit(total.address).query)
        assert address == parse_qs(f"{WEEK}&{query}") | {
            "by": ["model"],
            "sort": ["-unpriced_requests"],
            "chart": ["cost"],
        }
        rows = table(console.get(PAGE + total.address))
        assert rows[0][0] == ("few" if "user" in query else "many")

    def test_requests_that_ended_without_an_answer_are_of_unknown_cost(self, console, provider_ids):
        use(model="few", provider_id=provider_ids[1], cost_status="unknown", outcome="timeout", user_id=3)
        response = console.get(f"{PAGE}?{WEEK}&by=user&user=3&chart=cost")
        [total] = response.context["missing"]
        assert (total.text, total.address) == ("+ 1 request of unknown cost", "")
        assert response.text.count("+ 1 request of unknown cost") == 3  # the total, the chart and the row
        [[_, cells]] = response.context["rows"]
        lines = next(cell.lines for cell in cells if cell.title == "Cost")
        assert lines == [("+ 1 request of unknown cost", "")]
        assert "modelprice" not in response.text.partition("<main")[2]
        both = console.get(f"{PAGE}?{WEEK}&by=day&chart=cost").context["missing"]
        assert [total.text for total in both] == ["+ 4 requests without a price", "+ 1 request of unknown cost"]

    def test_a_row_leads_to_its_models(self, console, provider_ids):
        [[_, cells]] = console.get(f"{PAGE}?{WEEK}&by=user&user=2").context["rows"]
        [line] = next(cell.lines for cell in cells if cell.title == "Cost")
        assert table(console.get(PAGE + line.address)) == [["few", "1"]]
