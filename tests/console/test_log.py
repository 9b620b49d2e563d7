"""The log in the browser: found, read, exported, and never executed."""

import pytest

from telemetry.models import EntryType, LogEntry
from tests.console.conftest import LOOKS

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=document.title='owned'>"


@pytest.fixture
def entry(orm) -> LogEntry:
    made = LogEntry.objects.create(
        entry_type=EntryType.WORK_REQUEST,
        message=HOSTILE,
        model=f"={HOSTILE}",
        username=HOSTILE,
        outcome="completed",
        status=200,
        payload='{"request": {"messages": "' + HOSTILE.replace('"', "'") + '"}, "response": "hello"}',
        stages=[["auth", 0.0, 1.0], ["provider", 1.0, 9.0]],
        candidates=[[HOSTILE, "failed", f"ProviderError: {HOSTILE}"], ["west", "answered", ""]],
        rule_id=1,
        rule_name=HOSTILE,
        duration_ms=10.0,
        tags={"team": "blue"},
        correlation_id="browser-1",
    )
    yield made
    made.delete()


@pytest.mark.parametrize("look", LOOKS)
def test_an_entry_is_whole_and_shows_hostile_text_as_text(console, look, entry):
    window = console(look)
    for path in ("telemetry/logentry/", f"telemetry/logentry/{entry.pk}/change/", "telemetry/logentry/tail/"):
        window.open(path)
        assert window.check() == []
        assert window.page.title() != "owned"
        assert "<script>" in window.page.inner_text("#main")


def test_an_entry_tells_of_the_rule_and_of_each_provider_that_was_considered(console, entry):
    window = console()
    window.open(f"telemetry/logentry/{entry.pk}/change/")
    page = window.page
    rows = page.locator("[data-candidates] li").all_inner_texts()
    assert [row.lower().split("\n")[:2] for row in rows] == [[HOSTILE.lower(), "failed"], ["west", "answered"]]
    assert f"ProviderError: {HOSTILE}" in rows[0]
    assert page.get_by_role("link", name=HOSTILE).first.get_attribute("href") == "/admin/rules/rule/1/change/"


def test_filters_find_it_and_the_export_holds_it(console, entry):
    window = console()
    window.open("telemetry/logentry/?tag=team%3Dblue")
    assert window.page.locator("#result_list tbody tr").count() == 1
    window.open("telemetry/logentry/?tag=team%3Dred")
    assert window.page.locator("#result_list tbody tr").count() == 0
    window.open("telemetry/logentry/?tag=team%3Dblue")
    with window.page.expect_download() as file:
        window.page.get_by_text("Export as CSV").click()
    rows = file.value.path().read_text().splitlines()
    assert rows[0].startswith("id,timestamp")
    assert "browser-1" in rows[1]
    assert "'=<script>" in rows[1]  # no spreadsheet takes it for a formula
    with window.page.expect_download() as file:
        window.page.get_by_text("Export as JSON Lines").click()
    assert '"correlation_id":"browser-1"' in file.value.path().read_text()
