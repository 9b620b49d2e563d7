"""The journals of processes that died: what is in them is logged, and what was open there is closed."""

import contextlib
import logging
import mmap
from collections.abc import Iterator
from pathlib import Path

import orjson

from telemetry import journal as journals
from telemetry.carrying import carry, next_batch, position
from telemetry.journal import END, START, Record
from telemetry.models import JournalPosition
from telemetry.records import empty_log_entry

log = logging.getLogger("gateway.shipper")


def adopt(folder: Path) -> int:
    """Ship a dead process's journal, close its open requests as aborted, and remove it; the number closed."""
    opened: dict[int, bytes] = {}
    ended: set[int] = set()
    paths = journals.segment_paths(folder)
    for path in paths:
        _adopt_segment(f"{folder.name}/{path.name}", path, opened, ended)
    aborted = [payload for number, payload in opened.items() if number not in ended]
    closed = f"{folder.name}/closed"
    if aborted and not position(closed):  # some of the files may be gone since, and with them the ends in them
        _close(f"{folder.name}/aborted", aborted, folder.parent)
    if paths:
        JournalPosition.objects.get_or_create(journal=closed, defaults={"position": 1})
    for path in journals.segment_paths(folder):
        _remove(path)
    (folder / journals.LOCK_NAME).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
    JournalPosition.objects.filter(journal__startswith=f"{folder.name}/").delete()
    if aborted:
        log.warning("A process ended while requests were open; they are logged as aborted: %d.", len(aborted))
    return len(aborted)


def _adopt_segment(name: str, path: Path, opened: dict[int, bytes], ended: set[int]) -> None:
    if not path.stat().st_size:
        return  # its process died while it made the file, which cannot be mapped
    shipped = position(name)
    with _mapped(path) as data:
        for record in journals.salvaged(data):
            if record.kind == START:
                opened[record.number] = record.payload
            elif record.kind == END:
                ended.add(record.number)
        while batch := next_batch(journals.salvaged(data, shipped)):
            carry(name, shipped, batch, path.parent.parent)
            shipped = batch[-1].end


def _close(name: str, starts: list[bytes], root: Path) -> None:
    """Log requests that nobody will end, each once: how many of them are logged is a position like a segment's."""
    entries = [Record(END, 0, _aborted(start), place) for place, start in enumerate(starts, start=1)]
    done = position(name)
    while batch := next_batch(entries[done:]):
        carry(name, done, batch, root)
        done = batch[-1].end


def _remove(path: Path) -> None:
    """Delete a segment that has been carried, unless bytes of it could not be read."""
    if path.stat().st_size:
        with _mapped(path) as data:
            damaged = journals.is_damaged(data)
        if damaged:
            kept = path.parent.parent / f"{path.parent.name}-{path.name}.damaged"
            log.error("A journal's segment is damaged: what can be read of it is logged, and all of it is in %s.", kept)
            path.rename(kept)
            return
    path.unlink()


@contextlib.contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


def _aborted(start: bytes) -> bytes:
    entry = empty_log_entry() | orjson.loads(start)
    asked = entry["attempts"] > 0
    entry |= {
        "outcome": "aborted",
        "severity": "error",
        "entry_source": "Worker" if asked else "Not Set",
        "cost_status": "unknown" if asked else "",
        "message": "The gateway's process ended before this request did.",
    }
    return orjson.dumps(entry)
