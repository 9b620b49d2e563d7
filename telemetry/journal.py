"""A local append-only journal: what is in it survives the death of its process.

A journal is a folder of one process with numbered segments. A segment is given its full size on
disk when it is made and mapped into memory: appending is a copy, without a system call, and a full
disk shows when a segment is made, not in the middle of a record. A record is framed with its length
and a checksum; a process killed while it wrote one loses that one alone.

    kind (1) | number (8) | length (4) | CRC-32 of all of it (4) | payload

Segment files hold zeros behind their last record, and kind 0 ends the reading.
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

START, END, EVENT, CACHED = 1, 2, 3, 4

_FRAME = struct.Struct("<BQII")
HEADER_BYTES = _FRAME.size
# Kept free for the end of each open request, so that an end always finds room.
RESERVE_BYTES = 4096
LOCK_NAME = "lock"
# How a frame begins; records are JSON, in which none of these bytes stand.
_BEGIN = re.compile(rb"[\x01-\x04].{5}\0\0\0", re.DOTALL)


class JournalFull(Exception):
    """The journal cannot take another request: its disk is full or gone."""


class Record(NamedTuple):
    """A record as it was read: `end` is the offset behind it."""

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
        behind = start + HEADER_BYTES + len(payload)
        self._map[start + HEADER_BYTES : behind] = payload
        # The header makes the record exist: it goes last.
        _FRAME.pack_into(self._map, start, kind, number, len(payload), _checksum(kind, number, payload))
        self.end = behind

    def room(self) -> int:
        return self.size - self.end

    def records(self, start: int) -> Iterator[Record]:
        """The records from an offset to what has been written until now."""
        return read_records(self._map, start, self.end)

    def sync(self) -> None:
        """Put what was written onto the disk, for the case that the machine dies."""
        with suppress(OSError, ValueError):
            self._map.flush()

    def release(self, end: int) -> None:
        """What comes before this offset is stored elsewhere: it need not stay in our memory."""
        if whole_pages := end // mmap.PAGESIZE * mmap.PAGESIZE:
            self._map.madvise(mmap.MADV_DONTNEED, 0, whole_pages)

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
        self._numbers = 0
        self._open = 0
        self._claim: int | None = None
        self._claiming = threading.Lock()
        self._spare: Segment | None = None
        self._names = itertools.count(1)
        self.segments: list[Segment] = []

    def start(self, payload: bytes) -> int:
        """Write that a request begins; its number, for end(). Raises JournalFull."""
        with self._lock:
            segment = self._with_room(HEADER_BYTES + len(payload) + RESERVE_BYTES * (self._open + 1))
            self._numbers += 1
            segment.append(START, self._numbers, payload)
            self._open += 1
            return self._numbers

    def start_again(self, number: int, payload: bytes) -> None:
        """Write anew what is known of a request that began. Raises JournalFull."""
        self._write(START, payload, number)

    def end(self, number: int, payload: bytes, shorter: Callable[[], bytes]) -> None:
        """Write how a request ended; what `shorter` gives, within RESERVE_BYTES, where the full payload has no room.

        Nothing of either is ever cut off: half a record is none.
        """
        with self._lock:
            self._open -= 1
            self._finish(END, number, payload, shorter)

    def whole(self, payload: bytes) -> None:
        """Write a request that began and ended at once. Raises JournalFull."""
        self._write(END, payload)

    def event(self, payload: bytes) -> None:
        """Write an entry that belongs to no open request. Raises JournalFull."""
        self._write(EVENT, payload)

    def cached(self, payload: bytes) -> None:
        """Write that an answer was stored in the cache. Raises JournalFull."""
        self._write(CACHED, payload)

    def prepare(self) -> None:
        """Make the next segment ahead of its need (called in the background)."""
        self._leave_what_is_gone()
        with self._lock:
            wanted = self._spare is None and (not self.segments or self.segments[-1].room() < self._segment_bytes // 2)
        if wanted:
            with suppress(JournalFull):
                made = self._make(self._segment_bytes)
                with self._lock:
                    self._spare = made

    def seal(self) -> None:
        """Nothing more is written to the segments there are: once shipped they can go."""
        with self._lock:
            for segment in self.segments:
                segment.sealed = True

    def forget(self, segment: Segment) -> None:
        """Remove a segment whose records have all been shipped."""
        with self._lock:
            self.segments.remove(segment)
        segment.remove()

    def close(self) -> None:
        """Remove the journal's folder where nothing is left in it; otherwise somebody else adopts it."""
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is not None:
            spare.remove()
        if self._claim is not None and not self.segments:
            with suppress(OSError):
                (self.folder / LOCK_NAME).unlink()
                self.folder.rmdir()

    def _leave_what_is_gone(self) -> None:
        """Go on in another segment where somebody has deleted the file: it would not survive the process.

        Nor would a journal without its lock be adopted.
        """
        if self._claim is not None:
            with suppress(OSError):
                self._claim_folder()
        with self._lock:
            used = [segment for segment in (*self.segments[-1:], self._spare) if segment is not None]
        if gone := [segment for segment in used if not segment.path.exists()]:
            with self._lock:
                for segment in gone:
                    segment.sealed = True
                if self._spare in gone:
                    self._spare = None

    def _write(self, kind: int, payload: bytes, number: int = 0) -> None:
        with self._lock:
            segment = self._with_room(HEADER_BYTES + len(payload) + RESERVE_BYTES * self._open)
            self._numbers += not number
            segment.append(kind, number or self._numbers, payload)

    def _finish(self, kind: int, number: int, payload: bytes, shorter: Callable[[], bytes]) -> None:
        try:
            segment = self._with_room(HEADER_BYTES + len(payload) + RESERVE_BYTES * self._open)
        except JournalFull:
            segment, payload = self.segments[-1], shorter()
            if segment.room() < HEADER_BYTES + len(payload):
                raise
        segment.append(kind, number, payload)

    def _with_room(self, needed: int) -> Segment:
        if self.segments and not self.segments[-1].sealed and self.segments[-1].room() >= needed:
            return self.segments[-1]
        size = max(self._segment_bytes, needed)
        if self._spare is not None and self._spare.size >= needed:
            made, self._spare = self._spare, None
        else:
            made = self._make(size)
        if self.segments:
            self.segments[-1].sealed = True
        self.segments.append(made)
        return made

    def _make(self, size: int) -> Segment:
        try:
            if self._claim is None:
                self._claim_folder()
            try:
                return self._segment(size)
            except FileNotFoundError:  # somebody has deleted the folder
                self._claim_folder()
                return self._segment(size)
        except OSError as error:
            log.error("Log entries cannot be written in %s (%s): work is refused.", self.folder, error.strerror)
            raise JournalFull(f"no journal segment can be made: {error.strerror}") from error

    def _segment(self, size: int) -> Segment:
        return Segment(self.folder / f"{next(self._names):08d}.segment", size)

    def _claim_folder(self) -> None:
        with self._claiming:
            if self._claim is not None and not (self.folder / LOCK_NAME).exists():
                os.close(self._claim)
                self._claim = None
            if self._claim is None:
                self._claim = claim(self.folder)


