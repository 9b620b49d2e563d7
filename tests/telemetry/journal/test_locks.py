"""The journal is changed by one thread at a time."""

import pytest

from tests.support.locking import guarded


def test_threads_take_turns_in_everything_that_changes_the_journal(journal):
    guarded(journal, journal._lock, "_last_number", "_open_requests", "_spare")
    journal.preallocate()
    number = journal.append_start(b"start")
    journal.append_start_again(number, b"again")
    journal.append_event(b"event")
    journal.append_end(number, b"end", lambda: b"short")
    journal.close()


@pytest.mark.parametrize("change", ["seal", "preallocate"])
def test_a_segment_is_sealed_under_the_lock_of_its_journal(journal, change):
    journal.append_event(b"event")
    segment = guarded(journal.segments[0], journal._lock, "sealed", reads=False)
    segment.path.unlink()
    getattr(journal, change)()
    assert segment.sealed


def test_a_segment_is_forgotten_under_the_lock_of_its_journal(journal):
    class Segments(list):
        def remove(self, segment):
            assert journal._lock.locked()
            super().remove(segment)

    journal.append_event(b"event")
    journal.segments = Segments(journal.segments)
    journal.remove_segment(journal.segments[0])
    assert not journal.segments
