"""Partitions of the log: made ahead, and dropped once all in them is old enough."""

import itertools
import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import call_command
from django.db import OperationalError, connection, transaction
from django.utils import timezone

from telemetry.journal.batches import insert_log_entries
from telemetry.models import LogEntry
from telemetry.retention import partitions
from tests.support.usage_entries import done
from tests.telemetry.retention.conftest import DAY, NOW, aged, house, on_postgresql, stored_ids

pytestmark = pytest.mark.django_db(transaction=True)


@on_postgresql
class TestPartitions:
    def bounds(self):
        return [(partition.start, partition.end) for partition in partitions.partitions()]

    def test_a_migrate_makes_those_of_the_present_and_of_the_time_to_come(self):
        for partition in partitions.partitions():
            with connection.cursor() as cursor:
                cursor.execute(f'DROP TABLE "{partition.name}"')
        call_command("migrate", verbosity=0)
        result = self.bounds()
        month = NOW.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        assert result[0][0] == month
        assert result[-1][1] > NOW + 80 * DAY
        assert all(one[1] == other[0] for one, other in itertools.pairwise(result))
        assert partitions.create_ahead(timezone.now()) == 0

    def test_the_maintenance_makes_several_at_once(self, settings):
        settings.GATEWAY_LOG_DAYS = 30
        for partition in partitions.partitions():
            with connection.cursor() as cursor:
                cursor.execute(f'DROP TABLE "{partition.name}"')
        house()
        assert {end - start for start, end in self.bounds()} == {DAY}
        assert len(self.bounds()) == 1 + partitions.PERIODS_AHEAD

    def test_entries_of_few_days_are_kept_by_the_day(self, settings):
        settings.GATEWAY_LOG_DAYS = 30
        later = NOW + 200 * DAY
        partitions.create_ahead(later)
        assert {end - start for start, end in self.bounds()[-3:]} == {DAY}

    def test_those_of_more_days_by_the_week_and_of_many_by_the_month(self, settings):
        settings.GATEWAY_LOG_DAYS = 90
        begin = self.bounds()[-1][1]
        partitions.create_ahead(begin)
        weeks = [(start, end) for start, end in self.bounds() if start >= begin]
        assert weeks[0][0] == begin
        assert {end - start for start, end in weeks[1:]} == {7 * DAY}
        assert {start.weekday() for start, _ in weeks[1:]} == {0}
        assert weeks[-1][1] > begin + 21 * DAY
        settings.GATEWAY_LOG_DAYS = 365
        partitions.create_ahead(begin + 90 * DAY)
        months = [(start, end) for start, end in self.bounds() if start >= weeks[-1][1]]
        assert {start.day for start, _ in months} == {1}
        for periods in (weeks, months):
            assert all(one[1] == other[0] for one, other in itertools.pairwise(periods))

    def test_what_came_before_its_partition_moves_there(self):
        ahead = datetime(2031, 5, 3, tzinfo=UTC)
        insert_log_entries([done("r1", ahead), done("r2", ahead + 40 * DAY)])
        partitions.create(datetime(2031, 5, 1, tzinfo=UTC), datetime(2031, 6, 1, tzinfo=UTC))
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT correlation_id FROM {partitions.LOG}_20310501")
            assert cursor.fetchall() == [("r1",)]
            cursor.execute(f"SELECT correlation_id FROM {partitions.DEFAULT}")
            assert cursor.fetchall() == [("r2",)]
        assert LogEntry.objects.get(correlation_id="r1").pk < LogEntry.objects.create(correlation_id="r3").pk

    def test_a_partition_is_dropped_once_all_in_it_is_old(self, settings):
        settings.GATEWAY_LOG_DAYS = 30
        begin = NOW.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - 31 * DAY
        partitions.create(begin - DAY, begin)
        partitions.create(begin, begin + DAY)
        insert_log_entries([done("old", begin - timedelta(seconds=1)), done("young", begin + timedelta(seconds=1))])
        before = len(self.bounds())
        partitions.drop_before(begin)
        assert len(self.bounds()) == before - 1
        assert stored_ids() == ["young"]

    def test_readers_are_not_waited_for(self):
        partitions.create(datetime(2001, 1, 1, tzinfo=UTC), datetime(2001, 2, 1, tzinfo=UTC))
        entered, leave = threading.Event(), threading.Event()

        def read():
            with transaction.atomic():
                list(LogEntry.objects.all()[:1])
                entered.set()
                leave.wait(20)
            connection.close()

        thread = threading.Thread(target=read)
        thread.start()
        entered.wait(10)
        with pytest.raises(OperationalError, match="lock timeout"):
            partitions.drop_before(NOW)
        leave.set()
        thread.join(10)
        assert partitions.drop_before(NOW) == 1

    def test_the_log_can_be_one_table_again(self):
        insert_log_entries([aged(0), aged(500)])
        ids = sorted(LogEntry.objects.values_list("pk", flat=True))
        call_command("migrate", "telemetry", "0005", verbosity=0)
        try:
            assert partitions.tables() == {}
            with connection.cursor() as cursor:  # the model's columns are not all there
                cursor.execute(f"INSERT INTO {partitions.LOG} (correlation_id) VALUES ('x') RETURNING id")
                assert cursor.fetchone() == (ids[-1] + 1,)
        finally:
            call_command("migrate", verbosity=0)
        assert sorted(LogEntry.objects.values_list("pk", flat=True)) == [*ids, ids[-1] + 1]
        assert len(self.bounds()) >= 3
        with connection.cursor() as cursor:
            result = connection.introspection.get_constraints(cursor, partitions.LOG)
        assert {index.name for index in LogEntry._meta.indexes} <= result.keys()
