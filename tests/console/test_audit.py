"""The audit in the browser: what a change did, the export, and the proof that nothing was changed afterwards."""

import json

import pytest

from telemetry.audit.chain import AuditRecord
from telemetry.audit.models import AuditEntry
from telemetry.audit.recording import append_record
from tests.console.conftest import USERNAME, stand_still
from tests.support.hostile import HOSTILE

LIST = "telemetry/auditentry/"


@pytest.fixture
def entry(orm) -> AuditEntry:
    now = AuditEntry._meta.get_field("timestamp").get_default()
    before, after = (json.dumps({"name": name, "enabled": True}) for name in ("quiet", HOSTILE))
    return append_record(
        AuditRecord(now, HOSTILE, 1, None, "update", "rules", 7, HOSTILE, before, after, "127.0.0.1", "audit-1")
    )


def verify(window) -> str:
    """What the console says once the button was pressed."""
    window.open(LIST)
    window.page.click("text=Verify the chain")
    stand_still(window.page)
    window.page.click("button:has-text('Verify the chain')")
    stand_still(window.page)
    return window.page.inner_text("#main")


def test_an_entry_shows_what_changed_and_hostile_text_as_text(console, entry):
    window = console()
    for path in (LIST, f"{LIST}{entry.pk}/change/", f"{LIST}verify/"):
        window.open(path)
        assert window.check_looks() == {}, path
        assert window.page.title() != "owned"
    window.open(f"{LIST}{entry.pk}/change/")
    rows = window.page.locator("table tbody tr")
    assert [rows.nth(0).locator(cell).inner_text() for cell in ("th", "td >> nth=0", "td >> nth=1")] == [
        "name", "quiet", HOSTILE,
    ]  # fmt: skip
    assert rows.count() == 1  # what did not change is not shown


def test_the_button_proves_the_chain_and_names_the_first_broken_row(console, entry):
    window = console()
    assert "The chain holds" in verify(window)
    AuditEntry.objects.filter(pk=entry.pk).update(after="{}")
    try:
        assert f"breaks at row {entry.pk}" in verify(window)
    finally:
        AuditEntry.objects.filter(pk=entry.pk).update(after=entry.after)


def test_the_export_has_what_the_filters_select_and_is_an_entry_itself(administrator, entry):
    assert administrator.get(f"{LIST}export.jsonl").status_code == 405
    response = administrator.post(f"{LIST}export.jsonl?request=audit-1")
    rows = [json.loads(line) for line in response.text.splitlines()]
    assert {row["request_id"] for row in rows} == {"audit-1"}
    assert rows[-1]["hash"] == entry.hash
    exported = AuditEntry.objects.filter(action="export", resource="audit").order_by("-id")[0]
    assert json.loads(exported.after) == {"request": "audit-1"}


def test_who_enters_and_leaves_the_console_is_in_it(administrator, orm):
    administrator.post("logout/")
    newest = AuditEntry.objects.filter(resource="auth").order_by("-id").values_list("action", "actor")[:2]
    assert list(newest) == [("logout", USERNAME), ("login", USERNAME)]
