"""The journal of a process that died: what is in it is logged, and what was open there is closed, each once."""

import os

import pytest

from telemetry.journal import adoption
from telemetry.journal import files as journals
from telemetry.journal.adoption import adopt_journal
from telemetry.journal.files import Journal
from telemetry.models import JournalPosition, LogEntry
from tests.telemetry.conftest import SEGMENT, entry, new_shipper, serve, stored

pytestmark = pytest.mark.django_db(transaction=True)


def crash(journal):
    """The process dies: its journal stays, and is nobody's any more."""
    os.close(journal._lock_handle)
    return journal.folder


def test_a_dead_processs_journal_is_adopted_and_its_open_requests_are_aborted(journal):
    serve(journal, "r1")
    journal.append_start(entry("open", model="fast"))
    assert adopt_journal(crash(journal)) == 1
    assert stored() == {"r1": 1, "open": 1}
    aborted = LogEntry.objects.get(correlation_id="open")
    assert (aborted.outcome, aborted.severity, aborted.model) == ("aborted", "error", "fast")
    assert not journal.folder.exists()
    assert not JournalPosition.objects.exists()


def test_an_aborted_request_says_whether_a_provider_was_asked(journal):
    journal.append_start(entry("waits"))
    journal.append_start_again(journal.append_start(entry("asks")), entry("asks", attempts=1))
    assert adopt_journal(crash(journal)) == 2
    values = LogEntry.objects.order_by("correlation_id").values_list("entry_source", "attempts", "cost_status")
    assert list(values) == [("Worker", 1, "unknown"), ("Not Set", 0, "")]


def test_adoption_goes_on_where_the_dead_process_stopped(journal, shipper):
    serve(journal, "r1")
    opened = journal.append_start(entry("open"))
    shipper.ship()
    serve(journal, "r2")
    journal.append_end(opened, entry("open"), lambda: b"{}")
    assert adopt_journal(crash(journal)) == 0
    assert stored() == {"r1": 1, "r2": 1, "open": 1}


def test_what_ended_a_request_does_not_go_before_what_began_it(journal, shipper):
    ended, _ = (journal.append_start(entry(name)) for name in ("ended", "open"))
    journal.seal()
    journal.append_end(ended, entry("ended", outcome="completed"), lambda: b"{}")
    journal.seal()
    assert shipper.ship()
    assert adopt_journal(crash(journal)) == 1
    assert stored(outcome="completed") == {"ended": 1}
    assert stored(outcome="aborted") == {"open": 1}


