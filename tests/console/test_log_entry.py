"""The page of one entry of the log or the audit: its neighbours, what can be copied, and its time in two zones."""

import json
import re
from datetime import timedelta

import pytest

from accounts.access_requests.models import AccessRequest, RequestKind
from telemetry.audit.chain import AuditRecord
from telemetry.audit.models import AuditEntry
from telemetry.audit.recording import append_record
from telemetry.models import EntryType, LogEntry
from tests.console.conftest import LOOKS, stand_still
from tests.support.thoroughness import first_of

REQUEST, RESPONSE = {"model": "m", "prompt": "<b>Capital</b> of\nPortugal?"}, {"answer": "Lisbon – “here”"}
MOMENT = "2001-01-05T22:30:15Z"
# The date, where it is not that of UTC, and the time there.
ZONES = {"Asia/Tokyo": ("Jan 6", "07:30:15"), "America/New_York": ("", "05:30:15"), "UTC": ("", "")}


@pytest.fixture
def entries(orm) -> list[LogEntry]:
    """Three requests that are older than all others, with a message between them, which is no neighbour."""
    rows = [
        LogEntry.objects.create(
            entry_type=entry_type,
            timestamp=f"2001-01-05T22:30:{second}Z",
            message=f"entry {second}",
            payload=json.dumps({"request": REQUEST, "response": RESPONSE}),
        )
        for second, entry_type in ((14, EntryType.WORK_REQUEST), (15, EntryType.WORK_REQUEST), (16, EntryType.MESSAGE),
                                   (17, EntryType.WORK_REQUEST))
    ]  # fmt: skip
    yield [row for row in rows if row.entry_type == EntryType.WORK_REQUEST]
    for row in rows:
        row.delete()


def page_of(entry: LogEntry) -> str:
    return f"telemetry/logentry/{entry.pk}/change/"


@pytest.mark.parametrize("has_scripts", first_of(True, False))
def test_previous_and_next_lead_from_request_to_request(visitor, entries, has_scripts):
    first, second, third = entries
    window = visitor(java_script_enabled=has_scripts)
    window.sign_in()
    window.open(page_of(first))
    main = window.page.locator("#main")
    assert main.get_by_role("link", name="Previous", exact=True).count() == 0
    for link, entry in (("Next", second), ("Next", third), ("Previous", second), ("Previous", first)):
        main.get_by_role("link", name=link, exact=True).click()
        stand_still(window.page)
        assert window.page.url.endswith(f"/admin/{page_of(entry)}")
        assert entry.message in main.inner_text()
    assert window.problems == []


def test_the_last_request_has_no_next(console, entries):
    newest = LogEntry.objects.create(entry_type=EntryType.WORK_REQUEST, timestamp="2090-01-01T00:00:00Z")
    try:
        window = console()
        window.open(page_of(newest))
        links = window.page.locator("#main")
        assert links.get_by_role("link", name="Previous", exact=True).count() == 1
        assert links.get_by_role("link", name="Next", exact=True).count() == 0
    finally:
        newest.delete()


@pytest.mark.parametrize(("side", "body"), [("request", REQUEST), ("response", RESPONSE)])
def test_the_button_copies_the_whole_body(console, entries, side, body):
    window = console()
    window.open(page_of(entries[0]))
    page = window.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = page.locator(f"[data-copy={side}-text]")
    assert button.inner_text() == "Copy"
    button.click()
    page.wait_for_function(
        "side => document.querySelector(`[data-copy=${side}-text]`).textContent === 'Copied'", arg=side
    )
    assert json.loads(page.evaluate("navigator.clipboard.readText()")) == body
    assert window.problems == []


def test_without_a_clipboard_the_text_is_selected(console, entries):
    window = console()
    window.page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    window.open(page_of(entries[0]))
    window.page.locator("[data-copy=response-text]").click()
    window.page.locator("[data-copy=response-text]", has_text="Selected").wait_for()
    assert json.loads(window.page.evaluate("getSelection().toString()")) == RESPONSE
    assert window.problems == []


