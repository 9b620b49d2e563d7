"""Pages without rows of their own are light and do not move; test_row_pages.py and test_me.py measure the others."""

import pytest
from django.utils import timezone

from telemetry.models import LogEntry
from tests.console.test_pages import forms, lists, pages
from tests.support.console.scale import Scale

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
@pytest.mark.parametrize("paths", [pages, *(pytest.param(slow, marks=pytest.mark.slow) for slow in (lists, forms))])
def test_pages_are_light_and_stand_still(console, entries, paths):
    window = console()
    for path in FIRST_VISIT:
        window.open(path)
    scale = Scale(window)
    for path in (*paths(), f"telemetry/logentry/{entries.first().pk}/change/"):
        scale.open(path)
    assert scale.problems() == {}
