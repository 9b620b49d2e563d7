"""Pages without rows of their own are light and do not move; test_row_pages.py and test_me.py measure the others."""

import pytest
from django.utils import timezone

from telemetry.models import LogEntry
from tests.console.test_pages import forms, lists, pages
from tests.support.console.scale import Scale
from tests.support.thoroughness import first_of

# Pages with times, to which a browser elsewhere adds its own.
TIMED_PAGES = (
    "", "telemetry/logentry/", "telemetry/logentry/?tab=messages", "telemetry/auditentry/", "accounts/session/",
    "keys/apikey/", "statistics/?by=hour", "system/",
)  # fmt: skip
# Pages that scripts complete: slow ones do it after the browser has shown the page.
SCRIPTED_PAGES = ("", "telemetry/logentry/", "statistics/?by=hour", "playground/")
# What the browser loads there, style sheets, scripts and fonts, is kept: a page, a list with its filters, a form.
FIRST_VISIT = ("", "telemetry/logentry/", "accounts/user/add/", "playground/")


@pytest.fixture
def entries(orm):
    """Enough entries that lists are full."""
    now = timezone.now()
    rows = [
        LogEntry(
            entry_type="WorkRequest", timestamp=now, username=f"user-{number}", key_name="key", model="gpt-4o-mini",
            provider_name="openai", outcome="completed", status=200, input_tokens=number, output_tokens=7,
            duration_ms=10.0, correlation_id=f"weight-{number}", payload='{"request": {}, "response": {}}',
        )
        for number in range(60)
    ]  # fmt: skip
    LogEntry.objects.bulk_create(rows)
    yield LogEntry.objects.filter(correlation_id__startswith="weight-")
    LogEntry.objects.filter(correlation_id__startswith="weight-").delete()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("paths", first_of(pages, lists, forms))
def test_pages_are_light_and_stand_still(console, entries, paths):
    window = console()
    for path in FIRST_VISIT:
        window.open(path)
    scale = Scale(window)
    for path in (*paths(), f"telemetry/logentry/{entries.first().pk}/change/"):
        scale.open(path)
    assert scale.problems() == {}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("look", first_of("phone", "light"))
def test_pages_stand_still_on_a_phone_and_where_local_times_are_added(visitor, entries, world, look):
    world.new_key()
    window = visitor(look, timezone_id="Asia/Tokyo")
    window.sign_in()
    scale = Scale(window)
    for path in FIRST_VISIT:
        window.open(path)
    for path in (*TIMED_PAGES, f"telemetry/logentry/{entries.first().pk}/change/"):
        scale.open(path)
    assert window.page.locator(".console-local").count() > 0
    assert scale.problems() == {}


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_pages_stand_still_where_scripts_are_slow(console, entries):
    window = console()
    for path in FIRST_VISIT:
        window.open(path)
    scale = Scale(window, slowdown=20)
    for path in SCRIPTED_PAGES:
        scale.open(path)
    assert scale.problems() == {}