@pytest.fixture
def audit_entry(orm) -> AuditEntry:
    moment = AuditEntry._meta.get_field("timestamp").to_python(MOMENT)
    record = AuditRecord(moment, "ann", 1, None, "update", "rules", 7, "A change", "{}", "{}", "127.0.0.1", "audit-2")
    return append_record(record)


@pytest.mark.parametrize(
    ("look", "zone"),
    first_of(
        ("phone", "Asia/Tokyo"), ("light", "UTC"), ("light", "Asia/Tokyo"), ("dark", "Asia/Tokyo"),
        ("light", "America/New_York"), values=2,
    ),
)  # fmt: skip
def test_an_entry_has_the_browsers_own_time_beside_utc(visitor, entries, audit_entry, look, zone):
    date, time = ZONES[zone]
    window = visitor(look, timezone_id=zone, locale="en-US")
    window.sign_in()
    for path in (page_of(entries[1]), f"telemetry/auditentry/{audit_entry.pk}/change/"):
        window.open(path)
        text = window.page.locator("#main dd time").inner_text().splitlines()
        assert text[0] == "2001-01-05 22:30:15.000000"
        assert len(text) == (2 if time else 1)
        assert all(part in text[-1] for part in (date, time, "local") if time)
        assert window.check() == []


def test_times_of_all_other_pages_have_it_too(visitor, entries, audit_entry):
    window = visitor(timezone_id="Asia/Tokyo", locale="en-US")
    window.sign_in()
    times = {
        "accounts/session/": "#result_list .field-created_at time",
        "telemetry/logentry/tail/?timestamp_to_0=2001-01-05": "tbody[data-refresh] time",
        "../me/account/": "main td time",
    }
    for path, place in times.items():
        window.page.goto(f"{window.url}/admin/{path}")
        window.page.locator(place).first.locator(".console-local", has_text="local").wait_for()
    window.page.set_viewport_size(LOOKS["phone"]["viewport"])
    window.open("telemetry/logentry/?timestamp_to_0=2001-01-05")
    row = window.page.locator("#result_list tr.data-row").first
    assert "2001-01-05 22:30:17 Jan 6, 07:30 AM local" in row.inner_text()
    assert row.bounding_box()["height"] < 70  # two lines
    assert window.check() == []


def test_the_histogram_hours_of_usage_and_access_requests_have_it_too(visitor, world):
    world.provider()
    world.allow()
    entry = world.entry(world.ask())
    asked = AccessRequest.objects.create(user=world.user, kind=RequestKind.MODEL, model="wanted", reason="to try it")
    window = visitor(timezone_id="Asia/Tokyo", locale="en-US")
    window.sign_in()
    page = window.page
    window.open("telemetry/logentry/")
    assert page.locator("[data-histogram] figcaption .console-local", has_text="local").count() == 2
    first, last = (span.bounding_box() for span in page.locator("[data-histogram] figcaption div > span").all())
    assert (first["y"], first["x"] + first["width"] < last["x"]) == (last["y"], True)  # at both ends of one line
    bar = page.locator("[data-histogram] a").last
    hour = f"{entry.timestamp + timedelta(hours=9):%I}:00"
    for title in (bar.get_attribute("aria-label"), bar.locator("title").text_content()):
        assert f":00 UTC ({hour}" in re.sub(r"\(\w+ \d+, ", "(", title)
        assert "local): " in title
    for path, place in {
        f"statistics/?by=hour&user={world.user.pk}": "#main tbody th time",
        f"accounts/accessrequest/?user={world.user.username}": "#result_list .field-moment time",
    }.items():
        window.open(path)
        assert page.locator(place, has=page.locator(".console-local")).count() >= 1, path
        assert window.check() == [], path
    asked.delete()


def test_times_of_the_lists_have_it_too(visitor, entries, audit_entry):
    window = visitor(timezone_id="Asia/Tokyo", locale="en-US")
    window.sign_in()
    for path in ("telemetry/logentry/?timestamp_to_0=2001-01-05", "telemetry/auditentry/?request=audit-2"):
        window.open(path)
        first = window.page.locator("#result_list .field-moment time").first
        assert first.inner_text().startswith("2001-01-05 22:30:1")
        assert "Jan 6, 07:30:1" in first.inner_text()
        assert window.check() == []
