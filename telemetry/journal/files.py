"""A local append-only journal: its records survive the death of their process.

A journal is one process's folder of numbered segments. A segment gets its full size on disk when it is created, and it
is mapped into memory. So appending is a copy without a system call, and a full disk shows when a segment is created,
not in the middle of a record. A record is framed with its length and a checksum. A process that is killed while it
writes a record loses only that record.

    kind (1) | number (8) | length (4) | CRC-32 of kind, number and payload (4) | payload

Behind their last record, segment files are filled with zeros; kind 0 ends the reading.
"""

import fcntl
import itertools
import logging
import mmap
import os
import re
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

log = logging.getLogger("gateway.journal")

START, END, EVENT, CACHED, OWNED, SAMPLED = 1, 2, 3, 4, 5, 6

_FRAME = struct.Struct("<BQII")
HEADER_BYTES = _FRAME.size
# Up to so many bytes per segment stay in this process's memory; all others are only in the system's page cache.
RESIDENT_BYTES = 2 * 1024 * 1024
# So many bytes are mapped at once: otherwise the first write to each page interrupts a request. The number is Linux's.
AHEAD_BYTES, MADV_POPULATE_WRITE = 64 * 1024, 23
# Reserved for the end of each open request, so that an end always has room.
RESERVE_BYTES = 4096
LOCK_NAME = "lock"
# The first bytes of a frame. Payloads are JSON, which contains none of these bytes.
_FRAME_START = re.compile(rb"[\x01-\x06].{5}\0\0\0", re.DOTALL)


# A segment's content: its map, or in tests its bytes.
Buffer = mmap.mmap | bytes


class JournalFull(Exception):
    """The journal cannot take another record: its disk is full or gone."""


class Record(NamedTuple):
    """A record that was read; `end` is the offset of the byte after it."""

    kind: int
    number: int
    payload: bytes
    end: int