def test_a_request_that_ended_in_a_segment_made_earlier_is_not_aborted(journal):
    """A spare segment is made before, and used after, one for a record that is too large for it."""
    journal.append_event(entry("filler", payload="x" * (SEGMENT * 2 // 3)))
    journal.preallocate()
    opened = journal.append_start(entry("large", payload="x" * SEGMENT))
    journal.append_event(entry("more", payload="x" * (SEGMENT // 2)))
    journal.append_end(opened, entry("large"), lambda: b"{}")
    assert [segment.path.name for segment in journal.segments] != sorted(s.path.name for s in journal.segments)
    assert adopt_journal(crash(journal)) == 0
    assert stored() == {"filler": 1, "more": 1, "large": 1}


def test_an_adoption_holds_the_starts_of_open_requests_only(journal):
    for number in range(20):
        serve(journal, f"r{number}")
    journal.append_start(entry("open"))
    open_starts, folder = {}, crash(journal)
    for path in journals.segment_paths(folder):
        adoption._adopt_segment(f"{folder.name}/{path.name}", path, open_starts, set())
    assert list(open_starts.values()) == [entry("open")]


def test_a_start_that_is_repeated_after_the_end_opens_nothing(journal):
    number = journal.append_start(entry("ended"))
    journal.append_end(number, entry("ended"), lambda: b"{}")
    journal.append_start_again(number, entry("ended", attempts=1))
    assert adopt_journal(crash(journal)) == 0
    assert stored() == {"ended": 1}


def test_an_adoption_that_dies_between_its_steps_is_finished_by_the_next_one(journal):
    serve(journal, "r1")
    journal.append_start(entry("open"))
    folder, opened, ended = crash(journal), {}, set()
    for path in journals.segment_paths(folder):
        adoption._adopt_segment(f"{folder.name}/{path.name}", path, opened, ended)
    assert stored() == {"r1": 1}
    assert adopt_journal(folder) == 1
    assert stored() == {"r1": 1, "open": 1}


def test_an_adoption_that_dies_before_it_removes_the_files_aborts_nothing_twice(journal):
    serve(journal, "r1")
    journal.append_start(entry("open"))
    folder = crash(journal)
    files = {path: path.read_bytes() for path in folder.iterdir()}
    adopt_journal(folder)
    folder.mkdir()
    for path, content in files.items():
        path.write_bytes(content)
    JournalPosition.objects.bulk_create(
        [
            JournalPosition(journal=f"{folder.name}/{journal.segments[0].path.name}", position=journal.segments[0].end),
            JournalPosition(journal=f"{folder.name}/aborted", position=1),
        ]
    )
    adopt_journal(folder)
    assert stored() == {"r1": 1, "open": 1}
    assert not folder.exists()


def test_a_segment_that_was_only_just_being_made_holds_no_adoption_up(journal):
    serve(journal, "r1")
    folder = crash(journal)
    (folder / "00000002.segment").touch()
    adopt_journal(folder)
    assert stored() == {"r1": 1}
    assert not folder.exists()


def test_a_shipper_adopts_the_journals_of_others_by_itself(journal, tmp_path):
    dead = Journal(journal.folder.parent, segment_bytes=SEGMENT)
    serve(dead, "r1")
    dead.append_start(entry("open"))
    os.utime(crash(dead), (1, 1))
    shipper = new_shipper(journal)
    shipper._last_adoption = 0
    assert shipper.ship()
    assert stored() == {"r1": 1, "open": 1}


def test_a_poison_record_in_an_adopted_journal_holds_nothing_up(journal):
    for number in range(10):
        serve(journal, f"r{number}", **({"message": None} if number == 4 else {}))
    journal.append_start(entry("open"))
    adopt_journal(crash(journal))
    assert stored() == {f"r{number}": 1 for number in range(10) if number != 4} | {"open": 1}
    assert len((journal.folder.parent / "refused.jsonl").read_text().splitlines()) == 1


def test_a_start_that_is_no_json_is_put_aside_too(journal):
    journal.append_start(entry("half", address=None))
    journal.append_start(entry("open"))
    assert adopt_journal(crash(journal)) == 2
    assert stored() == {"open": 1}
    assert "half" in (journal.folder.parent / "refused.jsonl").read_text()


def test_a_journal_that_cannot_be_adopted_holds_no_other_up(journal, shipper, caplog):
    names = sorted(Journal(journal.folder.parent, segment_bytes=SEGMENT).name for _ in range(2))
    for name in names:
        dead = Journal(journal.folder.parent, segment_bytes=SEGMENT)
        dead.folder = journal.folder.parent / name
        serve(dead, name)
        folder = crash(dead)
        if name == names[0]:
            (folder / "00000000.segment").mkdir()  # cannot be read
        os.utime(folder, (1, 1))
    for _ in range(2):
        shipper._last_adoption = 0
        assert shipper.ship()
    assert stored(correlation_id=names[1]) == {names[1]: 1}
    assert caplog.text.count(f"{names[0]} cannot be written to the database") == 1


def test_damaged_bytes_cost_their_own_record_alone_and_the_file_is_kept(journal, caplog):
    for number in range(5):
        serve(journal, f"r{number}")
    path = journal.segments[0].path
    data = bytearray(path.read_bytes())
    data[data.rindex(b"r2")] ^= 1
    path.write_bytes(data)
    assert adopt_journal(crash(journal)) == 1
    assert stored() == {f"r{number}": 1 for number in range(5)}
    assert stored(outcome="aborted") == {"r2": 1}
    [rest] = journal.folder.parent.glob("*.damaged")
    assert rest.read_bytes() == data
    assert str(rest) in caplog.text
    assert not journal.folder.exists()
