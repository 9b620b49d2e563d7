"""The audit: every change and login is a row of it, which only retention removes, and each row proves those before."""

import json
import logging
import threading
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, connections, transaction
from django.utils import timezone

from accounts.services import create_group
from providers.models import ProviderFormat
from telemetry.audit import retention
from telemetry.audit.chain import AuditRecord
from telemetry.audit.head import latest_head, read_head
from telemetry.audit.models import AuditEntry, AuditSegment
from telemetry.audit.recording import append_record
from telemetry.audit.retention import delete_segment
from telemetry.audit.verification import verify_chain
from tests.support.management import PASSWORD, new_user, refused

pytestmark = [pytest.mark.either_store, pytest.mark.django_db(transaction=True)]
NAMES = ("id", "userId", "keyId", "resourceId", "timestamp", "requestId", "hash", "previousHash", "address")


@pytest.fixture(autouse=True)
def empty_audit(db):
    AuditEntry.objects.all().delete()
    AuditSegment.objects.all().delete()


def event(number: int = 1, moment: datetime | None = None) -> AuditEntry:
    record = AuditRecord(
        moment or timezone.now(), "ann", 1, None, "update", "rules", number, f"Event {number}.",
        "null", '{"name":"x"}', "", "",
    )  # fmt: skip
    return append_record(record)


def newest() -> AuditEntry:
    entry = AuditEntry.objects.order_by("-id").first()
    assert entry is not None
    return entry


