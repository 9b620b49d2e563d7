"""The statistics page with something to tell: a chart, a table and a file by every dimension, of hostile names too."""

import csv
import io
from datetime import datetime, timedelta
from html import unescape

import pytest
from django.utils import timezone

from accounts.models import Group
from providers.models import Provider
from telemetry.journal.batches import insert_log_entries
from telemetry.models import LogEntry, UsageDay, UsageHour
from telemetry.usage.statistics import DIMENSIONS
from tests.console.conftest import LOOKS, stand_still
from tests.support.thoroughness import first_of
from tests.telemetry.conftest import entry

HOSTILE = "<img src=x onerror=document.title='owned'>=2+3"
# Whether anything is painted on a chart.
PAINTED = """canvas => {
  const empty = document.createElement("canvas");
  [empty.width, empty.height] = [canvas.width, canvas.height];
  return canvas.toDataURL() !== empty.toDataURL();
}"""
# A point in the first bar of a chart.
FIRST_BAR = """canvas => {
  const {x, y} = Chart.getChart(canvas).getDatasetMeta(0).data[0];
  return {x, y: y + 4};
}"""
MARKS = "canvas => Chart.getChart(canvas).scales.y.ticks.map(mark => mark.value)"


@pytest.fixture
def names(world) -> dict[str, str]:
    """What stands in the table of each dimension, of usage that an hour ago was left by enemies."""
    key = world.new_key().key
    group = Group.objects.create(name=f"{HOSTILE}{world.number}")
    world.provider()
    provider = Provider.objects.order_by("-pk").first()
    begun = timezone.now() - timedelta(hours=1)
    fields = {
        "timestamp": f"{begun:%Y-%m-%d %H:%M:%S}", "user_id": world.user.pk, "group_ids": [group.pk], "key_id": key.pk,
        "provider_id": provider.pk, "model": f"={HOSTILE}", "served_model": f"={HOSTILE}", "alias": f"{HOSTILE}alias",
        "tags": {HOSTILE: "=1+2"}, "outcome": "completed",
        "cache_status": "MISS", "cost_status": "known", "currency": "USD", "cost": "1.5", "input_tokens": 12_000_000,
        "output_tokens": 7_000_000, "duration_ms": 80.0,
    }  # fmt: skip
    spent = {"currency": "EUR", "cost": "0.25", "cost_status": "estimated"}
    stored = {"cache_status": "HIT", "cost": "0", "saved_cost": "1234.5"}
    kinds = (fields, fields, fields | spent, fields | stored)
    insert_log_entries([entry(f"s-{number}", **kind) for number, kind in enumerate(kinds)])
    yield {
        "hour": f"{begun:%Y-%m-%dT%H}:00:00Z", "day": f"{begun:%Y-%m-%d}", "user": world.user.username,
        "group": group.name, "key": key.name, "provider": provider.name, "model": f"={HOSTILE}",
        "alias": f"{HOSTILE}alias", "tag": f"{HOSTILE}==1+2",
    }  # fmt: skip
    LogEntry.objects.filter(correlation_id__startswith="s-").delete()
    for usage in (UsageHour, UsageDay):
        usage.objects.filter(key_id=key.pk).delete()


def test_every_dimension_has_a_table_and_a_file(administrator, names):
    assert names.keys() == DIMENSIONS.keys()
    period = f"start={names['day']}&end={names['day']}"  # the hours of a month fill several pages
    for by, name in names.items():
        page = administrator.get(f"statistics/?by={by}&{period}")
        assert page.status_code == 200
        assert "<img" not in page.text.split("<main", 1)[-1]
        title = f"{datetime.fromisoformat(name):%Y-%m-%d %H:%M} UTC" if by == "hour" else name
        assert f">{title}<" in unescape(page.text.split("<tbody>")[1]), by
        file = administrator.get(f"statistics/?by={by}&export=csv")
        assert file.headers["Content-Type"] == "text/csv; charset=utf-8"
        assert "attachment" in file.headers["Content-Disposition"]
        texts = {cell for row in csv.reader(io.StringIO(file.text)) for cell in row}
        assert (f"'{name}" if name.startswith("=") else name) in texts, by


