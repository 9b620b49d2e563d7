"""What is in the journal is there, whatever becomes of the process, the record being written, or the disk."""

import mmap
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry.journal import files as journals
from telemetry.journal.files import (
    CACHED,
    END,
    EVENT,
    HEADER_BYTES,
    RESERVE_BYTES,
    START,
    Journal,
    JournalFull,
    read_records,
)
from tests.support.pace import patience, slowness
from tests.support.promises import parses
from tests.support.running import ROOT
from tests.support.thoroughness import number_of
from tests.telemetry.conftest import SEGMENT

pytestmark = pytest.mark.embedded

TEMPLATE = b"x" * 1000


def contents(journal):
    """All records of a journal, read from its files."""
    results = []
    for path in journals.segment_paths(journal.folder):
        data = path.read_bytes()
        results += [(record.kind, record.payload) for record in read_records(data, 0, len(data))]
    return results


def test_what_was_written_is_read_in_its_order(journal):
    number = journal.append_start(b"start")
    journal.append_event(b"event")
    journal.append_cache_entry(b"cached")
    journal.append_complete(b"whole")
    journal.append_end(number, b"end", lambda: b"short")
    assert contents(journal) == [
        (START, b"start"), (EVENT, b"event"), (CACHED, b"cached"), (END, b"whole"), (END, b"end"),
    ]  # fmt: skip


def test_a_start_and_its_end_have_one_number_and_nobody_else_has_it(journal):
    numbers = [journal.append_start(b"s") for _ in range(3)]
    journal.append_end(numbers[1], b"e", lambda: b"")
    journal.append_complete(b"w")
    records = list(journal.segments[0].records(0))
    assert records[3].number == numbers[1]
    assert len({record.number for record in records}) == 4


@pytest.mark.parametrize("advice", [journals.MADV_POPULATE_WRITE, -1])
def test_records_of_any_length_come_back_also_where_linux_maps_page_by_page(tmp_path, monkeypatch, advice):
    monkeypatch.setattr(journals, "MADV_POPULATE_WRITE", advice)
    ahead = journals.AHEAD_BYTES
    journal = Journal(tmp_path, segment_bytes=3 * ahead + 1000)
    payloads = [b"x" * length for length in (1, ahead, ahead + 1, 3 * ahead, 10, 2 * ahead, mmap.PAGESIZE)]
    for payload in payloads:
        journal.append_event(payload)
    assert contents(journal) == [(EVENT, payload) for payload in payloads]


@parses
@given(st.lists(st.binary(max_size=500), max_size=20))
@settings(max_examples=number_of(25), deadline=None)
def test_every_payload_comes_back(tmp_path_factory, payloads):
    journal = Journal(tmp_path_factory.mktemp("journal"), segment_bytes=SEGMENT)
    for payload in payloads:
        journal.append_event(payload)
    assert [payload for _, payload in contents(journal)] == payloads
    shutil.rmtree(journal.folder, ignore_errors=True)


def frames(*payloads):
    """The bytes of these events in a segment."""
    journal = Journal(frames.folder, segment_bytes=SEGMENT)
    for payload in payloads:
        journal.append_event(payload)
    segment = journal.segments[0]
    return segment.path.read_bytes()[: segment.end]


@pytest.fixture(autouse=True)
def _folder(tmp_path):
    frames.folder = tmp_path / "frames"


def test_a_record_torn_at_any_byte_is_lost_alone():
    first, both = frames(b"first"), frames(b"first", b"second record")
    for size in range(len(both)):
        torn = both[:size] + bytes(len(both) + 100 - size)
        whole = [b"first"] if size >= len(first) else []
        assert [record.payload for record in read_records(torn, 0, len(torn))] == whole


def test_a_flipped_byte_ends_the_reading_and_invents_nothing():
    both = frames(b"first", b"second record")
    for place in range(len(both)):
        damaged = bytearray(both + bytes(64))
        damaged[place] ^= 0x55
        results = [record.payload for record in read_records(bytes(damaged), 0, len(damaged))]
        assert results in ([], [b"first"])


def test_what_stands_behind_damaged_bytes_is_found_and_the_damage_noticed():
    first, both = frames(b"first"), frames(b"first", b"second record")
    whole = both + frames(b"third")
    for place in range(len(whole)):
        damaged = bytearray(whole + bytes(64))
        damaged[place] ^= 0x55
        lost = 0 if place < len(first) else 1 if place < len(both) else 2
        expected = [payload for number, payload in enumerate((b"first", b"second record", b"third")) if number != lost]
        assert [record.payload for record in journals.recover_records(bytes(damaged))] == expected
        assert journals.is_damaged(bytes(damaged))


