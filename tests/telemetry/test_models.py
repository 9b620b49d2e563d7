"""The log's tables take rows that name only some columns."""

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from telemetry.models import CacheEntry, JournalPosition, LogEntry


@pytest.mark.parametrize(
    ("model", "column"),
    [(LogEntry, "message"), (CacheEntry, "request_hash"), (JournalPosition, "journal")],
)
def test_a_row_written_by_plain_sql_gets_the_defaults_of_the_model(db, model, column):
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {model._meta.db_table} ({column}) VALUES ('x')")
    by_database, by_model = model.objects.get(), model(**{column: "x"})
    for field in model._meta.concrete_fields:
        stored = getattr(by_database, field.attname)
        if field.get_internal_type() == "DateTimeField" and stored:
            assert abs(stored - timezone.now()) < timedelta(minutes=1)
        elif not field.primary_key:
            assert stored == getattr(by_model, field.attname), field.attname


def test_entries_are_found_by_user_time_and_text(db):
    now = timezone.now()
    LogEntry.objects.create(model="fast", user_id=1, timestamp=now)
    newest = LogEntry.objects.create(payload="What is Lisbon?", user_id=2, timestamp=now)
    assert LogEntry.objects.newest_first().first() == newest
    assert LogEntry.objects.of_user(1).containing("FAST").count() == 1
    assert list(LogEntry.objects.containing("lisbon")) == [newest]
    assert LogEntry.objects.between(now, now + timedelta(seconds=1)).count() == 2
    assert not LogEntry.objects.between(end=now).exists()
    assert LogEntry.objects.between().count() == 2


def test_stored_responses_are_found_by_user_time_and_text(db):
    now = timezone.now()
    entry = CacheEntry.objects.create(
        request_hash="h", response="Lisbon", user_id=1, created_at=now, expires_at=now + timedelta(hours=1)
    )
    assert list(CacheEntry.objects.of_user(1).containing("lisbon").newest_first()) == [entry]
    assert not CacheEntry.objects.between(end=now).exists()
    assert CacheEntry.objects.between(start=now).exists()


@pytest.mark.parametrize("field", ["model", "alias", "trusted_issuer"])
def test_the_database_has_an_index_of_each_name(db, field):
    with connection.cursor() as cursor:
        indexes = connection.introspection.get_constraints(cursor, LogEntry._meta.db_table)
    columns = indexes[f"log_of_a_{field}"]["columns"]
    # PostgreSQL sorts; SQLite takes the first index that fits and has the order.
    assert columns[:3] == ([field] if connection.vendor == "postgresql" else [field, "timestamp", "id"])


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL chooses by its statistics")
@pytest.mark.parametrize("field", ["model", "alias", "trusted_issuer"])
def test_sqlite_reads_the_requests_of_a_name_in_their_order_from_the_index(db, field):
    entries = LogEntry.objects.filter(entry_type="WorkRequest", **{field: "rare"}).newest_first()
    plan = entries.values_list("pk", "timestamp")[:30].explain()
    assert f"INDEX log_of_a_{field} " in plan
    assert "B-TREE" not in plan


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite looks through the log")
@pytest.mark.parametrize(
    ("index", "entries"),
    [
        ("served_model", lambda: LogEntry.objects.served_by("rare", ["rare"])),
        ("outcome", lambda: LogEntry.objects.filter(outcome="revoked")),
        ("group", lambda: LogEntry.objects.of_groups([1])),
        ("tag", lambda: LogEntry.objects.tagged("team", "rare")),
        ("severity", lambda: LogEntry.objects.filter(severity="warning")),
        ("cache_status", lambda: LogEntry.objects.filter(cache_status="BYPASS")),
    ],
)
def test_postgresql_has_indexes_of_what_few_entries_have(db, index, entries):
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    assert f"_{index}" in entries().explain()


