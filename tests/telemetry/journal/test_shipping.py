"""Each record becomes an entry exactly once, whoever ships it; test_shipping_outages.py has what happens meanwhile."""

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from django.db import DataError, OperationalError, connection
from django.utils import timezone

from accounts.services import create_user
from keys.models import ApiKey
from keys.services import issue_key
from telemetry.journal import files as journals
from telemetry.journal import hits, ingestion
from telemetry.models import CacheEntry, JournalPosition, LogEntry
from tests.telemetry.conftest import cached, entry, serve, stored

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_ended_is_stored_and_what_began_is_not_yet(journal, shipper):
    serve(journal, "r1")
    journal.append_start(entry("r2"))
    journal.append_event(entry("r1", entry_type="Message"))
    assert shipper.ship()
    assert stored() == {"r1": 2}
    assert stored(entry_type="Message") == {"r1": 1}


def test_nothing_is_stored_twice(journal, shipper):
    for number in range(10):
        serve(journal, f"r{number}")
        shipper.ship()
        shipper.ship()
    assert stored() == {f"r{number}": 1 for number in range(10)}


@pytest.mark.long
def test_thousands_go_in_batches_and_over_segments(journal, shipper):
    for number in range(2500):
        serve(journal, f"r{number}")
    assert len(journal.segments) > 3
    shipper.ship()
    assert len(stored()) == LogEntry.objects.count() == 2500


def test_a_run_ends_although_records_keep_coming(journal, shipper):
    """Else steady traffic would be stored a few records to a transaction, without a pause."""
    serve(journal, "first")
    is_over = threading.Event()

    def keep_serving() -> None:
        for number in range(100_000):
            if is_over.wait(0.0001):
                return
            serve(journal, f"r{number}")

    writer = threading.Thread(target=keep_serving)
    writer.start()
    try:
        assert shipper.ship()
        assert writer.is_alive()
        assert shipper.backlog().bytes
    finally:
        is_over.set()
        writer.join()
    assert stored()["first"] == 1


def test_positions_say_how_far_the_database_has_it(journal, shipper):
    serve(journal, "r1")
    shipper.ship()
    position = JournalPosition.objects.get()
    assert position.journal == f"{journal.name}/{journal.segments[0].path.name}"
    assert position.position == journal.segments[0].end


def test_positions_say_when_the_database_last_had_something_of_it(journal, shipper):
    serve(journal, "r1")
    shipper.ship()
    long_ago = timezone.now() - timedelta(days=1)
    JournalPosition.objects.update(updated_at=long_ago)
    serve(journal, "r2")
    shipper.ship()
    assert JournalPosition.objects.get().updated_at > long_ago + timedelta(hours=23)


def test_a_segment_goes_with_its_position_once_all_its_requests_have_ended(journal, shipper):
    number = journal.append_start(entry("open"))
    journal.seal()
    serve(journal, "r1")
    shipper.ship()
    assert len(journals.segment_paths(journal.folder)) == 2
    journal.append_end(number, entry("open"), lambda: b"{}")
    shipper.ship()
    shipper.ship()
    assert len(journals.segment_paths(journal.folder)) == JournalPosition.objects.count() == 1
    assert stored() == {"open": 1, "r1": 1}


def test_at_the_end_everything_is_shipped_and_nothing_left_behind(journal, shipper):
    shipper.start()
    serve(journal, "r1")
    shipper.stop()
    assert stored() == {"r1": 1}
    assert not journal.folder.exists()


def test_a_batch_that_was_stored_while_the_connection_broke_is_not_stored_again(journal, shipper):
    for number in range(20):
        serve(journal, f"r{number}")
    opened = journal.append_start(entry("open"))
    name, segment = f"{journal.name}/{journal.segments[0].path.name}", journal.segments[0]
    ingestion._store_once(name, 0, list(segment.records(0)))
    shipper._pause_shipping(OperationalError("server closed the connection unexpectedly"))
    serve(journal, "later")
    journal.seal()
    assert shipper.ship()
    assert len(journals.segment_paths(journal.folder)) == 1, "a request that began in it is open"
    journal.append_end(opened, entry("open"), lambda: b"{}")
    journal.seal()
    shipper.ship()
    assert shipper.ship()
    assert stored() == {f"r{number}": 1 for number in range(20)} | {"open": 1, "later": 1}
    assert journals.segment_paths(journal.folder) == []


