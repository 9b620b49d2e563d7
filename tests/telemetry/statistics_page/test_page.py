"""The statistics page: its filters, days without usage, and costs in several currencies."""

import csv
import io
import json
import re
from datetime import UTC, datetime, timedelta
from html import escape
from urllib.parse import parse_qs, urlsplit

import pytest
from django.core.cache import caches
from django.urls import reverse

from accounts.models import Group
from keys.models import ApiKey
from keys.services import delete_keys, issue_key
from providers.services import create_provider
from telemetry.audit.models import AuditEntry
from telemetry.journal.batches import insert_log_entries
from telemetry.statistics_page import figures
from telemetry.statistics_page.form import CHARTS
from telemetry.statistics_page.totals import Total
from telemetry.usage.models import LATENCY_MS
from telemetry.usage.statistics import Page, UsageQuery
from tests.support.management import new_user
from tests.telemetry.usage.test_rollups import done

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]  # tests/telemetry/usage tries the sums with both
PAGE = "/admin/statistics/"
MONDAY = datetime(2026, 1, 5, 8, tzinfo=UTC)
WEEK = "start=2026-01-05&end=2026-01-11"
DAYS = [f"2026-01-{day:02}" for day in range(5, 12)]


def use(day=0, model="m", **fields):
    insert_log_entries([done("r", MONDAY + timedelta(days=day), model=model, served_model=model, **fields)])


def spend(amount, currency, **fields):
    use(cost=amount, currency=currency, cost_status="known", **fields)


def table(response) -> list[list[str]]:
    """The names of each row of the table, and its number of requests."""
    rows = response.context["rows"]
    return [[*(name.title for name in names), cells[0].lines[0].text] for names, cells in rows]


def charts(response) -> dict[str, dict[str, list[float]]]:
    """The values of each set of each chart, by their names."""
    result = {}
    for chart in response.context["charts"]:
        data = json.loads(chart.data)
        result[chart.title] = {one["label"]: one["data"] for one in data["datasets"]}
    return result


def labels(response) -> list[str]:
    return json.loads(response.context["charts"][0].data)["labels"]