class TestRows:
    def test_a_change_is_a_row_with_the_values_before_and_after(self, admin):
        group = create_group(name="audited")
        response = admin.patch(f"/groups/{group.pk}/", name="renamed")
        assert response.status_code == 200, response.text
        (row, *_) = admin.rows(f"/audit/?resource=groups&resourceId={group.pk}")
        assert {name for name in NAMES if name in row} == set(NAMES)
        assert (row["action"], row["resource"], row["resourceId"]) == ("update", "groups", group.pk)
        assert row["before"]["name"] == "audited"
        assert row["after"]["name"] == "renamed"
        assert row["requestId"]
        assert "changed groups" in row["message"]

    def test_secrets_are_in_no_row(self, admin):
        secret = "sk-canary-0123456789abcdef"
        format_id = ProviderFormat.objects.get(name="openai").pk
        attributes = {"url": "https://api.example.org/v1", "authMethod": "bearer", "formatId": format_id}
        response = admin.post("/providers/", name="audited", apiKey=secret, **attributes)
        assert response.status_code == 201, response.text
        rows = AuditEntry.objects.filter(resource="providers")
        assert rows
        assert not any(secret in f"{row.before}{row.after}{row.message}" for row in rows)

    def test_logins_and_refused_logins_are_rows(self, nobody, ann):
        for password in ("wrong", PASSWORD):
            nobody.post("/auth/login/", grantType="password", userName=ann.username, password=password)
        messages = AuditEntry.objects.in_chain_order().values_list("message", "action", "actor")
        assert list(messages) == [
            (f"The password for {ann.username} was wrong.", "login", ann.username),
            (f"{ann.username} logged in.", "login", ann.username),
        ]

    def test_each_row_has_the_hash_of_the_one_before(self):
        first, second = event(1), event(2)
        assert first.previous_hash == "0" * 64
        assert second.previous_hash == first.hash
        assert verify_chain().problem == ""

    def test_a_change_that_is_undone_leaves_no_row(self):
        with pytest.raises(RuntimeError), transaction.atomic():
            event()
            raise RuntimeError
        assert not AuditEntry.objects.exists()

    def test_concurrent_changes_make_one_chain(self):
        threads = [threading.Thread(target=self._events) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        result = verify_chain()
        assert (result.rows, result.problem) == (40, "")

    @staticmethod
    def _events():
        try:
            for number in range(10):
                event(number)
        finally:
            connections.close_all()

    def test_the_head_is_in_the_log_file_and_known_for_the_metrics(self, caplog):
        with caplog.at_level(logging.INFO, "gateway.audit"):
            entry = event()
        assert f"Audit entry {entry.pk} has the hash {entry.hash}." in caplog.messages
        assert latest_head() == (entry.pk, entry.hash)
        read_head()
        assert latest_head() == (entry.pk, entry.hash)


class TestApi:
    def test_it_is_read_only_and_needs_its_feature(self, nobody, admin):
        entry = event()
        with_feature, without = new_user("audit.view"), new_user("logs.view_all")
        assert nobody.as_user(with_feature).get(f"/audit/{entry.pk}/").status_code == 200
        refused(nobody.as_user(without).get("/audit/"), 403, "PermissionDenied", "audit.view")
        refused(nobody.get("/audit/"), 401, "AuthenticationFailed")
        for method in ("POST", "PATCH", "DELETE"):
            assert admin.send(method, f"/audit/{entry.pk}/").status_code == 405

    def test_newest_first_with_filters(self, admin):
        events = [event(number) for number in range(3)]
        rows = admin.rows("/audit/?resource=rules")
        assert [row["id"] for row in rows] == [entry.pk for entry in reversed(events)]
        assert [row["resourceId"] for row in admin.rows("/audit/?resource=rules&resourceId=1")] == [1]
        assert admin.rows("/audit/?actor=nobody-of-this-name") == []
        assert [row["message"] for row in admin.rows("/audit/?search=Event 2")] == ["Event 2."]
        refused(admin.get("/audit/?actr=ann"), 400, "ValidationError", "actr")

    def test_the_search_finds_values_that_json_escapes(self, admin):
        record = event().link.record
        append_record(record._replace(before=json.dumps({"regex": r'gpt-5\.1 "mini"'})))
        for text in (r"gpt-5\.1", '"MINI"', '"regex":'):
            assert len(admin.rows(f"/audit/?search={quote(text)}")) == 1


class TestVerification:
    def test_the_first_changed_row_is_named(self):
        first, second, _ = (event(number) for number in range(3))
        AuditEntry.objects.filter(pk=second.pk).update(actor="mallory")
        assert f"breaks at row {second.pk}" in verify_chain().problem
        with pytest.raises(CommandError, match=f"row {second.pk}"):
            call_command("audit", "verify")
        AuditEntry.objects.filter(pk=first.pk).delete()
        assert f"breaks at row {second.pk}" in verify_chain().problem

    def test_rows_that_are_missing_at_the_end_are_noticed_by_a_known_head(self):
        event(1)
        last = event(2)
        assert verify_chain(expected_head=last.hash).problem == ""
        last.delete()
        assert verify_chain().problem == ""
        assert last.hash in verify_chain(expected_head=last.hash).problem

    def test_the_command_names_the_head(self, capsys):
        entry = event()
        call_command("audit", "verify")
        assert entry.hash in capsys.readouterr().out

    def test_an_exported_line_is_a_row(self, capsys):
        entries = [event(number) for number in range(3)]
        call_command("audit", "export")
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [line["hash"] for line in lines[:-1]] == [entry.hash for entry in entries]
        assert (lines[-1]["action"], lines[-1]["hash"]) == ("export", newest().hash)


class TestRetention:
    def days_ago(self, days: int) -> datetime:
        return timezone.now() - timedelta(days=days)

    def test_it_is_kept_for_ever_by_default(self):
        event(1, self.days_ago(4000))
        assert not delete_segment(timezone.now())
        assert AuditEntry.objects.count() == 1

    def test_whole_months_go_and_the_chain_holds(self, settings):
        settings.GATEWAY_AUDIT_DAYS = 100
        old = [event(number, datetime(2020, month, 3, tzinfo=UTC)) for number, month in enumerate((1, 1, 2))]
        young = event(9)
        while delete_segment(timezone.now()):
            pass
        assert list(AuditSegment.objects.values_list("rows", flat=True)) == [2, 1]
        remaining = list(AuditEntry.objects.in_chain_order())
        assert remaining[0].pk == young.pk
        assert [row.resource for row in remaining[1:]] == ["audit", "audit"]
        assert old[1].hash in remaining[1].message
        result = verify_chain(expected_head=old[1].hash)
        assert (result.segments, result.problem) == (2, "")

    def test_a_large_month_goes_in_several_transactions(self, settings, monkeypatch):
        settings.GATEWAY_AUDIT_DAYS = 100
        monkeypatch.setattr(retention, "SEGMENT_ROWS", 3)
        old = [event(number, datetime(2020, 1, 3, tzinfo=UTC)) for number in range(7)]
        event(9)
        assert delete_segment(timezone.now())
        assert AuditEntry.objects.count() == 4 + 1 + 1  # the others, the young one and what retention did
        assert verify_chain(expected_head=old[2].hash).problem == ""
        while delete_segment(timezone.now()):
            pass
        assert list(AuditSegment.objects.values_list("rows", flat=True)) == [3, 3, 1]
        assert verify_chain(expected_head=old[-1].hash).problem == ""
        assert AuditEntry.objects.count() == 1 + 3

    def test_rows_that_retention_removes_during_a_verification_are_no_break(self, settings):
        settings.GATEWAY_AUDIT_DAYS = 100
        event(1, datetime(2020, 1, 3, tzinfo=UTC))
        event(2)
        pending = [delete_segment]

        def removing_rows(links):
            if pending:
                pending.pop()(timezone.now())
            yield from links

        result = verify_chain(counting=removing_rows)
        assert (result.problem, result.segments, result.rows) == ("", 1, 2)

    def test_a_row_of_a_clock_that_was_set_back_takes_no_young_rows_along(self, settings):
        settings.GATEWAY_AUDIT_DAYS = 100
        old = datetime(2020, 1, 3, tzinfo=UTC)
        _, *others = [event(number, moment) for number, moment in enumerate((old, None, old, None))]
        while delete_segment(timezone.now()):
            pass
        remaining = AuditEntry.objects.in_chain_order().values_list("pk", flat=True)
        assert list(remaining[:3]) == [entry.pk for entry in others]
        assert list(AuditSegment.objects.values_list("rows", flat=True)) == [1]
        assert verify_chain().problem == ""

    def test_a_month_that_is_not_old_enough_as_a_whole_stays(self, settings):
        settings.GATEWAY_AUDIT_DAYS = 100
        now = datetime(2026, 11, 24, tzinfo=UTC)
        event(1, datetime(2026, 8, 2, tzinfo=UTC))
        assert not delete_segment(now)
        assert delete_segment(datetime(2026, 12, 31, tzinfo=UTC))

    def test_a_forged_segment_is_noticed(self, settings):
        settings.GATEWAY_AUDIT_DAYS = 100
        event(1, datetime(2020, 1, 3, tzinfo=UTC))
        event(2)
        delete_segment(timezone.now())
        AuditSegment.objects.update(hash="f" * 64)
        assert "breaks at row" in verify_chain().problem
        AuditSegment.objects.update(previous_hash="e" * 64)
        assert "does not continue" in verify_chain().problem

    def test_the_segments_stand_in_the_chain(self, settings):
        settings.GATEWAY_AUDIT_DAYS = 100
        old = event(1, datetime(2020, 1, 3, tzinfo=UTC))
        assert delete_segment(timezone.now())
        facts = json.loads(newest().after)
        assert len(facts.pop("digest")) == 64
        assert facts == {"firstId": old.pk, "lastId": old.pk, "rows": 1, "hash": old.hash, "segments": 1}

    def test_all_rows_may_go(self, settings):
        settings.GATEWAY_AUDIT_DAYS = 1
        event(1, datetime(2020, 1, 3, tzinfo=UTC))
        assert delete_segment(timezone.now())
        assert AuditEntry.objects.count() == 1  # what retention did
        assert verify_chain().problem == ""


class TestBeginning:
    """Whoever can write to the database deletes the first rows, and makes up a segment with the right hashes."""

    NOT_PROVEN = "The beginning of the chain is not proven"

    def forge_segment(self, rows: list[AuditEntry]) -> None:
        AuditSegment.objects.create(
            first_id=rows[0].pk, last_id=rows[-1].pk, rows=len(rows), begins=rows[0].timestamp,
            ends=rows[-1].timestamp, previous_hash=rows[0].previous_hash, hash=rows[-1].hash,
        )  # fmt: skip
        AuditEntry.objects.filter(pk__lte=rows[-1].pk).delete()

    def test_a_segment_that_retention_has_not_made_is_noticed(self):
        rows = [event(number) for number in range(5)]
        self.forge_segment(rows[:3])
        assert self.NOT_PROVEN in verify_chain().problem
        assert self.NOT_PROVEN in verify_chain(expected_head=rows[-1].hash).problem
        with pytest.raises(CommandError, match=self.NOT_PROVEN):
            call_command("audit", "verify")

    def test_so_is_one_after_those_of_retention(self, settings):
        settings.GATEWAY_AUDIT_DAYS = 100
        rows = [event(1, datetime(2020, 1, 3, tzinfo=UTC)), *(event(number) for number in range(4))]
        assert delete_segment(timezone.now())
        assert verify_chain().problem == ""
        self.forge_segment(rows[1:3])
        assert self.NOT_PROVEN in verify_chain().problem

    def test_so_is_one_that_takes_the_entry_about_retention_along(self, settings):
        settings.GATEWAY_AUDIT_DAYS = 100
        rows = [event(1, datetime(2020, 1, 3, tzinfo=UTC)), event(2)]
        assert delete_segment(timezone.now())
        rows = [*rows[1:], newest()]
        event(3)
        self.forge_segment(rows)
        assert self.NOT_PROVEN in verify_chain().problem

    @pytest.mark.parametrize("column", ["first_id", "last_id", "rows"])
    def test_so_is_a_changed_segment(self, settings, column):
        settings.GATEWAY_AUDIT_DAYS = 100
        for month in (1, 2):
            event(month, datetime(2020, month, 3, tzinfo=UTC))
        while delete_segment(timezone.now()):
            pass
        assert verify_chain().problem == ""
        first = AuditSegment.objects.order_by("last_id")[0]
        AuditSegment.objects.filter(pk=first.pk).update(**{column: getattr(first, column) - 1})
        assert self.NOT_PROVEN in verify_chain().problem

    def test_segments_of_versions_without_a_digest_are_proven_by_the_message_about_them(self):
        rows = [event(number) for number in range(2)]
        segment = f"1 audit entries, {rows[0].pk} to {rows[0].pk}; the last hash is {rows[0].hash}."
        message = f"Retention removed {segment}"
        append_record(AuditRecord(
            timezone.now(), "", None, None, "destroy", "audit", None, message, "null", "null", "", ""
        ))  # fmt: skip
        self.forge_segment(rows[:1])
        assert verify_chain().problem == ""
        AuditSegment.objects.update(rows=2)
        assert self.NOT_PROVEN in verify_chain().problem


def test_sqlite_serializes_writers_and_postgresql_takes_a_lock():
    """Otherwise two rows could follow one: the database refuses that, too."""
    entry = event()
    with pytest.raises(Exception, match="(?i)unique"), transaction.atomic(), connection.cursor():
        AuditEntry.objects.create(action="x", resource="y", previous_hash=entry.previous_hash, hash="0" * 64)