@pytest.mark.parametrize("look", first_of(*LOOKS))
def test_a_chart_and_a_table_of_hostile_names_are_whole(console, names, world, look):
    window = console(look)
    for by, then in (("model", ""), ("tag", ""), ("model", "provider")):
        window.open(f"statistics/?by={by}&then={then}&chart=cost&user={world.user.pk}")
        assert window.check() == []
        assert window.page.title() != "owned"
        assert window.page.evaluate(PAINTED, window.page.query_selector("#main canvas"))
        row = window.page.locator("#main tbody tr", has_text=names[by])
        for result in ("36.0M", "$3.00", "$1,234.50", "€0.25", "est. €0.25"):
            assert result in row.inner_text()
        if look != "phone":
            assert window.page.locator("#main [role=region]").evaluate("all => all.scrollWidth <= all.clientWidth")


def test_a_chart_of_counts_has_marks_at_whole_numbers_alone(console, world, names):
    window = console()
    marks = {}
    for measure in ("cache_hits", "cost"):
        window.open(f"statistics/?by=model&chart={measure}&user={world.user.pk}")
        marks[measure] = window.page.evaluate(MARKS, window.page.query_selector("#main canvas"))
    assert marks["cache_hits"] == [0, 1]
    assert any(mark % 1 for mark in marks["cost"])  # 3 USD and 0.25 EUR


def test_charts_without_usage_begin_at_zero_and_shorten_long_names(console, world, names):
    """An empty chart began at -1, and a long name ran out of the chart to the left."""
    window = console()
    window.open(f"statistics/?by=model&user={world.user.pk}")
    draw = """name => {
      const chart = Chart.getChart(document.querySelector("#main canvas"));
      chart.config.type = "line";
      chart.data = { labels: [name], datasets: [{ data: [0] }] };
      chart.update("none");
      return [chart.scales.y.min, chart.scales.x.ticks[0].label];
    }"""
    assert window.page.evaluate(draw, "W" * 25) == [0, "W" * 23 + "…"]
    assert window.page.evaluate(draw, "W" * 24) == [0, "W" * 24]


def test_marks_of_small_amounts_are_short(console, world, names):
    window = console()
    window.open(f"statistics/?by=model&chart=cost&user={world.user.pk}")
    draw = """most => {
      const chart = Chart.getChart(document.querySelector("#main canvas"));
      chart.data.datasets = [{ data: [most] }];
      chart.update("none");
      return chart.scales.y.ticks.map(mark => mark.value);
    }"""
    marks = [mark for most in range(1, 100) for mark in window.page.evaluate(draw, most / 1e6)]
    assert 0.00001 in marks
    assert [mark for mark in marks if mark != round(mark, 9)] == []
    labels = """unit => {
      const chart = Chart.getChart(document.querySelector("#main canvas"));
      chart.data.datasets = [{ data: [2e-6], suffixYAxis: unit }];
      chart.update("none");
      return [...chart.scales.y.ticks.map(mark => mark.label), chart.scales.y.getLabelForValue(5e-7)];
    }"""
    for unit, end in (("USD", " USD"), ("", "")):
        assert window.page.evaluate(labels, unit)[-2:] == [f"0.000002{end}", "0.0000005"]


def test_costs_in_several_currencies_stand_beside_each_other_and_are_named(console, world, names):
    window = console()
    window.open(f"statistics/?by=model&chart=cost&user={world.user.pk}")
    places = "canvas => [0, 1].map(set => Chart.getChart(canvas).getDatasetMeta(set).data[0].x)"
    eur, usd = window.page.evaluate(places, window.page.query_selector("#main canvas"))
    assert eur < usd
    result = window.page.locator("#main .console-links").last.inner_text()
    assert result.split() == ["EUR", "USD"]


def test_the_form_asks_and_the_button_downloads(console, names):
    window = console()
    window.open("statistics/")
    page = window.page
    page.select_option("[name=by]", "provider")
    page.select_option("[name=chart]", "input_tokens")
    page.click("#main button >> text=Show")
    stand_still(page)
    assert page.locator("#main h2", has_text="Tokens in").is_visible()
    assert page.locator("#main th", has_text=names["provider"]).is_visible()
    with page.expect_download() as file:
        page.click("#main button >> text=Export as CSV")
    assert names["provider"] in file.value.path().read_text()
    page.fill("[name=start]", "2020-01-02")
    page.fill("[name=end]", "2020-01-01")
    page.click("#main button >> text=Show")
    stand_still(page)
    assert "Must be before" in page.inner_text("#main [role=alert]")


