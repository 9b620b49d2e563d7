"""Limits in the browser: set, used, changed and deleted, as over the API."""

from decimal import Decimal

from keys.models import ApiKey
from licensing.models import Limit
from licensing.services import set_limit
from telemetry.models import LogEntry
from tests.console.conftest import stand_still
from tests.console.test_flows import choose, submit

HOSTILE = "<img src=x onerror=alert(1)>"


def messages() -> str:
    entries = LogEntry.objects.filter(entry_type="Message").values_list("message", "payload")
    return " ".join(f"{message} {payload}" for message, payload in entries)


def test_a_limit_is_set_used_changed_and_deleted(console, world):
    group = world.new_group(world.user)
    group.name = f"{HOSTILE} {group.name}"
    group.save()
    world.provider().answers(text="Lisbon")
    world.allow()
    window = console()
    page = window.page

    window.open("licensing/limit/add/")
    page.select_option("#id_subject", "group")
    choose(page, "group", group.name)
    page.select_option("#id_measure", "requests")
    page.select_option("#id_time_window", "day")
    page.fill("#id_amount", "4")
    submit(page)
    limit = Limit.objects.get(group=group)
    assert (limit.measure, limit.window, limit.amount) == ("requests", "day", 4)

    assert world.ask("Capital of Portugal?").status_code == 200
    window.open("licensing/limit/?for=group")
    row = page.locator("#result_list tbody tr", has_text=group.name).inner_text()
    assert "4 requests per day" in row
    assert "25 % used" in row
    assert "1 of 4, resets" in row
    window.open("licensing/limit/?for=key")
    assert page.locator("#result_list tbody tr", has_text=group.name).count() == 0

    window.open(f"licensing/limit/{limit.pk}/change/")
    page.fill("#id_amount", "8")
    assert window.check() == []
    submit(page)
    limit.refresh_from_db()
    assert limit.amount == 8

    window.open(f"licensing/limit/{limit.pk}/delete/")
    assert f"The limit of {group.name} is deleted" in page.inner_text("#main")
    assert window.check() == []
    page.click("#main [type=submit]")
    page.wait_for_load_state("networkidle")
    assert not Limit.objects.filter(pk=limit.pk).exists()
    assert window.problems == []
    for what in ("created", "changed", "deleted"):
        assert f"{what} limits {limit.pk}" in messages()


def test_what_is_concurrent_has_no_window_and_a_second_limit_of_a_kind_is_refused(console, world):
    user, window = world.user, console()
    page = window.page
    for result in ("was added successfully", "This user already has a limit of this measure and window"):
        window.open("licensing/limit/add/")
        page.select_option("#id_subject", "user")
        choose(page, "user", user.username)
        page.select_option("#id_measure", "concurrent")
        page.fill("#id_amount", "2")
        submit(page)
        assert result in page.inner_text("body")
    assert Limit.objects.get(user=user).window == "none"


def test_a_limit_is_for_somebody(console, world):
    window = console()
    window.open("licensing/limit/add/")
    window.page.select_option("#id_measure", "cost")
    window.page.select_option("#id_time_window", "month")
    window.page.fill("#id_amount", "0.25")
    submit(window.page)
    assert "Choose a key." in window.page.inner_text("#main")
    assert window.check() == []


def test_the_first_page_tells_of_one_that_is_nearly_used_up(console, world):
    world.provider().answers(text="Lisbon")
    world.allow()
    set_limit(user=world.user, measure="requests", window="month", amount=Decimal(1))
    assert world.ask().status_code == 200
    window = console()
    result = f"These limits are used up, or almost: {world.user.username}, 1 request per month (used up)"

    def shown() -> bool:
        window.open("")  # what the page has found it shows for some seconds
        return result in window.page.inner_text("#main")

    world.until(shown, seconds=60)


def test_a_key_is_made_together_with_its_limit(console, world):
    window = console()
    page = window.page
    window.open("keys/apikey/add/")
    page.fill("#id_name", name := world.name("limited"))
    choose(page, "owner", world.user.username)
    page.select_option("#id_limit_measure", "tokens")
    page.select_option("#id_limit_window", "month")
    page.fill("#id_limit_amount", "1.5")
    submit(page)
    row = page.locator(".field-limit_amount, .form-row:has(#id_limit_amount)").first
    assert "whole numbers" in row.inner_text()
    assert not ApiKey.objects.filter(name=name).exists()
    assert window.check() == []
    page.fill("#id_limit_amount", "150000")
    submit(page)
    assert page.inner_text("#key").startswith("svc_")
    limit = Limit.objects.get(key__name=name)
    assert (limit.measure, limit.window, limit.amount) == ("tokens", "month", 150_000)
    assert window.check() == []


def test_a_cost_limit_says_what_it_does_not_count_and_leads_to_the_form_for_the_price(console, world):
    scripted = world.provider()
    scripted.answers(text="Lisbon")
    world.allow()
    set_limit(user=world.user, measure="cost", window="month", amount=10, unpriced="ignore")
    world.entry(world.ask())
    window = console()
    page = window.page
    row = page.locator("#result_list tbody tr", has_text=world.user.username)

    def shown() -> bool:
        window.open("licensing/limit/?measure__exact=cost")
        return "+ 1 request without a price" in row.inner_text()

    world.until(shown)
    assert window.check() == []
    row.locator("text=without a price").click()
    stand_still(page)
    assert page.input_value("#id_model") == world.model
    assert page.input_value("#id_provider") == str(world.row(scripted).pk)
    assert window.problems == []
