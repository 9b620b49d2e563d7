"""What is old enough goes, in small pieces and by one process at a time; what is younger, and usage, stays."""

import threading
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from gateway_project.api.audit import record_command
from telemetry.audit.models import AuditEntry
from telemetry.journal.batches import insert_log_entries
from telemetry.models import CacheEntry, LogEntry, UsageDay, UsageHour
from telemetry.retention import deletion, partitions
from telemetry.retention.housekeeping import Housekeeper, hold_task_lock
from telemetry.usage import rollups
from telemetry.usage.verification import differences, full_hours
from tests.support.promises import promise
from tests.support.usage_entries import done
from tests.telemetry.retention.conftest import DAY, NOW, aged, house, on_postgresql, stored_ids
from tests.telemetry.usage.test_rollups import totals

pytestmark = pytest.mark.django_db(transaction=True)


class TestEntries:
    def test_for_ever_unless_told(self):
        insert_log_entries([aged(5000)])
        house()
        assert stored_ids() == ["5000"]

    @pytest.mark.long
    def test_beyond_their_days_they_go_and_their_usage_stays(self, settings):
        settings.GATEWAY_LOG_DAYS = 30
        partitions.create_ahead(NOW - 60 * DAY)
        insert_log_entries([aged(days, input_tokens=7) for days in (0, 29, 32, 45, 400)])
        house()
        assert stored_ids() == ["0", "29"]
        assert totals()["input_tokens"] == 35

    def test_more_than_a_batch(self, settings, monkeypatch):
        monkeypatch.setattr(deletion, "BATCH", 10)
        settings.GATEWAY_LOG_DAYS = 1
        insert_log_entries([aged(500, f"r{number}") for number in range(35)])
        assert [deletion.delete_entries(NOW) for _ in range(4)] == [True, True, True, False]
        assert stored_ids() == []

    @pytest.mark.long
    def test_usage_is_compared_with_what_the_log_still_has(self, settings):
        settings.GATEWAY_LOG_DAYS = 30
        insert_log_entries([aged(days) for days in (0, 10, 45, 400)])
        house()
        assert differences(*full_hours(None, None, NOW)) == []
        call_command("verify_usage")


class TestPayloads:
    @pytest.mark.long
    def test_they_go_before_their_entries(self, settings, monkeypatch):
        monkeypatch.setattr(deletion, "BATCH", 3)
        settings.GATEWAY_PAYLOAD_DAYS = 7
        insert_log_entries([aged(days, payload="secret") for days in (0, 6, 8, 9, 10, 11, 12, 500)])
        house()
        assert stored_ids() == sorted(["0", "6", "8", "9", "10", "11", "12", "500"])
        assert set(LogEntry.objects.filter(payload="secret").values_list("correlation_id", flat=True)) == {"0", "6"}

    def test_a_piece_of_work_looks_at_so_many_entries_whether_they_have_one_or_not(self, settings, monkeypatch):
        monkeypatch.setattr(deletion, "MAX_SCANNED", 4)
        settings.GATEWAY_PAYLOAD_DAYS = 7
        insert_log_entries([aged(8 + number, payload="secret" if number % 5 == 0 else "") for number in range(11)])
        insert_log_entries([aged(30, f"same moment {number}", payload="secret") for number in range(9)])
        empty = deletion.PayloadEraser()
        pieces = list(iter(lambda: empty(NOW), False))
        assert 3 <= len(pieces) <= 6
        assert not LogEntry.objects.exclude(payload="").exists()

    def test_changes_stay_out_of_the_messages_once_their_payloads_are_gone(self, settings):
        settings.GATEWAY_PAYLOAD_DAYS = 7
        record_command("update", "users", 5, attributes=("active",))
        LogEntry.objects.update(timestamp=NOW - 8 * DAY)
        insert_log_entries([aged(8, "notice", entry_type="Message", payload="secret")])
        house()
        assert set(LogEntry.objects.values_list("payload", flat=True)) == {"", '{"resource":null}'}
        assert [message.correlation_id for message in LogEntry.objects.messages()] == ["notice"]
        with CaptureQueriesContext(connection) as queries:
            deletion.PayloadEraser()(NOW)
        assert [query["sql"] for query in queries if query["sql"].startswith("UPDATE")] == []

    def test_what_was_looked_at_is_not_looked_at_again_until_the_next_day(self, settings, django_assert_num_queries):
        settings.GATEWAY_PAYLOAD_DAYS = 7
        empty = deletion.PayloadEraser()
        assert empty(NOW) is False
        insert_log_entries([aged(30, payload="came late")])
        assert empty(NOW + timedelta(hours=1)) is False
        assert LogEntry.objects.exclude(payload="").exists()
        empty(NOW + timedelta(hours=25))
        assert not LogEntry.objects.exclude(payload="").exists()