def test_a_chart_of_two_dimensions_is_stacked_and_its_filters_can_be_removed(console, names, world):
    window = console()
    window.open(f"statistics/?by=day&then=model&chart=input_tokens&user={world.user.pk}")
    assert window.check() == []
    page = window.page
    assert page.evaluate("canvas => Chart.getChart(canvas).data.datasets[0].stack", page.query_selector("#main canvas"))
    assert page.locator("#main tbody th", has_text=names["model"]).is_visible()
    assert f"User: {world.user.username}" in page.inner_text("#main [aria-label=Filters]")
    page.click("#main [aria-label=Filters] a")
    stand_still(page)
    assert "user=" not in page.url
    assert "then=model" in page.url


def test_names_in_charts_lead_to_their_pages(console, names, world):
    window = console()
    page, user_page = window.page, f"/admin/accounts/user/{world.user.pk}/change/"
    window.open(f"statistics/?by=user&chart=input_tokens&user={world.user.pk}")
    canvas = page.locator("#main canvas")
    canvas.click(position=canvas.evaluate(FIRST_BAR))
    page.wait_for_url(f"**{user_page}**")
    assert window.problems == []


@pytest.mark.parametrize("has_scripts", first_of(False, True))
def test_a_filter_is_added_shown_in_the_file_and_removed(visitor, names, world, has_scripts):
    window = visitor(java_script_enabled=has_scripts)
    window.sign_in()
    window.open("statistics/?by=model&chart=cost")
    page = window.page
    page.get_by_label("Add a filter").select_option("user")
    page.get_by_label("Name or id").fill(world.user.username)
    page.click("#main button >> text=Show")
    stand_still(page)
    assert page.url.endswith(f"&user={world.user.pk}")
    assert page.inner_text("#main [aria-label=Filters]") == f"User: {world.user.username} Remove"
    assert page.get_by_label("Name or id").input_value() == ""
    with page.expect_download() as file:
        page.click("#main button >> text=Export as CSV")
    lines = list(csv.DictReader(io.StringIO(file.value.path().read_text())))
    assert [line["requests"] for line in lines] == ["4"]
    page.get_by_label("Remove the filter").click()
    stand_still(page)
    assert "user=" not in page.url
    assert "chart=cost" in page.url
    assert page.locator("#main [aria-label=Filters]").count() == 0
    assert window.problems == []


def test_a_name_that_nobody_has_is_said_and_the_page_stays(console, names):
    window = console()
    window.open("statistics/?by=model")
    page = window.page
    page.get_by_label("Add a filter").select_option("key")
    page.get_by_label("Name or id").fill("nobody's")
    page.click("#main button >> text=Show")
    stand_still(page)
    assert "No key has this name or id." in page.inner_text("#main [role=alert]")
    assert page.locator("#main tbody th", has_text=names["model"]).is_visible()
    assert window.check() == []


def test_stacks_are_of_one_currency_and_have_the_days_without_usage(console, names, world):
    window = console()
    window.open(f"statistics/?by=day&then=model&chart=cost&user={world.user.pk}")
    assert window.check_looks() == {}
    page = window.page
    titles = page.locator("#main h2", has_text="Cost").all_inner_texts()
    assert titles == ["Cost (EUR)", "Cost (USD)"]
    data = "all => all.map(canvas => Chart.getChart(canvas).data)"
    euros, dollars = page.locator("#main canvas").evaluate_all(data)
    for chart, amount in ((euros, 0.25), (dollars, 3)):
        assert len(chart["labels"]) == 30
        [values] = [one["data"] for one in chart["datasets"]]
        assert sorted(values) == [0] * 29 + [amount]
    assert page.locator("#main tbody tr").count() == 30


def test_totals_stand_beside_those_of_the_period_before(console, names):
    window = console()
    window.open("statistics/")
    window.page.click("#main nav >> text=7 days")
    stand_still(window.page)
    assert window.page.get_attribute("#main nav [aria-current=page]", "href").startswith("?start=")
    assert "none in the period before" in window.page.inner_text("#main .console-figures")


def test_a_name_leads_to_what_it_names_and_a_heading_sorts(console, names):
    window = console()
    window.open("statistics/?by=user")
    window.page.click("#main thead >> text=Tokens in")
    stand_still(window.page)
    assert "sort=-input_tokens" in window.page.url
    window.page.click(f"#main tbody >> text={names['user']}")
    stand_still(window.page)
    assert names["user"] in window.page.inner_text("h1")
    window.page.click("#main [aria-label='Related pages'] >> text=Log")
    stand_still(window.page)
    assert f"user={names['user']}" in window.page.url
    assert window.check() == []