class TestAddingAFilter:
    @pytest.fixture
    def rows(self) -> dict[str, tuple[str, int]]:
        """What a filter can name, with its id."""
        user = new_user(username="Alice")
        key = issue_key(owner=user, name="nightly").key
        group = Group.objects.create(name="research")
        provider = create_provider(name="west", url="https://api.example.org", models=["m"], format_name="openai")
        return {
            "user": ("alice", user.pk), "key": ("nightly", key.pk), "group": ("research", group.pk),
            "provider": ("west", provider.pk),
        }  # fmt: skip

    @pytest.mark.parametrize("name", ["user", "key", "group", "provider"])
    def test_a_name_becomes_the_id_in_the_address(self, console, rows, name):
        text, row_id = rows[name]
        response = console.get(PAGE, {"by": "model", "add": name, "value": text, "model": "m"})
        address = urlsplit(response.headers["Location"])
        assert response.status_code == 302
        assert address.path == PAGE
        assert parse_qs(address.query) == {"by": ["model"], "model": ["m"], name: [str(row_id)]}
        [chip] = [link for link in console.get(response.url).context["filters"] if name.capitalize() in link.title]
        assert chip.title.lower() == f"{name}: {text}"
        assert f"{name}=" not in chip.address
        assert "model=m" in chip.address

    @pytest.mark.parametrize(("name", "text"), [("model", "a/b c"), ("alias", "fast"), ("tag", "team=blue=1")])
    def test_a_text_is_taken_as_it_is(self, console, name, text):
        response = console.get(PAGE, {"add": name, "value": text})
        assert parse_qs(urlsplit(response.url).query)[name] == [text]

    @pytest.mark.long
    def test_a_key_is_named_by_its_public_id_too_and_a_whole_key_reaches_no_further_page(self, console, rows):
        issued = issue_key(owner=new_user(), name="nightly")
        assert "Several keys have this name." in console.get(PAGE, {"add": "key", "value": "nightly"}).text
        response = console.get(PAGE, {"add": "key", "value": issued.key.public_id})
        assert response.url == f"{PAGE}?by=day&key={issued.key.pk}"
        for name in ("key", "user", "model", "alias", "tag"):
            parameters = {"add": name, "value": issued.text, "model": issued.text, "export": "csv"}
            response = console.get(PAGE, parameters, follow=True)
            assert issued.text not in f"{response.redirect_chain} {getattr(response, 'text', '')}"
        audited = str(list(AuditEntry.objects.values_list("message", "after")))
        assert "exported" in audited
        assert issued.text not in audited

    def test_usage_of_what_is_gone_is_asked_for_by_its_id(self, console, rows):
        _, key_id = rows["key"]
        delete_keys(ApiKey.objects.filter(pk=key_id))
        assert "No key has this name or id." in console.get(PAGE, {"add": "key", "value": "nightly"}).text
        response = console.get(PAGE, {"add": "key", "value": str(key_id)})
        assert response.url == f"{PAGE}?by=day&key={key_id}"

    @pytest.mark.parametrize(
        ("name", "text", "problem"),
        [
            ("user", "nobody", "No user has this name or id."),
            ("group", "0", "No group has this name or id."),
            ("provider", str(2**63), "No provider has this name or id."),
            ("tag", "team", "Write a tag as name=value."),
            ("", "alice", "Choose a filter."),
            ("user", "", "Enter a value for the filter."),
        ],
    )
    def test_what_is_wrong_is_said_above_the_page_as_it_was(self, console, name, text, problem):
        use()
        response = console.get(f"{PAGE}?{WEEK}&model=m", {"add": name, "value": text, "model": "m"})
        assert problem in response.text
        assert [link.title for link in response.context["filters"]] == ["Model: m"]
        assert all("add=" not in link.address for link in response.context["periods"])

    def test_no_file_is_made_with_a_filter_that_is_wrong(self, console):
        response = console.get(PAGE, {"add": "user", "value": "nobody", "export": "csv"})
        assert "No user has this name or id." in response.text
        assert response.headers["Content-Type"].startswith("text/html")

    def test_the_file_has_the_filters_of_the_address_and_the_one_that_is_added(self, console):
        for model, user in (("m", 1), ("m", 2), ("n", 2)):
            use(model=model, user_id=user)
        response = console.get(f"{PAGE}?{WEEK}&by=model&user=2&add=model&value=n&export=csv", follow=True)
        assert (
            response.redirect_chain[0][0]
            == f"{PAGE}?start=2026-01-05&end=2026-01-11&by=model&user=2&model=n&export=csv"
        )
        rows = list(csv.DictReader(io.StringIO(response.text)))
        assert [(row["model"], row["requests"]) for row in rows] == [("n", "1")]


class TestTimesWithoutUsage:
    def test_they_are_zero_in_the_table_and_the_chart_of_two_dimensions(self, console):
        use(0, "m"), use(0, "n"), use(3, "m")
        response = console.get(f"{PAGE}?{WEEK}&by=day&then=model")
        assert table(response) == [
            [DAYS[0], "m", "1"], [DAYS[0], "n", "1"], [DAYS[1], "–", "0"], [DAYS[2], "–", "0"], [DAYS[3], "m", "1"],
            [DAYS[4], "–", "0"], [DAYS[5], "–", "0"], [DAYS[6], "–", "0"],
        ]  # fmt: skip
        assert labels(response) == DAYS
        assert charts(response) == {"Requests": {"m": [1, 0, 0, 1, 0, 0, 0], "n": [1, 0, 0, 0, 0, 0, 0]}}
        assert "8 rows" not in response.text  # nothing was cut

    def test_the_state_of_a_provider_is_a_badge_with_its_reason(self, console):
        provider = create_provider(name="west", url="https://api.example.org", models=["m"], format_name="openai")
        use(provider_id=provider.pk)
        page = console.get(f"{PAGE}?{WEEK}&by=provider").text
        assert re.search(r'Unknown\s*</span>\s*<span class="console-note">not asked in the last 10 min', page)

    def test_a_table_by_providers_has_the_same_columns_in_each_row(self, console):
        use(0)
        rows = console.get(f"{PAGE}?{WEEK}&by=day&then=provider").context["rows"]
        assert len({tuple(cell.title for cell in cells) for _, cells in rows}) == 1
        assert len(rows) == 7

    def test_the_chart_has_them_when_the_table_is_sorted_otherwise(self, console):
        use(0, "m"), use(3, "n"), use(3, "n")
        response = console.get(f"{PAGE}?{WEEK}&by=day&then=model&sort=-requests")
        assert table(response) == [[DAYS[3], "n", "2"], [DAYS[0], "m", "1"]]
        assert labels(response) == DAYS

    def test_a_table_that_is_cut_says_nothing_of_the_times_after_its_last_row(self):
        query = UsageQuery(MONDAY, MONDAY + timedelta(days=7), ("day", "model"), sort="day")
        page = Page([{"day": DAYS[1], "model": "m"}], 2)
        assert figures.times_of(page, query) == DAYS[:2]
        sorted_by_requests = UsageQuery(query.start, query.end, query.by, sort="-requests")
        assert figures.times_of(page, sorted_by_requests) == []