@promise(
    "Entries of unknown credentials have a retention of their own",
    target="others are kept",
    suite="attack",
)
def test_refusals_of_unknown_credentials_go_before_other_entries(settings):
    settings.GATEWAY_REFUSAL_DAYS = 7
    refused = {"status": 401, "exception": "AuthenticationFailed"}
    failed = {"status": 503, "exception": "ServiceUnavailable"}
    insert_log_entries(
        [
            *(aged(days, f"unknown {days}", **refused) for days in (6, 8, 30)),
            aged(30, "of a user", **refused, user_id=1),
            aged(30, "another error", status=403, exception="RuleDenied"),
            *(aged(days, f"full {days}", **failed) for days in (6, 30)),
            *(aged(days, f"login {days}", **refused, user_id=1, entry_type="Message") for days in (6, 30)),
            aged(30, "a cause", **failed, username="ann"),
        ]
    )
    erase = deletion.RefusalEraser()
    assert list(iter(lambda: erase(NOW), False)) == []
    assert stored_ids() == sorted(["unknown 6", "of a user", "another error", "full 6", "login 6", "a cause"])
    assert deletion.retention_start(NOW) == NOW - timedelta(days=7)


def test_records_of_answers_go_some_time_after_the_answers(settings):
    settings.GATEWAY_CACHE_RECORD_DAYS = 5
    for days in (-1, 1, 4, 6, 70):
        CacheEntry.objects.create(request_hash=f"{days}", expires_at=NOW - days * DAY)
    house()
    assert set(CacheEntry.objects.values_list("request_hash", flat=True)) == {"-1", "1", "4"}
    settings.GATEWAY_CACHE_RECORD_DAYS = 0
    CacheEntry.objects.create(request_hash="old", expires_at=NOW - 700 * DAY)
    house()
    assert CacheEntry.objects.count() == 4


class TestMerging:
    def merged(self, merge):
        """How many pieces of work there were."""
        return sum(iter(lambda: merge(NOW), False))

    def test_what_is_over_becomes_a_row_and_that_of_the_present_as_it_grows(self, monkeypatch):
        for _ in range(3):
            insert_log_entries([done("past", NOW - timedelta(days=2)), done("now", NOW)])
        assert (self.merged(deletion.merge_hours), UsageHour.objects.count()) == (1, 4)
        monkeypatch.setattr(deletion, "MAX_UNMERGED", 2)
        assert (self.merged(deletion.merge_hours), UsageHour.objects.count()) == (1, 2)
        for _ in range(2):
            insert_log_entries([done("past", NOW - timedelta(days=2)), done("now", NOW)])
        assert (self.merged(deletion.merge_hours), UsageHour.objects.count()) == (1, 4)
        assert totals()["requests"] == 10
        assert differences(*full_hours(None, None, NOW)) == []

    def test_so_do_days(self, monkeypatch):
        for _ in range(3):
            insert_log_entries([done("past", NOW - timedelta(days=2)), done("now", NOW)])
            for hour in UsageHour.objects.filter(merged=False).values_list("hour", flat=True):
                rollups.merge_hour(hour)
        assert (self.merged(deletion.merge_days), UsageDay.objects.count()) == (1, 4)
        monkeypatch.setattr(deletion, "MAX_UNMERGED", 2)
        assert (self.merged(deletion.merge_days), UsageDay.objects.count()) == (1, 2)
        assert {day.requests for day in UsageDay.objects.all()} == {3}
        assert differences(*full_hours(None, None, NOW)) == []