def test_a_batch_of_which_the_commit_came_late_is_not_stored_again(journal, shipper, caplog):
    serve(journal, "r1")
    shipper.ship()
    serve(journal, "r2")
    segment = journal.segments[0]
    start = shipper._shipped[segment.path]
    ingestion._store_once(f"{journal.name}/{segment.path.name}", start, list(segment.records(start)))
    assert not shipper.ship()
    assert shipper.ship()
    assert stored() == {"r1": 1, "r2": 1}
    assert [record.exc_info for record in caplog.records] == [None]  # it mends itself: nobody needs a stack


def test_a_batch_that_was_not_stored_while_the_connection_broke_is_stored(journal, shipper):
    serve(journal, "r1")
    shipper.ship()
    serve(journal, "r2")
    shipper._pause_shipping(OperationalError("server closed the connection unexpectedly"))
    assert shipper.ship()
    assert stored() == {"r1": 1, "r2": 1}


def test_a_poison_record_is_put_aside_and_the_rest_is_shipped(journal, shipper):
    for number in range(30):
        serve(journal, f"r{number}", **({"message": None} if number == 17 else {}))
    serve(journal, "second poison", message=None)
    serve(journal, "last")
    for _ in range(60):
        shipper.ship()
    assert stored() == {f"r{number}": 1 for number in range(30) if number != 17} | {"last": 1}
    refused = (journal.folder.parent / "refused.jsonl").read_text().splitlines()
    assert [("r17" in refused[0]), ("second poison" in refused[1]), len(refused)] == [True, True, 2]
    journal.seal()
    shipper.ship()
    assert journals.segment_paths(journal.folder) == []


def half_an_entry(journal, request_id):
    """An end that no database can read, whatever it calls that."""
    journal.append_end(journal.append_start(entry(request_id)), entry(request_id)[:-40], lambda: b"")


def test_a_record_that_is_no_json_is_put_aside_alone(journal, shipper):
    serve(journal, "r1")
    half_an_entry(journal, "half")
    serve(journal, "r2")
    assert shipper.ship()
    assert stored() == {"r1": 1, "r2": 1}
    assert "half" in (journal.folder.parent / "refused.jsonl").read_text()


def test_what_cannot_be_put_aside_for_want_of_room_stays_until_there_is_some(journal, shipper):
    half_an_entry(journal, "half")
    serve(journal, "r1")
    refused = journal.folder.parent / "refused.jsonl"
    refused.symlink_to("/dev/full")
    assert not shipper.ship()
    refused.unlink()
    assert shipper.ship()
    assert stored() == {"r1": 1}
    assert "half" in refused.read_text()


def test_a_lock_in_the_way_of_a_single_record_is_no_reason_to_refuse_it(journal, shipper):
    serve(journal, "r1")
    locks = [OperationalError("database is locked")]

    def lock(execute, *statement):
        if locks:
            raise locks.pop()
        return execute(*statement)

    with connection.execute_wrapper(lock):
        assert shipper.ship()
    assert stored() == {"r1": 1}
    assert not (journal.folder.parent / "refused.jsonl").exists()


def test_a_database_that_takes_no_other_record_either_refuses_none(journal, shipper):
    serve(journal, "r1")

    def full(execute, sql, *rest):
        if "telemetry_logentry" in sql:
            raise OperationalError("the disk is full")
        return execute(sql, *rest)

    with connection.execute_wrapper(full):
        assert not shipper.ship()
    assert shipper.ship()
    assert stored() == {"r1": 1}


class StateError(Exception):
    """As a driver reports that the database has no room."""

    sqlstate, sqlite_errorname = "53100", ""


class SQLiteStateError(StateError):
    sqlite_errorname = "SQLITE_FULL"


@pytest.mark.parametrize("cause", [StateError, SQLiteStateError])
def test_a_full_database_that_takes_another_record_refuses_none(journal, shipper, cause):
    """It may have room for one entry, in a page that it has, and none for the next."""
    serve(journal, "r1")

    def full(execute, sql, *rest):
        if "journalposition" in sql and not sql.startswith("SELECT"):  # which another entry does not need
            raise OperationalError("could not extend file") from cause()
        return execute(sql, *rest)

    with connection.execute_wrapper(full):
        for _ in range(5):
            assert not shipper.ship()
    assert not (journal.folder.parent / "refused.jsonl").exists()
    assert shipper.ship()
    assert stored() == {"r1": 1}


def test_no_record_is_refused_for_what_the_last_use_of_a_key_met(journal, shipper):
    tries = list(range(5))

    def refuse(execute, sql, *rest):
        if '"last_used"' not in sql:
            return execute(sql, *rest)
        if not tries.pop():
            serve(journal, "meanwhile")
        raise DataError("integer out of range")

    shipper.record_key_use(1, 1_800_000_000)
    with connection.execute_wrapper(refuse):
        while tries:
            shipper._last_key_write -= 10
            shipper.ship()
    shipper.ship()
    assert stored() == {"meanwhile": 1}
    assert not (journal.folder.parent / "refused.jsonl").exists()