def test_a_last_record_that_has_no_header_yet_is_no_damage():
    first, both = frames(b"first"), frames(b"first", b"second record")
    torn = bytearray(both + bytes(64))
    torn[len(first) : len(first) + HEADER_BYTES] = bytes(HEADER_BYTES)
    for data in (bytes(torn), first + bytes(64), both, bytes(64)):
        assert not journals.is_damaged(data)


def test_a_length_that_leads_behind_the_end_is_torn():
    data = frames(b"first")
    assert list(read_records(data, 0, len(data) - 1)) == []
    assert [record.end for record in read_records(data, 0, len(data))] == [len(data)]


def test_reading_begins_where_it_is_told(journal):
    journal.append_event(b"first")
    behind = journal.segments[0].end
    journal.append_event(b"second")
    assert [record.payload for record in journal.segments[0].records(behind)] == [b"second"]


def test_a_full_segment_is_sealed_and_the_next_one_goes_on(journal):
    for _ in range(600):
        journal.append_event(TEMPLATE)
    assert len(journal.segments) >= 3
    assert [segment.sealed for segment in journal.segments] == [True] * (len(journal.segments) - 1) + [False]
    assert len(contents(journal)) == 600


def test_a_record_larger_than_a_segment_gets_one_of_its_own(journal):
    large = b"x" * (3 * SEGMENT)
    journal.append_event(b"before")
    journal.append_event(large)
    journal.append_event(b"after")
    assert [payload for _, payload in contents(journal)] == [b"before", large, b"after"]


def test_the_spare_segment_is_made_ahead_and_used(journal):
    journal.preallocate()
    journal.preallocate()
    assert len(journals.segment_paths(journal.folder)) == 1
    journal.append_event(TEMPLATE)
    assert len(journals.segment_paths(journal.folder)) == 1
    journal.preallocate()
    assert len(journals.segment_paths(journal.folder)) == 1
    while journal.segments[0].free_bytes() >= SEGMENT // 2:
        journal.append_event(TEMPLATE)
    journal.preallocate()
    assert len(journals.segment_paths(journal.folder)) == 2
    while len(journal.segments) == 1:
        journal.append_event(TEMPLATE)
    assert len(journals.segment_paths(journal.folder)) == 2


@pytest.mark.long
def test_threads_write_and_roll_while_spares_are_made(journal):
    event = threading.Event()

    def prepare():
        while not event.is_set():
            journal.preallocate()

    preparing = threading.Thread(target=prepare)
    preparing.start()
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda number: journal.append_event(b"%05d" % number + TEMPLATE), range(3000)))
    event.set()
    preparing.join()
    assert sorted(payload[:5] for _, payload in contents(journal)) == [b"%05d" % number for number in range(3000)]


def lose_the_disk(journal):
    shutil.rmtree(journal.folder)
    journal.folder.write_text("")


def test_an_end_finds_room_however_many_are_open_when_the_disk_is_gone(journal):
    numbers = [journal.append_start(TEMPLATE)]
    lose_the_disk(journal)
    with pytest.raises(JournalFull):
        while True:
            numbers.append(journal.append_start(TEMPLATE))
    short = b"s" * (RESERVE_BYTES - HEADER_BYTES)
    for number in numbers:
        journal.append_end(number, TEMPLATE * 200, lambda: short)
    ends = [record for record in journal.segments[0].records(0) if record.kind == END]
    assert [(record.number, record.payload) for record in ends] == [(number, short) for number in numbers]
    assert len(numbers) > 40


def test_what_does_not_end_a_request_leaves_the_room_to_those_who_do(journal):
    numbers = [journal.append_start(TEMPLATE) for _ in range(30)]
    lose_the_disk(journal)
    with pytest.raises(JournalFull):
        while True:
            journal.append_event(TEMPLATE)
    for number in numbers:
        journal.append_end(number, TEMPLATE * 200, lambda: TEMPLATE * 4)


def test_nothing_is_cut_off_a_short_end(journal):
    number = journal.append_start(TEMPLATE)
    lose_the_disk(journal)
    journal.append_end(number, TEMPLATE * 300, lambda: TEMPLATE * 5)
    assert [record.payload for record in journal.segments[0].records(0)] == [TEMPLATE, TEMPLATE * 5]


