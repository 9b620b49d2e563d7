"""Values as long as they may be, in one word: each breaks where it stands, and hides nothing beside it."""

from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import User
from keys.models import ApiKey
from licensing.services import set_limit
from providers.models import Model, ModelPrice, Provider
from rules.models import Rule
from telemetry.models import CacheEntry, LogEntry

ARN = "arn:aws:bedrock:eu-central-1:123456789012:inference-profile/eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
# What stands out of the window: a table's frame scrolls, and so the page is no wider for it.
CUT_OFF = """
() => [...document.querySelectorAll("#result_list th, #result_list td, #content dd, fieldset .readonly")]
  .filter(cell => cell.checkVisibility() && cell.getBoundingClientRect().right > window.innerWidth)
  .map(cell => cell.className + " " + cell.innerText.slice(0, 40))
"""


@pytest.fixture
def rows(world) -> dict[str, int]:
    """A row of each table with long names, by the table's path; they are of this test alone."""
    provider = world.row(world.provider())
    key, rule, user = world.new_key().key, world.allow(), world.user
    limit = set_limit(user=user, measure="tokens", window="day", amount=5)
    ended = set_limit(provider=provider, measure="tokens", window="day", amount=5)
    price = world.price()
    Provider.objects.filter(pk=provider.pk).update(name=_long(100, provider), url=f"https://{'w' * 500}.example.org")
    model = provider.models.get()
    Model.objects.filter(pk=model.pk).update(name=_long(200, model))
    ModelPrice.objects.filter(pk=price.pk).update(model=_long(200, price).lower(), provider=provider)
    ApiKey.objects.filter(pk=key.pk).update(name=_long(100, key))
    Rule.objects.filter(pk=rule.pk).update(name=_long(100, rule), regex="W" * 1000, description="W" * 1000)
    User.objects.filter(pk=user.pk).update(username=_long(150, user), display_name="W" * 200)
    names = {"model": _long(200, user), "username": _long(150, user), "provider_name": _long(100, provider)}
    entry = LogEntry.objects.create(entry_type="WorkRequest", outcome="denied", message="W" * 1000, **names)
    arn = LogEntry.objects.create(
        entry_type="WorkRequest", outcome="failed", provider_name="bedrock", model=ARN, username="alice",
        message=f"No provider offers the model {ARN!r}.", duration_ms=3, cost=1, currency="USD",
    )  # fmt: skip
    later = timezone.now() + timedelta(days=1)
    stored = CacheEntry.objects.create(request_hash="long", expires_at=later, response="W" * 1000, **names)
    items = (provider, key, rule, user, limit, price, entry, stored, model)
    yield {f"{row._meta.app_label}/{row._meta.model_name}/": row.pk for row in items}
    for row in (entry, arn, stored, ended, rule):
        row.delete()


def _long(length: int, row) -> str:
    return f"{row.pk}".rjust(length, "W")


@pytest.fixture
def paths(rows, world) -> list[str]:
    """The pages that show them."""
    world.entry(world.ask(body={"model": "W" * 200}))
    each = [path for table, pk in rows.items() for path in (table, f"{table}{pk}/change/")]
    asking = [f"{table}/{rows[f'{table}/']}/delete/" for table in ("accounts/user", "providers/modelprice")]
    return [*each, *asking, "?period=hour", "statistics/?by=model", "telemetry/logentry/tail/"]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("look", ["light", "phone"])
def test_nothing_is_pushed_out_of_sight(console, paths, look):
    window = console(look)
    for path in paths:
        window.open(path)
        assert window.page.evaluate(CUT_OFF) == [], path
        assert window.check() == [], path


def test_headings_stand_apart(console, paths):
    window = console()
    window.open("?period=hour")
    headings = window.page.locator("#main th[scope=col] + th")
    assert headings.count() >= 2
    assert min(headings.evaluate_all("all => all.map(th => parseFloat(getComputedStyle(th).paddingLeft))")) >= 8


def test_the_overview_shows_costs_to_their_end(console, world):
    """A line such as "+ 1 request without a price" was as wide as the table, and cut off the column."""
    world.provider()
    world.allow()
    world.entry(world.ask())
    window = console()

    def is_counted() -> bool:
        window.open("?period=hour")
        return "without a price" in window.page.get_by_role("region", name="Top users", exact=True).inner_text()

    world.until(is_counted, seconds=30)
    for title in ("Top users", "Top models", "Providers"):
        table = window.page.get_by_role("region", name=title, exact=True)
        assert "without a price" in table.inner_text(), title
        assert table.evaluate("table => table.scrollWidth <= table.clientWidth"), title


def test_the_log_has_room_for_its_widest_entry(console, orm):
    """A long status pushed the column Duration out of sight."""
    entry = LogEntry.objects.create(
        entry_type="WorkRequest", outcome="failed", status=503, exception="ContextLengthExceeded", key_name="W" * 20,
        username="W" * 20, model="W" * 20, provider_name="W" * 20, input_tokens=128_512, output_tokens=12_345,
        cost="0.0000035", currency="USD", first_byte_ms=12_345, duration_ms=123_456,
    )  # fmt: skip
    window = console()
    window.open("telemetry/logentry/")
    cells = window.page.locator("#result_list tr", has_text="ContextLengthExceeded").first
    assert cells.locator(".field-duration").inner_text() == "123.5 s"
    assert cells.locator(".field-first_byte span").get_attribute("title") == "12,345 ms"
    box = cells.locator(".field-duration").bounding_box()
    table = window.page.locator("#result_list").evaluate(
        "list => list.closest('.simplebar-content-wrapper').clientWidth"
    )
    assert box["x"] + box["width"] <= window.page.locator("#result_list").bounding_box()["x"] + table + 1
    assert window.check() == []
    entry.delete()


def test_what_a_permission_grants_is_read_to_its_end(console):
    window = console()
    window.open("keys/apikey/add/")
    choices = window.page.locator(".field-permissions label span")
    assert choices.count() > 5
    assert choices.evaluate_all("all => all.filter(choice => choice.scrollWidth > choice.clientWidth).length") == 0


def test_a_search_that_is_too_long_is_told_so_where_it_stands(console):
    window = console()
    window.open("telemetry/logentry/")
    field = window.page.locator("#main input[name=q]")
    field.fill("x" * 5000)
    field.press("Enter")
    assert field.evaluate("field => field.validationMessage") == "This search term is too long."
    field.fill("short")
    with window.page.expect_navigation():
        field.press("Enter")
    assert "q=short" in window.page.url
    assert window.problems == []