def claim(folder: Path) -> int | None:
    """A handle that owns the journal in a folder until its process ends; None while another process owns it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def abandoned(root: Path, *, older_than: float = 5.0) -> Iterator[tuple[Path, int]]:
    """The journals whose processes are dead, each with a handle that makes it ours."""
    if not root.is_dir():
        return
    for folder in sorted(root.iterdir()):
        with suppress(OSError):
            # A folder that has just been made may not be locked yet.
            # A time to come is none: the clock has been set back since.
            if 0 <= time.time() - folder.stat().st_mtime < older_than or not (folder / LOCK_NAME).exists():
                continue
            handle = claim(folder)
            if handle is not None:
                yield folder, handle


def segment_paths(folder: Path) -> list[Path]:
    """The segments of a journal in the order in which they were made: a spare one may be written later."""
    return sorted(folder.glob("*.segment"))


def read_records(data, start: int, stop: int) -> Iterator[Record]:
    """The whole records between two offsets; ends at the first that is torn."""
    while start + HEADER_BYTES <= stop:
        kind, number, length, checksum = _FRAME.unpack_from(data, start)
        behind = start + HEADER_BYTES + length
        if kind == 0 or behind > stop:
            return
        payload = data[start + HEADER_BYTES : behind]
        if checksum != _checksum(kind, number, payload):
            return
        yield Record(kind, number, payload, behind)
        start = behind


def salvaged(data, start: int = 0) -> Iterator[Record]:
    """The whole records from an offset to the end of a segment, also those behind bytes that are damaged."""
    begin: int | None = start
    while begin is not None:
        for record in read_records(data, begin, len(data)):
            begin = record.end
            yield record
        begin = _next_frame(data, begin)


def is_damaged(data) -> bool:
    """Whether a segment has more than whole records, one at most that its process was writing when it died, and zeros.

    Such a record has no header yet.
    """
    end = 0
    for record in salvaged(data):
        if record.end - len(record.payload) - HEADER_BYTES != end:
            return True
        end = record.end
    return any(data[end : end + HEADER_BYTES])


def _next_frame(data, start: int) -> int | None:
    """Where the next whole record begins behind one that is not."""
    while found := _BEGIN.search(data, start + 1):
        start = found.start()
        if next(read_records(data, start, len(data)), None):
            return start
    return None


def _checksum(kind: int, number: int, payload: bytes) -> int:
    return zlib.crc32(payload, ((number << 3 | kind) ^ number >> 29) & 0xFFFFFFFF)