def test_a_journal_whose_folder_was_deleted_goes_on_in_a_new_one(journal):
    journal.append_event(b"gone")
    journal.preallocate()
    shutil.rmtree(journal.folder.parent)
    journal.preallocate()
    journal.append_event(b"kept")
    assert contents(journal) == [(EVENT, b"kept")]
    assert [record.payload for segment in journal.segments for record in segment.records(0)] == [b"gone", b"kept"]
    assert journals.lock_folder(journal.folder) is None


def test_a_journal_whose_lock_was_deleted_is_locked_again(journal):
    journal.append_event(b"kept")
    (journal.folder / journals.LOCK_NAME).unlink()
    journal.preallocate()
    assert (journal.folder / journals.LOCK_NAME).exists()
    assert journals.lock_folder(journal.folder) is None


def test_a_spare_segment_that_was_deleted_is_made_anew(journal):
    journal.append_event(b"before")
    while journal.segments[0].free_bytes() >= SEGMENT // 2:
        journal.append_event(TEMPLATE)
    journal.preallocate()
    journals.segment_paths(journal.folder)[1].unlink()
    journal.preallocate()
    journal.seal()
    journal.append_event(b"kept")
    assert contents(journal)[-1] == (EVENT, b"kept")


def test_a_full_segment_in_a_deleted_folder_is_followed_by_another(journal):
    journal.append_event(b"gone")
    shutil.rmtree(journal.folder)
    while len(journal.segments) == 1:
        journal.append_event(TEMPLATE)
    assert contents(journal) == [(EVENT, TEMPLATE)]


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from telemetry.journal.files import Journal, JournalFull
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = Journal(Path(sys.argv[1]), segment_bytes=256 * 1024)
number = journal.append_start(b"open")
resource.setrlimit(resource.RLIMIT_FSIZE, (100 * 1024, resource.RLIM_INFINITY))
written = 0
try:
    while True:
        journal.append_complete(b"x" * 1000)
        written += 1
except JournalFull as error:
    print("full")
journal.append_end(number, b"y" * 100_000, lambda: b"short")
journal.preallocate()
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
journal.append_complete(b"again")
print(written)
"""


def test_a_full_disk_takes_no_more_requests_until_it_has_room_again(tmp_path):
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=patience(20), check=True)
    full, written = process.stdout.split()
    assert full == "full"
    folder = next(tmp_path.iterdir())
    payloads = [payload for _, payload in contents(SimpleNamespace(folder=folder))]
    assert payloads == [b"open", *[b"x" * 1000] * int(written), b"short", b"again"]
    assert all(path.stat().st_size == 256 * 1024 for path in journals.segment_paths(folder))


def test_a_folder_that_cannot_be_made_is_a_full_journal(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalFull):
        Journal(tmp_path / "file" / "journal", segment_bytes=SEGMENT).append_start(b"x")


def test_a_shipped_segment_goes_and_an_empty_journal_leaves_nothing(journal):
    journal.append_event(b"x")
    journal.preallocate()
    journal.seal()
    journal.remove_segment(journal.segments[0])
    journal.close()
    assert not journal.folder.exists()


def test_a_journal_with_something_in_it_stays_for_whoever_adopts_it(journal):
    journal.append_event(b"x")
    journal.close()
    assert contents(journal) == [(EVENT, b"x")]


def test_nothing_is_written_to_a_sealed_segment(journal):
    journal.append_event(b"first")
    journal.seal()
    journal.append_event(b"second")
    assert [len(list(segment.records(0))) for segment in journal.segments] == [1, 1]


def test_files_are_for_their_owner_alone(journal):
    journal.append_event(b"x")
    assert journal.folder.stat().st_mode & 0o77 == 0
    assert all(path.stat().st_mode & 0o77 == 0 for path in journal.folder.iterdir())


def test_appending_costs_microseconds(journal):
    journal.preallocate()
    begun = time.process_time()
    for _ in range(200):
        journal.append_event(TEMPLATE)
    assert time.process_time() - begun < 0.1 * slowness()


@pytest.mark.long
def test_what_waits_for_the_database_is_on_disk_and_not_in_memory(tmp_path):
    journal = Journal(tmp_path / "journal", segment_bytes=16 * 1024 * 1024)
    record = b"x" * 50_000
    before = resident_bytes()
    for _ in range(4000):
        journal.append_event(record)
    assert sum(segment.end for segment in journal.segments) > 200_000_000
    assert resident_bytes() - before < 20_000_000
    assert all(entry.payload == record for segment in journal.segments for entry in segment.records(0))


def resident_bytes() -> int:
    """Memory of this process, mapped files included."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
