"""Adopts the journals of dead processes: stores their records, and logs their open requests as aborted."""

import contextlib
import logging
import mmap
from collections.abc import Iterator
from pathlib import Path

import orjson

from telemetry.journal import files as journals
from telemetry.journal.files import END, START, Record
from telemetry.journal.ingestion import next_batch, store_batch, stored_position
from telemetry.journal.records import empty_log_entry
from telemetry.models import JournalPosition

log = logging.getLogger("gateway.shipper")


def adopt_journal(folder: Path) -> int:
    """Store a dead process's journal, log its open requests as aborted, and remove it; returns their number."""
    open_starts: dict[int, bytes] = {}  # of requests without an end so far: those of all may exceed the memory
    ended: set[int] = set()
    paths = journals.segment_paths(folder)
    for path in paths:
        _adopt_segment(f"{folder.name}/{path.name}", path, open_starts, ended)
    aborted = list(open_starts.values())
    closed = f"{folder.name}/closed"
    # After this, files may be removed, and with them end records: open requests are not counted again.
    if aborted and not stored_position(closed):
        _log_aborted(f"{folder.name}/aborted", aborted, folder.parent)
    if paths:
        JournalPosition.objects.get_or_create(journal=closed, defaults={"position": 1})
    for path in journals.segment_paths(folder):
        _remove_segment(path)
    (folder / journals.LOCK_NAME).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
    JournalPosition.objects.filter(journal__startswith=f"{folder.name}/").delete()
    if aborted:
        log.warning(
            "A process ended while requests were in progress. Requests that were logged as aborted: %d.", len(aborted)
        )
    return len(aborted)


def _adopt_segment(name: str, path: Path, open_starts: dict[int, bytes], ended: set[int]) -> None:
    if not path.stat().st_size:
        return  # its process died while creating the file; an empty file cannot be mapped
    shipped = stored_position(name)
    with _map_file(path) as data:
        for record in journals.recover_records(data):
            if record.kind == END:
                ended.add(record.number)
                open_starts.pop(record.number, None)
            elif record.kind == START and record.number not in ended:  # its end may be in a segment read earlier
                open_starts[record.number] = record.payload
        while batch := next_batch(journals.recover_records(data, shipped)):
            store_batch(name, shipped, batch, path.parent.parent)
            shipped = batch[-1].end


def _log_aborted(name: str, starts: list[bytes], root: Path) -> None:
    """Log requests as aborted, each once. The number logged so far is stored like a segment's position."""
    entries = [Record(END, 0, _aborted_entry(start), number) for number, start in enumerate(starts, start=1)]
    position = stored_position(name)
    while batch := next_batch(entries[position:]):
        store_batch(name, position, batch, root)
        position = batch[-1].end


def _remove_segment(path: Path) -> None:
    """Delete a segment whose records are stored. One with damaged bytes is renamed and kept."""
    if path.stat().st_size:
        with _map_file(path) as data:
            damaged = journals.is_damaged(data)
        if damaged:
            damaged_path = path.parent.parent / f"{path.parent.name}-{path.name}.damaged"
            log.error(
                "A journal segment is damaged. Its readable entries were logged, and the segment was kept in %s.",
                damaged_path,
            )
            path.rename(damaged_path)
            return
    path.unlink()


@contextlib.contextmanager
def _map_file(path: Path) -> Iterator[mmap.mmap]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


def _aborted_entry(start: bytes) -> bytes:
    entry = empty_log_entry() | orjson.loads(start)
    has_attempts = entry["attempts"] > 0
    entry |= {
        "outcome": "aborted",
        "severity": "error",
        "entry_source": "Worker" if has_attempts else "Not Set",
        "cost_status": "unknown" if has_attempts else "",
        "message": "The gateway's process ended before this request did.",
    }
    return orjson.dumps(entry)