class TestNewest:
    """Looked for among the newest times first, and found wherever they are."""

    @pytest.fixture
    def entries(self, db):
        now = timezone.now()
        ages = [-90, 0, 0.2, 0.9, 3, 15, 40, 400, 4000]  # in days: some clock went wrong once
        rows = [LogEntry(timestamp=now - timedelta(days=age), message=f"{age}", user_id=int(age) % 2) for age in ages]
        return [row.message for row in LogEntry.objects.bulk_create(rows)]

    def test_any_part_of_the_list(self, entries):
        for first in range(len(entries) + 1):
            for end in range(first + 1, len(entries) + 3):
                entry = LogEntry.objects.newest_first().slice(first, end)
                assert [row.message for row in entry] == entries[first:end]

    def test_with_filters_and_from_a_time_on(self, entries):
        mine = LogEntry.objects.of_user(0).newest_first()
        assert [row.message for row in mine.slice(1, 3)] == ["0", "0.2"]
        until = timezone.now() - timedelta(days=2)
        older = LogEntry.objects.between(end=until).newest_first().values_list("message", flat=True)
        assert older.newest(0, 3, until=until) == ["3", "15", "40"]
        assert older.newest(0, 30, until=until) == ["3", "15", "40", "400", "4000"]

    def test_in_another_order(self, entries):
        oldest = LogEntry.objects.order_by("timestamp", "id").slice(0, 2)
        assert [row.message for row in oldest] == ["4000", "400"]
        assert len(LogEntry.objects.order_by("-message").slice(0, 4)) == 4

    @pytest.mark.skipif(connection.vendor != "postgresql", reason="only PostgreSQL has partitions")
    def test_a_page_of_the_newest_opens_few_partitions(self, entries):
        from django.test.utils import CaptureQueriesContext

        with CaptureQueriesContext(connection) as queries:
            assert len(LogEntry.objects.newest_first().slice(0, 3)) == 3
            assert len(LogEntry.objects.newest_first().containing("").slice(0, 1)) == 1
        queries = [query for query in queries.captured_queries if query["sql"].startswith("SELECT")]
        assert (len(queries), "LIKE" in queries[2]["sql"]) == (4, True)
        with connection.cursor() as cursor:
            cursor.execute("SHOW enable_seqscan")
            assert cursor.fetchone() == ("on",)
        assert all('"timestamp" >= ' in query["sql"] or '"timestamp" BETWEEN' in query["sql"] for query in queries)

    @pytest.mark.skipif(connection.vendor != "postgresql", reason="only PostgreSQL has partitions")
    @pytest.mark.parametrize(
        ("user_id", "first", "end", "number"),
        [
            (0, 0, 3, 1),  # the last day has enough
            (0, 0, 30, 3),  # it has four: sixteen days may have thirty
            (0, 0, 300, 2),  # sixteen days are not likely to have so many
            (0, 5, 9, 3),  # nobody knows how many it has
            (2, 0, 3, 2),  # it has none
        ],
    )
    def test_sixteen_days_are_looked_at_where_the_last_has_some(self, entries, user_id, first, end, number):
        from django.test.utils import CaptureQueriesContext

        with CaptureQueriesContext(connection) as queries:
            LogEntry.objects.of_user(user_id).newest_first().values_list("pk").newest(first, end)
        assert len(queries) == number


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite compresses nothing")
def test_long_contents_are_compressed_by_the_fastest_method(db):
    text = "The capital of Portugal is Lisbon. " * 300
    entry = LogEntry.objects.create(payload=text, timestamp=timezone.now())
    early = LogEntry.objects.create(payload=text, timestamp=timezone.now() - timedelta(days=4000))  # in no partition
    answer = CacheEntry.objects.create(
        request_hash="h", response=text, created_at=timezone.now(), expires_at=timezone.now() + timedelta(hours=1)
    )
    with connection.cursor() as cursor:
        cursor.execute("SELECT 'lz4' = ANY(enumvals) FROM pg_settings WHERE name = 'default_toast_compression'")
        method = "lz4" if cursor.fetchone()[0] else "pglz"
        for row, column in ((entry, "payload"), (early, "payload"), (answer, "response")):
            cursor.execute(f"SELECT pg_column_compression({column}) FROM {row._meta.db_table} WHERE id = %s", [row.pk])
            assert cursor.fetchone() == (method,), column
