"""What the console's first page draws attention to, beside what other tests look at on the page itself."""

import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.core.cache import caches
from django.utils import timezone
from django.utils.html import escape

from accounts.access_requests.models import AccessRequest
from gateway_project.console import notices
from gateway_project.console.dashboard import attention, cards, links
from gateway_project.console.what_if import tables as what_if_tables
from gateway_project.server.connections import unlisted_proxies
from keys.models import ApiKey
from keys.services import issue_key
from licensing.services import install_licence, set_limit
from providers.health.status import Health, HealthState, LastError, ModelHealth
from providers.services import create_provider, set_price
from telemetry.journal.batches import insert_log_entries
from telemetry.journal.shipping import Backlog
from tests.support.licences import in_days
from tests.support.usage_entries import done

pytestmark = pytest.mark.either_store


def texts_of(notices) -> list[str]:
    return [notice.text for notice in notices]


def test_a_log_that_waits_for_the_database_for_long():
    assert texts_of(attention._about_the_log(Backlog(bytes=5_000, seconds=29.0))) == []
    (text,) = texts_of(attention._about_the_log(Backlog(bytes=5_000, seconds=95.0)))
    assert text == "5,000 bytes of log entries wait for the database, the oldest for 95 seconds."


def test_keys_that_expire_soon_the_first_of_many(ann):
    now = timezone.now()
    for number in range(links.MAX_SHOWN + 1):
        issue_key(owner=ann, name=f"key-{number}", expiry=now + timedelta(hours=number + 1))
    (notice,) = attention._about_keys(ApiKey.objects.all())
    assert notice.text == "These keys expire within 7 days:"
    assert [link.title for link in notice.links] == ["key-0", "key-1", "key-2", "key-3", "key-4", "others"]
    first = ApiKey.objects.get(name="key-0")
    assert notice.links[0].address == f"/admin/keys/apikey/{first.pk}/change/"
    assert notice.links[-1].address == "/admin/keys/apikey/"
    assert texts_of(attention._about_keys(ApiKey.objects.none())) == []


@pytest.mark.parametrize(
    ("errors", "requests", "texts"),
    [
        (0, 0, []),
        (5, 100, []),
        (6, 100, ["6 of 100 requests since 08:00 UTC failed."]),
        (1200, 1200, ["1,200 of 1,200 requests since 08:00 UTC failed."]),
    ],
)
def test_many_errors_of_the_last_hour(errors, requests, texts):
    figures = {"since": datetime(2027, 1, 15, 8, tzinfo=UTC), "totals": {"errors": errors, "requests": requests}}
    assert texts_of(attention._about_errors(figures)) == texts


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        ({}, "0"),
        ({"USD": Decimal("1234.567")}, "$1,234.57"),
        ({"EUR": Decimal("0.00319"), "USD": Decimal(2)}, "€0.0032, $2.00"),
    ],
)
def test_money_has_cents_or_where_there_is_less_more_of_them(db, cost, text):
    caches["process"].clear()
    assert cards._money(cost) == text


@pytest.mark.parametrize(("currencies", "text"), [(["EUR"], "€0.00"), (["EUR", "USD"], "0")])
def test_no_money_is_nothing_in_the_currency_of_the_prices(db, currencies, text):
    for currency in currencies:
        set_price(model=f"m-{currency}", currency=currency, input=Decimal(1), output=Decimal(1))
    caches["process"].clear()
    assert cards._money({}) == text
    assert what_if_tables._money({}) == text
    caches["process"].clear()


