"""Measures and tokens on the page of statistics."""

import json
import re
from datetime import UTC, datetime
from html import escape
from urllib.parse import parse_qs, urlsplit

import pytest
from django.core.cache import caches
from django.urls import reverse

from providers.services import create_provider
from telemetry.journal.batches import insert_log_entries
from telemetry.statistics_page import figures
from telemetry.statistics_page.form import CHARTS
from telemetry.usage.models import LATENCY_MS
from tests.support.statistics_page import PAGE, WEEK, use
from tests.support.usage_entries import done

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]  # tests/telemetry/usage tries the sums with both


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


def test_tokens_that_were_written_to_a_cache_are_exact_on_hover(console):
    use(cache_read_tokens=1, cache_write_tokens=1234)
    assert '<span title="+ 1,234 written">+ 1.2k written</span>' in console.get(f"{PAGE}?{WEEK}").text