class TestOrder:
    @pytest.mark.long
    def test_headings_of_names_sort(self, console):
        use(0, "b"), use(0, "b"), use(1, "a")
        response = console.get(f"{PAGE}?{WEEK}&by=model&then=user&sort=-requests")
        by_model, by_user = response.context["dimensions"]
        assert (by_model.title, by_user.title) == ("Model", "User")
        assert "sort=user" in by_user.address
        assert [row[0] for row in table(console.get(PAGE + by_model.address))] == ["a", "b"]
        by_model = console.get(PAGE + by_model.address).context["dimensions"][0]
        assert [row[0] for row in table(console.get(PAGE + by_model.address))] == ["b", "a"]

    def test_by_what_the_cache_has_saved(self, console):
        use(0, "b", saved_cost="2", cache_status="HIT"), use(1, "a", saved_cost="1", cache_status="HIT")
        response = console.get(f"{PAGE}?{WEEK}&by=model&sort=saved_cost")
        assert [row[0] for row in table(response)] == ["a", "b"]
        assert "sort=-saved_cost" in response.text

    def test_by_latency_and_by_a_chart_of_it(self, console):
        use(0, "quick", duration_ms=90), use(0, "quick", duration_ms=90), use(1, "slow", duration_ms=4000)
        for query in ("sort=-p95_ms", "chart=p95_ms", "chart=average_first_byte_ms&sort=-p95_ms"):
            response = console.get(f"{PAGE}?{WEEK}&by=model&{query}")
            assert [row[0] for row in table(response)] == ["slow", "quick"]
        assert "sort=p95_ms" in response.text

    def test_an_order_by_what_is_no_column_is_the_usual_one(self, console):
        use(0, "b"), use(1, "a")
        assert [row[0] for row in table(console.get(f"{PAGE}?{WEEK}&by=day&sort=model"))] == DAYS


class TestMoreThanAChartHasRoomFor:
    def test_parts_beyond_the_greatest_are_added_up(self, console):
        for number in range(10):
            for _ in range(10 - number):
                use(0, f"m-{number}")
        response = console.get(f"{PAGE}?{WEEK}&by=day&then=model")
        [sets] = charts(response).values()
        assert sum(values[0] for values in sets.values()) == 55
        assert sets["all others"] == [6, 0, 0, 0, 0, 0, 0]
        assert len(sets) == 8
        assert "The chart shows" not in response.text

    @pytest.mark.long
    def test_what_does_not_add_up_and_names_beyond_the_first_are_named(self, console):
        for number in range(31):
            use(0, f"m-{number}")
        assert "The chart shows the first 30 of 31 names." in console.get(f"{PAGE}?{WEEK}&by=model").text
        text = console.get(f"{PAGE}?{WEEK}&by=day&then=model&chart=cache_share").text
        assert "The chart shows the greatest 7 of 31 names." in text


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