class TestRemedies:
    """Each notice leads to pages that can be opened, and that have what it is about."""

    @pytest.fixture
    def pages(self, console):
        """Opens every link of the only notice: the pages by their titles."""

        def open_all(of_source) -> dict[str, str]:
            (notice,) = of_source
            responses = {link.title: console.get(link.address, follow=True) for link in notice.links}
            assert {response.status_code for response in responses.values()} == {200}
            return {title: response.text for title, response in responses.items()}

        return open_all

    def test_of_a_licence_that_expires(self, pages, vendor):
        install_licence(vendor.licence(expiry=in_days(5)))
        assert "<h1" in pages([notices.about_the_licence(time.time())])["Open the licence"]

    def test_of_a_proxy_that_is_not_listed(self, pages):
        caches["default"].set(unlisted_proxies.KEY, "192.0.2.7")
        try:
            page = pages([notices.about_an_unlisted_proxy(time.time())])["Show the setting"]
        finally:
            caches["default"].delete(unlisted_proxies.KEY)
        assert "GATEWAY_TRUSTED_PROXIES" in page

    def test_of_somebody_who_waits(self, pages, ann):
        AccessRequest.objects.create(user=ann, kind="model", model="asked-for", reason="why")
        assert "asked-for" in pages([notices.about_access_requests(time.time())])["Decide"]

    def test_of_a_provider_that_fails_its_own_page(self, pages):
        rows = [create_provider(name=name, url="https://a.example", format_name="openai") for name in ("p", "p2")]
        error = LastError(timezone.now(), "m", "ProviderError", "down")
        failing = {"p": Health(True, models=(ModelHealth("m", HealthState.FAILING, 6, 5, last_error=error),))}
        (notice,) = attention._about_providers(failing, {row.name: row.pk for row in rows})
        assert notice.names[0].page == f"/admin/providers/provider/{rows[0].pk}/change/"
        assert [name.text for name in notice.names] == ["p", "m"]
        assert pages([notice]).keys() == {"Show its attempts"}
        assert 'The provider <a class="text-primary-700' in notice.html
        assert notice.html.endswith(f'<a class="underline" href="{notice.links[0].address}">Show its attempts</a>')
        (of_deleted,) = attention._about_providers(failing, {})
        assert of_deleted.names[0].page == "/admin/providers/provider/?q=p"

    def test_of_the_log_and_of_the_store(self, pages):
        backlog = attention._about_the_log(Backlog(bytes=5_000, seconds=95.0))
        for source in (backlog, attention._about_the_store("Redis does not answer.")):
            assert "Journal" in pages(source)["Show the system"]

    @pytest.mark.long
    def test_of_errors_keys_limits_and_prices(self, pages, ann):
        figures = {"since": timezone.now(), "totals": {"errors": 9, "requests": 9}}
        key = issue_key(owner=ann, name="soon", expiry=timezone.now() + timedelta(hours=1)).key
        limit = set_limit(measure="requests", window="day", amount=Decimal(5), user=ann)
        full = attention._limit_link(limit, Decimal(1))
        sources = {
            "Show them": attention._about_errors(figures),
            "soon": attention._about_keys(ApiKey.objects.filter(pk=key.pk)),
            full.title: attention._about_limits([full]),
            "new": attention._about_prices([attention.ModelWithoutPrice("new", 1, None)]),
        }
        for title, source in sources.items():
            assert pages(source).keys() == {title}

    def test_no_source_is_left_out(self):
        assert {source.__name__ for source in notices.SOURCES} == {
            "about_the_licence", "about_an_unlisted_proxy", "about_access_requests",
        }  # fmt: skip
        of_page = {name for name in vars(attention) if name.startswith("_about_")}
        assert of_page == {f"_about_{name}" for name in (
            "providers", "errors", "the_log", "the_store", "keys", "limits", "prices",
        )}  # fmt: skip