class Segment:
    """One preallocated file of a journal."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.size = size
        self.end = 0
        self.sealed = False
        self._resident_from = self._mapped_to = 0
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.posix_fallocate(handle, 0, size)
            self._map = mmap.mmap(handle, size)
        except OSError:
            path.unlink()
            raise
        finally:
            os.close(handle)

    def append(self, kind: int, number: int, payload: bytes) -> None:
        start = self.end
        end = start + HEADER_BYTES + len(payload)
        if end > self._mapped_to:
            self._map_ahead(end)
        self._map[start + HEADER_BYTES : end] = payload
        # A record counts once its header is there: the header is written last.
        _FRAME.pack_into(self._map, start, kind, number, len(payload), _checksum(kind, number, payload))
        self.end = end
        if end - self._resident_from > RESIDENT_BYTES:
            self.release(end)

    def free_bytes(self) -> int:
        return self.size - self.end

    def records(self, start: int, end: int | None = None) -> Iterator[Record]:
        """The records between two offsets; without an end, all records so far."""
        return read_records(self._map, start, self.end if end is None else end)

    def sync(self) -> None:
        """Flush to disk, so that the records survive a crash of the machine."""
        with suppress(OSError, ValueError):
            self._map.flush()

    def release(self, end: int) -> None:
        """Release the memory before this offset. The file keeps its bytes; reading maps them again."""
        self._resident_from = end
        if whole_pages := end // mmap.PAGESIZE * mmap.PAGESIZE:
            self._map.madvise(mmap.MADV_DONTNEED, 0, whole_pages)

    def _map_ahead(self, end: int) -> None:
        start, self._mapped_to = self._mapped_to, end // mmap.PAGESIZE * mmap.PAGESIZE + AHEAD_BYTES
        with suppress(OSError):  # Linux before 5.14 maps them one by one
            self._map.madvise(MADV_POPULATE_WRITE, start, self._mapped_to - start)

    def remove(self) -> None:
        with suppress(OSError):
            self.path.unlink()
        with suppress(BufferError, ValueError):
            self._map.close()


class Journal:
    """The journal of this process. Threads append; one shipper reads and removes."""

    def __init__(self, root: Path, *, segment_bytes: int) -> None:
        self.name = uuid4().hex
        self.folder = root / self.name
        self._segment_bytes = segment_bytes
        self._lock = threading.Lock()
        self._last_number = 0
        self._open_requests = 0
        self._lock_handle: int | None = None
        self._folder_mutex = threading.Lock()
        self._spare: Segment | None = None
        self._segment_numbers = itertools.count(1)
        self.segments: list[Segment] = []

    def append_start(self, payload: bytes) -> int:
        """Record the start of a request; returns its number, for append_end(). Raises JournalFull."""
        with self._lock:
            segment = self._segment_with_room(HEADER_BYTES + len(payload) + RESERVE_BYTES * (self._open_requests + 1))
            self._last_number += 1
            segment.append(START, self._last_number, payload)
            self._open_requests += 1
            return self._last_number

    def append_start_again(self, number: int, payload: bytes) -> None:
        """Record a newer start of a request, which replaces the earlier one. Raises JournalFull."""
        self._write(START, payload, number)

    def append_end(self, number: int, payload: bytes, fallback: Callable[[], bytes]) -> None:
        """Record the end of a request: `payload`, or if there is no room that of `fallback`, within RESERVE_BYTES.

        Neither is ever truncated.
        """
        with self._lock:
            self._open_requests -= 1
            try:
                segment = self._segment_with_room(HEADER_BYTES + len(payload) + RESERVE_BYTES * self._open_requests)
            except JournalFull:
                segment, payload = self.segments[-1], fallback()
                if segment.free_bytes() < HEADER_BYTES + len(payload):
                    raise
            segment.append(END, number, payload)

    def append_complete(self, payload: bytes) -> None:
        """Record a request that has no start record. Raises JournalFull."""
        self._write(END, payload)

    def append_event(self, payload: bytes) -> None:
        """Record a log entry that ends no request. Raises JournalFull."""
        self._write(EVENT, payload)

    def append_cache_entry(self, payload: bytes) -> None:
        """Record an answer that was stored in the cache. Raises JournalFull."""
        self._write(CACHED, payload)

    def append_owner(self, payload: bytes) -> None:
        """Record the owner of what a provider keeps. Raises JournalFull."""
        self._write(OWNED, payload)

    def append_sample(self, payload: bytes) -> None:
        """Record what a guardrail has matched. Raises JournalFull."""
        self._write(SAMPLED, payload)

    def preallocate(self) -> None:
        """Create the next segment before it is needed; called in the background."""
        self._abandon_deleted_files()
        with self._lock:
            is_spare_due = self._spare is None and (
                not self.segments or self.segments[-1].free_bytes() < self._segment_bytes // 2
            )
        if is_spare_due:
            with suppress(JournalFull):
                new = self._new_segment(self._segment_bytes)
                with self._lock:
                    self._spare = new

    def seal(self) -> None:
        """End the writing to the present segments, so that they can be removed once they are shipped."""
        with self._lock:
            for segment in self.segments:
                segment.sealed = True

    def remove_segment(self, segment: Segment) -> None:
        """Remove a segment whose records have all been shipped."""
        with self._lock:
            self.segments.remove(segment)
        segment.remove()

    def close(self) -> None:
        """Remove the journal's folder if no segment is left; otherwise another process adopts it."""
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is not None:
            spare.remove()
        if self._lock_handle is not None and not self.segments:
            with suppress(OSError):
                (self.folder / LOCK_NAME).unlink()
                self.folder.rmdir()

    def _abandon_deleted_files(self) -> None:
        """Stop writing to segments whose files were deleted, and restore a deleted lock file.

        The records of a deleted file are lost when the process ends. A journal without its lock is never adopted.
        """
        if self._lock_handle is not None:
            with suppress(OSError):
                self._lock_folder()
        with self._lock:
            segments = [segment for segment in (*self.segments[-1:], self._spare) if segment is not None]
        if deleted_segments := [segment for segment in segments if not segment.path.exists()]:
            with self._lock:
                for segment in deleted_segments:
                    segment.sealed = True
                if self._spare in deleted_segments:
                    self._spare = None

    def _write(self, kind: int, payload: bytes, number: int = 0) -> None:
        with self._lock:
            segment = self._segment_with_room(HEADER_BYTES + len(payload) + RESERVE_BYTES * self._open_requests)
            if not number:
                number = self._last_number = self._last_number + 1
            segment.append(kind, number, payload)

    def _segment_with_room(self, needed: int) -> Segment:
        last = self.segments[-1] if self.segments else None
        if last is not None and last.size - last.end >= needed and not last.sealed:
            return last
        size = max(self._segment_bytes, needed)
        if self._spare is not None and self._spare.size >= needed:
            new, self._spare = self._spare, None
        else:
            new = self._new_segment(size)
        if last is not None:
            last.sealed = True
            last.release(last.end)
        self.segments.append(new)
        return new

    def _new_segment(self, size: int) -> Segment:
        try:
            if self._lock_handle is None:
                self._lock_folder()
            try:
                return self._create_next(size)
            except FileNotFoundError:  # the folder was deleted
                self._lock_folder()
                return self._create_next(size)
        except OSError as error:
            log.error(
                "Log entries cannot be written to %s (%s). Work requests are refused.", self.folder, error.strerror
            )
            raise JournalFull(f"no journal segment can be made: {error.strerror}") from error

    def _create_next(self, size: int) -> Segment:
        return Segment(self.folder / f"{next(self._segment_numbers):08d}.segment", size)

    def _lock_folder(self) -> None:
        with self._folder_mutex:
            if self._lock_handle is not None and not (self.folder / LOCK_NAME).exists():
                os.close(self._lock_handle)
                self._lock_handle = None
            if self._lock_handle is None:
                self._lock_handle = lock_own_folder(self.folder)


