"""Memory that the processes of one server share: each writes what it has counted, and any of them reads all of it.

It belongs to nobody's disk and is gone with the last process. The server hands out the slots: a process that dies
leaves its numbers in its slot, and the one that is started in its place goes on from them.
"""

import mmap
import struct
import zlib

SLOT_BYTES = 1024 * 1024  # only what is written takes memory
TRIES = 5

_HEADER = struct.Struct("<II")  # the length of what follows, and its CRC-32


class Slots:
    """So many slots, all of them free at first."""

    def __init__(self, number: int) -> None:
        self._map = mmap.mmap(-1, number * SLOT_BYTES)
        self._free = set(range(number))
        self.number = number

    def take(self) -> int | None:
        """The lowest free slot; None if there is none. Asked by the server, as give_back() is."""
        if not self._free:
            return None
        slot = min(self._free)
        self._free.remove(slot)
        return slot

    def give_back(self, slot: int | None) -> None:
        """Its process is dead: another one may have it."""
        if slot is not None:
            self._free.add(slot)

    def write(self, slot: int, payload: bytes) -> bool:
        """Replace what the slot holds; whether it had the room."""
        packed = zlib.compress(payload, 1)
        if len(packed) > SLOT_BYTES - _HEADER.size:
            return False
        start = slot * SLOT_BYTES
        self._map[start + _HEADER.size : start + _HEADER.size + len(packed)] = packed
        self._map[start : start + _HEADER.size] = _HEADER.pack(len(packed), zlib.crc32(packed))
        return True

    def read(self, slot: int) -> bytes | None:
        """What the slot holds; None if that is nothing, or is being replaced all the time."""
        start = slot * SLOT_BYTES
        for _ in range(TRIES):
            length, checksum = _HEADER.unpack_from(self._map, start)
            packed = self._map[start + _HEADER.size : start + _HEADER.size + length]
            if length and zlib.crc32(packed) == checksum:
                return zlib.decompress(packed)
        return None


# Made by the server before it forks, and the slot that a forked process was given (gunicorn.conf.py).
shared: Slots | None = None
own: int | None = None