class TestMoneyWithoutAPrice:
    """Two requests of ann to a model without a price, and one that cost a dollar."""

    @pytest.fixture
    def page(self, console, ann):
        """The overview of a day, and the ids of the user and of the provider."""
        provider = create_provider(name="p", url="https://a.example", models=["new"], format_name="openai")
        work = {"user_id": ann.pk, "provider_id": provider.pk, "model": "new", "served_model": "new", "input_tokens": 7}
        no_cost, cost = {"cost_status": "unknown"}, {"cost_status": "known", "cost": "1", "currency": "USD"}
        insert_log_entries([done("r", timezone.now(), **work | fields) for fields in (no_cost, no_cost, cost)])
        caches["process"].clear()
        yield console.get("/admin/?period=day"), ann.pk, provider.pk
        caches["process"].clear()

    def test_the_tile_and_the_chart_say_so_and_lead_to_the_form(self, page):
        response, _, provider_id = page
        (card,) = [card for card in response.context["cards"] if card.title == "Cost"]
        assert (card.text, card.note) == ("$1.00", "+ 2 requests without a price")
        assert card.address == f"/admin/providers/modelprice/add/?model=new&provider={provider_id}"
        link = f'href="{escape(card.address)}">{card.note}</a>'
        assert (response.text.count(f"{link}</dd>"), response.text.count(f"{link}</p>")) == (1, 1)

    def test_each_table_of_those_with_the_most_says_so(self, page, console):
        response, user_id, provider_id = page
        links = {}
        for top in response.context["tops"]:
            ((_, cells),) = top.rows
            cost, missing = cells[top.headings.index("Cost")]
            assert (cost.title, cost.address, missing.title) == ("$1.00", "", "+ 2 requests without a price")
            links[top.title] = missing.address
        assert links["Top models"] == f"/admin/providers/modelprice/add/?model=new&provider={provider_id}"
        for title, query in (("Top users", f"user={user_id}"), ("Providers", f"provider={provider_id}")):
            assert links[title].split("&end=")[0].startswith("/admin/statistics/?by=model&sort=-unpriced_requests")
            assert query in links[title].split("&")
            rows = console.get(links[title]).context["rows"]
            assert [[name.title for name in names] for names, _ in rows] == [["new"]]

    def test_each_link_names_the_provider_that_lacks_the_price(self, console, ann):
        """Of two providers of a model the first one has a price."""
        first, second = (
            create_provider(name=name, url="https://a.example", models=["new"], format_name="openai")
            for name in ("first", "second")
        )
        set_price(provider=first, model="new", currency="USD", input=Decimal(1), output=Decimal(2))
        work = {"user_id": ann.pk, "model": "new", "served_model": "new", "input_tokens": 7, "cost_status": "unknown"}
        insert_log_entries([done("r", timezone.now(), provider_id=second.pk, **work)])
        caches["process"].clear()
        response = console.get("/admin/?period=day")
        caches["process"].clear()
        (card,) = [card for card in response.context["cards"] if card.title == "Cost"]
        (top,) = [top for top in response.context["tops"] if top.title == "Top models"]
        (notice,) = [notice for notice in response.context["attention"] if "no price" in notice.text]
        assert [link.title for link in notice.links] == ["new"]
        addresses = {card.address, top.rows[0][1][-1][-1].address, notice.links[0].address}
        assert addresses == {f"/admin/providers/modelprice/add/?model=new&provider={second.pk}"}

    def test_links_to_the_same_model_of_two_providers_name_these(self):
        models = [attention.ModelWithoutPrice("new", number, name) for number, name in ((1, "p"), (2, "q"), (3, None))]
        (notice,) = attention._about_prices([*models, attention.ModelWithoutPrice("other", 1, "p")])
        assert [link.title for link in notice.links] == ["p/new", "q/new", "new", "other"]

    def test_the_statistics_say_so_in_their_total_and_below_the_chart(self, page, console):
        response = console.get("/admin/statistics/?chart=cost")
        (total,) = [total for total in response.context["totals"] if total.title == "Requests without cost"]
        assert (total.text, total.change) == ("+ 2 requests without a price", "Set a price for new")
        assert f"{total.text}. <a" in response.text


def test_an_overview_does_not_ask_for_a_price_for_requests_that_ended_without_an_answer(console, ann):
    work = {"user_id": ann.pk, "model": "m", "served_model": "m", "outcome": "timeout", "input_tokens": 7}
    insert_log_entries([done("r", timezone.now(), cost_status="unknown", **work)])
    caches["process"].clear()
    response = console.get("/admin/?period=day")
    caches["process"].clear()
    assert "without a price" not in response.text
    (card,) = [card for card in response.context["cards"] if card.title == "Cost"]
    assert (card.note, card.address, card.more) == ("", "", "+ 1 request of unknown cost")
    assert response.text.count("+ 1 request of unknown cost") == 5  # the tile, the chart, and three tables


def test_an_overview_where_all_has_a_price_says_nothing_of_it(console):
    insert_log_entries([done("r", timezone.now(), cost_status="known", cost="1", currency="USD", user_id=1)])
    caches["process"].clear()
    assert "without a price" not in console.get("/admin/?period=day").text
    caches["process"].clear()


def test_tokens_in_the_notes_of_tiles_are_exact_on_hover(console):
    insert_log_entries(
        [
            done("r", timezone.now(), output_tokens=1234),
            done("r", timezone.now(), output_tokens=5678, cache_status="HIT"),
        ]
    )
    caches["process"].clear()
    page = console.get("/admin/?period=day").text
    caches["process"].clear()
    assert '<span title="1,234 output tokens">1.2k output tokens</span>' in page
    assert '<span title="5,678 tokens">5.7k tokens</span>' in page