def lock_folder(folder: Path) -> int | None:
    """Lock a journal's folder until this process ends; returns the handle, or None if another process has locked it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def lock_own_folder(folder: Path) -> int:
    """Create a journal's folder and lock it; returns the handle. The lock file is locked before others can see it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = folder / f"{LOCK_NAME}.new"
    handle = os.open(new, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    new.rename(folder / LOCK_NAME)
    return handle


def abandoned_journals(root: Path, *, older_than: float = 5.0) -> Iterator[tuple[Path, int]]:
    """The journal folders of dead processes, each locked by this process, with the handle of its lock."""
    if not root.is_dir():
        return
    for folder in sorted(root.iterdir()):
        with suppress(OSError):
            # A time in the future does not count as new: the clock was set back.
            if 0 <= time.time() - folder.stat().st_mtime < older_than or not (folder / LOCK_NAME).exists():
                continue
            handle = lock_folder(folder)
            if handle is not None:
                yield folder, handle


def segment_paths(folder: Path) -> list[Path]:
    """The segment files of a journal in the order of their creation; a spare one may be used later."""
    return sorted(folder.glob("*.segment"))


def read_records(data: Buffer, start: int, stop: int) -> Iterator[Record]:
    """The records between two offsets, up to the first that is incomplete or damaged."""
    while start + HEADER_BYTES <= stop:
        kind, number, length, checksum = _FRAME.unpack_from(data, start)
        end = start + HEADER_BYTES + length
        if kind == 0 or end > stop:
            return
        payload = data[start + HEADER_BYTES : end]
        if checksum != _checksum(kind, number, payload):
            return
        yield Record(kind, number, payload, end)
        start = end


def recover_records(data: Buffer, start: int = 0) -> Iterator[Record]:
    """The intact records from an offset to the end of a segment, also those behind damaged bytes."""
    offset: int | None = start
    while offset is not None:
        for record in read_records(data, offset, len(data)):
            offset = record.end
            yield record
        offset = _next_frame(data, offset)


def is_damaged(data: Buffer) -> bool:
    """Whether a segment has bytes that belong to no intact record.

    Zeros do not count. Nor does a last record without a header: the process died while it wrote this one.
    """
    end = 0
    for record in recover_records(data):
        if record.end - len(record.payload) - HEADER_BYTES != end:
            return True
        end = record.end
    return any(data[end : end + HEADER_BYTES])


def _next_frame(data: Buffer, start: int) -> int | None:
    """The offset of the next intact record after damaged bytes; None if there is none."""
    while frame := _FRAME_START.search(data, start + 1):
        start = frame.start()
        if next(read_records(data, start, len(data)), None):
            return start
    return None


def _checksum(kind: int, number: int, payload: bytes) -> int:
    return zlib.crc32(payload, ((number << 3 | kind) ^ number >> 29) & 0xFFFFFFFF)
