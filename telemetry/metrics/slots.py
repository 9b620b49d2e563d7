"""Memory that the worker processes share: each writes its metrics to its own slot, and any of them reads all slots.

It is anonymous memory, gone with the last process. The server assigns the slots: the numbers of a process that died
stay in its slot, and the process that replaces it continues from them.
"""

import mmap
import struct
import zlib

SLOT_BYTES = 1024 * 1024  # only what is written takes memory
MAX_READS = 5

_HEADER = struct.Struct("<II")  # the length of what follows, and its CRC-32


class Slots:
    """A fixed number of slots, all free at first."""

    def __init__(self, number: int) -> None:
        self._map = mmap.mmap(-1, number * SLOT_BYTES)
        self._free = set(range(number))
        self.number = number

    def take(self) -> int | None:
        """The lowest free slot; None if there is none. Called by the server process alone, as is release()."""
        if not self._free:
            return None
        slot = min(self._free)
        self._free.remove(slot)
        return slot

    def release(self, slot: int | None) -> None:
        """Free the slot of a process that ended."""
        if slot is not None:
            self._free.add(slot)

    def write(self, slot: int, payload: bytes) -> bool:
        """Replace the slot's payload; returns whether it fits."""
        packed = zlib.compress(payload, 1)
        if len(packed) > SLOT_BYTES - _HEADER.size:
            return False
        start = slot * SLOT_BYTES
        self._map[start + _HEADER.size : start + _HEADER.size + len(packed)] = packed
        self._map[start : start + _HEADER.size] = _HEADER.pack(len(packed), zlib.crc32(packed))
        return True

    def read(self, slot: int) -> bytes | None:
        """The slot's payload; None if it is empty, or was being replaced at each of MAX_READS attempts."""
        start = slot * SLOT_BYTES
        for _ in range(MAX_READS):
            length, checksum = _HEADER.unpack_from(self._map, start)
            packed = self._map[start + _HEADER.size : start + _HEADER.size + length]
            if length and zlib.crc32(packed) == checksum:
                return zlib.decompress(packed)
        return None


# Created by the server before it forks, and the slot assigned to this worker (gunicorn.conf.py).
shared: Slots | None = None
own_slot: int | None = None
# What each worker has measured of the providers' models, in the slot of the same number.
signals: Slots | None = None