class TestMeasures:
    """Each measure as a chart by two dimensions: its values, and whether these lie on top of each other."""

    @pytest.fixture
    def usage(self):
        """Model `m` on two days, `n` on one; both served by one provider."""
        work = {
            "outcome": "completed", "cost_status": "known", "currency": "USD", "cost": "2",
            "provider_id": create_provider(name="p", url="https://p.example.org", models=[], format_name="openai").pk,
            "input_tokens": 10, "cache_read_tokens": 5, "cache_write_tokens": 1, "output_tokens": 4,
            "duration_ms": 100.0, "first_byte_ms": 40.0,
        }  # fmt: skip
        stored = work | {"cache_status": "HIT", "cost": "0", "saved_cost": "2", "attempts": 0}
        for day, model in ((0, "m"), (2, "m"), (0, "n")):
            use(day, model, **work | {"cache_status": "MISS", "attempts": 1})
        use(0, "m", **stored)

    def data(self, console, measure: str, query: str = "by=day&then=model") -> list[dict]:
        [chart] = console.get(f"{PAGE}?{WEEK}&{query}&chart={measure}").context["charts"]
        return json.loads(chart.data)["datasets"]

    @pytest.mark.parametrize("query", ["by=day&then=model", "by=model&then=provider", "by=model"])
    def test_names_with_the_same_beginning_are_different_sets_and_bars(self, console, query):
        """They are cut at the end, or in the middle, or get a number, so that all differ."""
        base, end = "ft:gpt-4o-mini-2024-07-18:my-organisation", f":{'x' * 20}"
        names = [f"{base}:sales", *(f"{base}:{number}{end}" for number in range(3)), "all others"]
        for number, name in enumerate(names, start=1):
            for _ in range(number):
                use(model=name)
        [chart] = console.get(f"{PAGE}?{WEEK}&{query}").context["charts"]
        document = json.loads(chart.data)
        by_day = query.startswith("by=day")
        labels = [set_["label"] for set_ in document["datasets"]] if by_day else document["labels"]
        cuts = {f"{base[:40]}…", f"{base[:20]}…{end[-20:]}", f"{base[:40]}… (2)", "all others (2)"}
        assert (len(set(labels)), cuts - set(labels)) == (5, set())
        assert sum(number or 0 for set_ in document["datasets"] for number in set_["data"]) == 15
        pages = [entry.page for entry in chart.legend] if by_day else document["pages"]
        assert {parse_qs(urlsplit(page).query)["model"][0] for page in pages} == set(names)

    def test_its_names_lead_to_their_pages(self, console, usage):
        response = console.get(f"{PAGE}?{WEEK}&by=provider&then=model")
        [chart], page = response.context["charts"], response.text
        [provider_page] = json.loads(chart.data)["pages"]
        assert re.fullmatch(r"/admin/providers/provider/\d+/change/.*", provider_page)
        assert [entry.name for entry in chart.legend] == ["m", "n"]
        for entry in chart.legend:
            assert urlsplit(entry.page).path == reverse("admin:model-by-name")
            assert f'href="{escape(entry.page)}">{entry.name}</a></span>' in page

    @pytest.mark.parametrize(
        ("measure", "m", "n"),
        [
            ("requests", [2, 0, 1], [1, 0, 0]),
            ("errors", [0, 0, 0], [0, 0, 0]),
            ("attempts", [1, 0, 1], [1, 0, 0]),
            ("failed_attempts", [0, 0, 0], [0, 0, 0]),
            ("cache_hits", [1, 0, 0], None),
            ("input_tokens", [10, 0, 10], [10, 0, 0]),
            ("output_tokens", [4, 0, 4], [4, 0, 0]),
            ("saved_tokens", [20, 0, 0], None),
            ("cost", [2, 0, 2], [2, 0, 0]),
        ],
    )
    def test_what_adds_up_is_stacked(self, console, usage, measure, m, n):
        sets = self.data(console, measure)
        assert {one["label"]: one["data"][:3] for one in sets} == {"m": m} | ({"n": n} if n else {})
        assert all(one["stack"] == "all" and "type" not in one for one in sets)

    @pytest.mark.parametrize(
        ("measure", "m", "n"),
        [
            ("cache_share", [50.0, None, 0.0], None),
            ("average_first_byte_ms", [40.0, None, 40.0], [40.0, None, None]),
        ],
    )
    def test_what_does_not_is_a_line_over_times_with_gaps(self, console, usage, measure, m, n):
        sets = self.data(console, measure)
        assert {one["label"]: one["data"][:3] for one in sets} == {"m": m} | ({"n": n} if n else {})
        assert all("stack" not in one and one["type"] == "line" for one in sets)

    @pytest.mark.parametrize("measure", ["p50_ms", "p95_ms"])
    def test_percentiles_are_lines_too(self, console, usage, measure):
        sets = self.data(console, measure)
        (low, high) = (next(bound for bound in LATENCY_MS[::-1] if bound <= 100), 250)
        for one in sets:
            assert all(value is None or low <= value <= high for value in one["data"])
            assert (one["data"][1], one["type"]) == (None, "line")
            assert "stack" not in one

    def test_bars_of_two_names_stand_beside_each_other(self, console, usage):
        sets = self.data(console, "average_first_byte_ms", "by=provider&then=model")
        assert {one["label"]: one["data"] for one in sets} == {"m": [40.0], "n": [40.0]}
        assert all("stack" not in one and "type" not in one and one["grouped"] for one in sets)

    def test_there_is_no_other_measure(self):
        assert figures.ADDITIVE | {"cache_share", "p50_ms", "p95_ms", "average_first_byte_ms"} == CHARTS.keys()