def test_cached_answers_are_listed_and_their_hits_counted(journal, shipper):
    journal.append_cache_entry(cached("a" * 64, response="old"))
    serve(journal, "r1", cache_status="HIT", cache_hash="a" * 64)
    shipper.ship()
    serve(journal, "r2", cache_status="HIT", cache_hash="a" * 64)
    shipper.ship()
    shipper.ship()
    assert CacheEntry.objects.values_list("response", "hits").get() == ("old", 2)
    journal.append_cache_entry(cached("a" * 64, response="new"))
    shipper.ship()
    assert CacheEntry.objects.values_list("response", "hits").get() == ("new", 0)


def test_a_hit_that_is_shipped_before_the_answer_is_listed_counts(journal, shipper):
    serve(journal, "r1", cache_status="HIT", cache_hash="a" * 64)
    serve(journal, "r2", cache_status="HIT", cache_hash="a" * 64)
    shipper.ship()
    journal.append_cache_entry(cached("a" * 64))
    serve(journal, "r3", cache_status="HIT", cache_hash="a" * 64)
    for _ in range(3):
        shipper.ship()
    assert CacheEntry.objects.get().hits == 3


def test_a_hit_counts_once_although_its_error_has_an_entry_too(journal, shipper):
    journal.append_cache_entry(cached("a" * 64))
    serve(journal, "r1", cache_status="HIT", cache_hash="a" * 64)
    journal.append_event(entry("r1", entry_type="Message", cache_status="HIT", cache_hash="a" * 64))
    shipper.ship()
    assert CacheEntry.objects.get().hits == 1


def test_one_of_an_answer_that_is_never_listed_is_let_go_after_a_while(journal, shipper, monkeypatch):
    monkeypatch.setattr(hits, "MAX_WAIT_SECONDS", 0)
    serve(journal, "r1", cache_status="HIT", cache_hash="a" * 64)
    shipper.ship()
    journal.append_cache_entry(cached("a" * 64))
    shipper.ship()
    assert CacheEntry.objects.get().hits == 0


def test_the_last_use_of_a_key_is_written_every_few_seconds(shipper):
    ann = create_user(username="ann", password="a long pass phrase")
    key = issue_key(owner=ann, name="k").key
    shipper.record_key_use(key.id, 1_800_000_000)
    shipper.record_key_use(key.id, 1_800_000_001)
    shipper.record_key_use(key.id + 1, 1_800_000_001)
    shipper._last_key_write = time.monotonic()
    shipper.ship()
    key.refresh_from_db()
    assert key.last_used is None
    shipper._last_key_write -= 10
    shipper.ship()
    key.refresh_from_db()
    assert key.last_used == datetime.fromtimestamp(1_800_000_001, UTC)


@pytest.mark.parametrize("earlier", [0, 0.5])
def test_a_last_use_that_another_process_wrote_meanwhile_stays(shipper, earlier):
    key = issue_key(owner=create_user(username="ann", password="a long pass phrase"), name="k").key
    for at in (1_800_000_001, 1_800_000_000 + earlier, 1_800_000_000):
        shipper.record_key_use(key.id, at)
        shipper._last_key_write -= 10
        shipper.ship()
    key.refresh_from_db()
    assert key.last_used == datetime.fromtimestamp(1_800_000_001, UTC)


@pytest.mark.long
def test_the_last_uses_of_many_keys_are_written_in_one_go(shipper, django_assert_num_queries):
    ann = create_user(username="ann", password="a long pass phrase")
    keys = [issue_key(owner=ann, name=f"k{number}").key for number in range(30)]
    for key in keys:
        shipper.record_key_use(key.id, 1_800_000_000)
    shipper._last_key_write -= 10
    with django_assert_num_queries(1):
        shipper.ship()
    assert not ApiKey.objects.filter(last_used=None).exists()


def test_a_last_use_that_could_not_be_written_is_written_later(shipper):
    key = issue_key(owner=create_user(username="ann", password="a long pass phrase"), name="k").key

    def away(execute, *statement):
        raise OperationalError("server closed the connection unexpectedly")

    shipper.record_key_use(key.id, 1_800_000_000)
    for _ in range(2):
        shipper._last_key_write -= 10
        with connection.execute_wrapper(away):
            assert not shipper.ship()
    shipper._last_key_write -= 10
    assert shipper.ship()
    key.refresh_from_db()
    assert key.last_used == datetime.fromtimestamp(1_800_000_000, UTC)
