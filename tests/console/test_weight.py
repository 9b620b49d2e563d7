"""What a page costs who looks at it: bytes that are transferred after the first visit, and parts that move."""

import pytest
from django.utils import timezone

from telemetry.models import LogEntry
from tests.console.test_pages import forms, lists, pages

MAX_BYTES = 150_000  # of a page and all that it loads, once the browser has seen the console
# What it loads there, style sheets, scripts and fonts, is kept: a page, a list with its filters, a form.
FIRST_VISIT = ("", "telemetry/logentry/", "accounts/user/add/", "playground/")
MAX_SHIFT = 0.02  # of the window, which nobody notices: web.dev calls up to 0.1 good
WATCH = """
  window.shift = 0;
  new PerformanceObserver(list => list.getEntries().forEach(entry => window.shift += entry.value))
    .observe({ type: 'layout-shift', buffered: true });
"""


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


@pytest.fixture
def measured(console, entries):
    """Opens a page once more: its path -> transferred bytes, and how far its parts moved."""
    window = console()
    window.page.add_init_script(WATCH)
    session = window.page.context.new_cdp_session(window.page)
    session.send("Network.enable")
    received = []
    session.on("Network.loadingFinished", lambda event: received.append(event["encodedDataLength"]))

    def measure(path: str) -> tuple[float, float]:
        received.clear()
        window.open(path)
        return sum(received), window.page.evaluate("window.shift")

    return measure


@pytest.mark.timeout(400)
def test_pages_are_light_and_stand_still(measured, entries):
    entry = f"telemetry/logentry/{entries.first().pk}/change/"
    for path in FIRST_VISIT:
        measured(path)
    figures = {path: measured(path) for path in [*pages(), *lists(), *forms(), entry]}
    assert min(size for size, _ in figures.values()) > 1000  # something was measured
    assert {path: size for path, (size, _) in figures.items() if size > MAX_BYTES} == {}
    assert {path: shift for path, (_, shift) in figures.items() if shift > MAX_SHIFT} == {}