class TestTokens:
    def test_the_total_counts_what_the_overview_counts(self, console):
        tokens = {"input_tokens": 10, "cache_read_tokens": 5, "cache_write_tokens": 1, "output_tokens": 4}
        insert_log_entries([done("r", datetime.now(UTC), **tokens)])
        caches["process"].clear()
        [card] = [card for card in console.get("/admin/?period=day").context["cards"] if card.title == "Tokens"]
        [total] = [total for total in console.get(PAGE).context["totals"] if total.title == "Tokens"]
        caches["process"].clear()
        assert card.text == total.text == "20"

    def test_the_table_has_what_was_read_from_and_written_to_a_providers_cache(self, console):
        use(0, input_tokens=10, cache_read_tokens=5_000, cache_write_tokens=1_200), use(1, cache_read_tokens=3)
        response = console.get(f"{PAGE}?{WEEK}&by=day")
        columns = [
            {cell.title: [line.text for line in cell.lines] for cell in cells} for _, cells in response.context["rows"]
        ]
        assert [row["Cached in"] for row in columns[:3]] == [["5.0k", "+ 1.2k written"], ["3"], ["0"]]
        assert [row["Tokens in"] for row in columns[:2]] == [["10"], ["0"]]
        [address] = {cell.sort for _, cells in response.context["rows"] for cell in cells if cell.title == "Cached in"}
        assert "sort=-cache_read_tokens" in address


class TestALongTable:
    """One of more rows than a page has: charts have all, and what changes the query begins at the first."""

    QUERY = f"{PAGE}?start=2026-01-01&end=2026-03-01&by=day"

    @pytest.fixture
    def first(self, console):
        use()
        return console.get(self.QUERY)

    def test_its_pages_have_each_row_once(self, console, first):
        (following,) = first.context["pages"]
        second = console.get(PAGE + following.address)
        (previous,) = second.context["pages"]
        assert (following.title, previous.title) == ("Next rows", "Previous rows")
        days = [day for day, _ in [*table(first), *table(second)]]
        assert (len(days), days) == (60, sorted(set(days)))
        assert "Rows 51 to 60 of 60" in second.content.decode()
        assert table(console.get(PAGE + previous.address)) == table(first)

    def test_each_page_has_the_whole_chart(self, console, first):
        assert len(labels(first)) == len(labels(console.get(f"{self.QUERY}&page=2"))) == 60

    @pytest.mark.parametrize(("number", "day"), [("0", "2026-02-20"), ("x", "2026-01-01"), ("9" * 40, "2026-02-20")])
    def test_a_page_that_it_does_not_have_is_one_that_it_has(self, console, first, number, day):
        assert table(console.get(f"{self.QUERY}&page={number}"))[0][0] == day

    def test_another_order_begins_at_the_first_page(self, console, first):
        second = console.get(f"{self.QUERY}&page=2")
        assert all("page=" not in cell.sort for cell in second.context["rows"][0][1])

    def test_a_short_one_has_no_pages(self, console):
        use()
        assert console.get(f"{PAGE}?{WEEK}&by=day").context["pages"] == []


def test_tokens_that_were_written_to_a_cache_are_exact_on_hover(console):
    use(cache_read_tokens=1, cache_write_tokens=1234)
    assert '<span title="+ 1,234 written">+ 1.2k written</span>' in console.get(f"{PAGE}?{WEEK}").text
