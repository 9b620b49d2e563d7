"""The statistics page: its filters, days without usage, and costs in several currencies."""

import csv
import io
import re
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from accounts.models import Group
from keys.models import ApiKey
from keys.services import delete_keys, issue_key
from providers.services import create_provider
from telemetry.audit.models import AuditEntry
from telemetry.statistics_page import figures
from telemetry.usage.statistics import Page, UsageQuery
from tests.support.management import new_user
from tests.support.statistics_page import MONDAY, PAGE, WEEK, charts, labels, table, use

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]  # tests/telemetry/usage tries the sums with both

DAYS = [f"2026-01-{day:02}" for day in range(5, 12)]


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


@pytest.mark.parametrize(
    ("by", "name"),
    [
        ("model", "(not sent to a model)"),
        ("provider", "(not sent to a provider)"),
        ("key", "(without a key)"),
        ("alias", "(not by an alias)"),
        ("tag", "(no tag)"),
        ("group", "(in no group)"),
        ("user", "(unknown user)"),
    ],
)
def test_usage_without_a_name_says_what_it_is(console, by, name):
    use(model="", provider_id=None, key_id=None, user_id=None)
    rows = console.get(f"{PAGE}?{WEEK}&by={by}").context["rows"]
    assert [names[0].title for names, _ in rows] == [name]