class TestOneAtATime:
    def test_a_task_that_fails_is_logged_and_the_others_run(self, caplog, monkeypatch):
        runs = []
        tasks = {"broken": lambda now: 1 / 0, "away": self.away, "good": runs.append}
        monkeypatch.setattr("telemetry.retention.housekeeping.batches", lambda: tasks)
        assert Housekeeper(interval=60).run_to_the_end() == ["broken", "away"]
        assert len(runs) == 1
        assert "The task broken failed" in caplog.text
        levels = {record.levelname for record in caplog.records if record.message.startswith("The task away waits")}
        assert levels == {"INFO"}, "a busy database is normal"

    @on_postgresql
    def test_the_command_says_what_it_could_not_do(self):
        CacheEntry.objects.create(request_hash="old", expires_at=NOW - 7000 * DAY)
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE telemetry_cacheentry RENAME TO elsewhere")
        try:
            with pytest.raises(CommandError, match=r"^These tasks failed: cache records\.$"):
                house()
        finally:
            with connection.cursor() as cursor:
                cursor.execute("ALTER TABLE elsewhere RENAME TO telemetry_cacheentry")

    def away(self, now):
        raise OperationalError("canceling statement due to lock timeout")

    def test_a_thread_does_it_by_itself_and_stops(self, settings):
        settings.GATEWAY_CACHE_RECORD_DAYS = 5
        CacheEntry.objects.create(request_hash="old", expires_at=NOW - 70 * DAY)
        keeper = Housekeeper(interval=0.01)
        keeper.start()
        for _ in range(500):
            if not CacheEntry.objects.exists():
                break
            threading.Event().wait(0.02)
        keeper.stop()
        keeper._thread.join(10)
        assert not CacheEntry.objects.exists()

    @on_postgresql
    def test_while_one_process_is_at_it_another_leaves_it(self):
        entered, leave, observations = threading.Event(), threading.Event(), []

        def first():
            with hold_task_lock("entries") as acquired:
                observations.append(acquired)
                entered.set()
                leave.wait(10)
            connection.close()

        thread = threading.Thread(target=first)
        thread.start()
        entered.wait(10)
        with hold_task_lock("entries") as acquired:
            observations.append(acquired)
        with hold_task_lock("payloads") as acquired:
            observations.append(acquired)
        leave.set()
        thread.join(10)
        with hold_task_lock("entries") as acquired:
            observations.append(acquired)
        assert observations == [True, False, True, True]


class TestTheCommand:
    def test_it_says_that_the_difference_is_0(self, capsys):
        insert_log_entries([aged(days) for days in (0, 1, 5)])
        call_command("verify_usage")
        assert "the difference between log and usage is 0" in capsys.readouterr().out

    def test_it_fails_where_there_is_one_and_repairs_it(self, capsys):
        insert_log_entries([aged(days, input_tokens=1) for days in (0, 1, 5)])
        UsageHour.objects.filter(hour__lt=NOW - DAY).delete()
        with pytest.raises(CommandError, match="requests \\+1"):
            call_command("verify_usage")
        call_command("verify_usage", repair=True)
        assert "2 hours repaired" in capsys.readouterr().out
        assert " repaired 2 hours of usage, by manage.py. From " in AuditEntry.objects.get(action="repair").message
        call_command("verify_usage", repair=True)
        assert AuditEntry.objects.filter(action="repair").count() == 1, "nothing was repaired"

    def test_it_keeps_the_usage_of_entries_that_an_earlier_setting_deleted(self, capsys):
        insert_log_entries([aged(days) for days in (0, 5)])
        LogEntry.objects.filter(timestamp__lt=NOW - DAY).delete()
        period = {"start": NOW - 9 * DAY, "repair": True}
        with pytest.raises(CommandError, match="requests -1(.|\n)*its entries were most likely deleted"):
            call_command("verify_usage", **period)
        assert UsageHour.objects.count() == 2
        call_command("verify_usage", **period, allow_fewer=True)
        assert UsageHour.objects.count() == 1

    def test_a_period_can_be_told(self, capsys):
        insert_log_entries([aged(days) for days in (0, 1, 5)])
        UsageHour.objects.filter(hour__lt=NOW - 4 * DAY).delete()
        call_command("verify_usage", start=NOW - 2 * DAY)
        call_command("verify_usage", start=NOW - 9 * DAY, end=NOW - 7 * DAY)
        assert capsys.readouterr().out.count("is 0") == 2

    def test_a_period_without_an_hour_is_refused(self):
        """It would say that all is well of nothing."""
        with pytest.raises(CommandError, match="This period contains no hour"):
            call_command("verify_usage", start=NOW, end=NOW - 2 * DAY)

    @pytest.mark.parametrize(
        ("value", "told"),
        [
            ("yesterday", "'yesterday' is not a date or a date-time, as 2030-12-31"),
            ("0001-01-01", "not between the years 1970 and 9998"),
            ("9999-12-31T23:59:59-05:00", "not between the years 1970 and 9998"),
        ],
    )
    def test_a_time_that_is_none_or_beyond_all_counting_is_refused(self, value, told):
        for option in ("--from", "--to"):
            with pytest.raises(CommandError, match=told):
                call_command("verify_usage", option, value)

    def test_an_empty_log_is_no_error(self, capsys):
        call_command("verify_usage")
        assert "is 0" in capsys.readouterr().out


def test_hours_are_merged_without_the_rows_that_come_meanwhile():
    insert_log_entries([done("r1")])
    hour = UsageHour.objects.get().hour
    rollups.merge_hour(hour)
    insert_log_entries([done("r2")])
    rollups.merge_hour(hour)
    assert (UsageHour.objects.count(), totals()["requests"]) == (1, 2)
