"""AWS's binary event stream (application/vnd.amazon.eventstream): frames with their lengths, headers and checksums.

    total length | length of the headers | CRC-32 of both | headers | payload | CRC-32 of all before it

Lengths and checksums are 32 bits, big endian. A header is the length of its name (8 bits), the name, a type (8 bits)
and the value. Only texts (type 7) are read; headers of other types are skipped.
"""

import struct
from struct import Struct
from typing import NamedTuple
from zlib import crc32

MEDIA_TYPE = "application/vnd.amazon.eventstream"
PRELUDE, CHECKSUM, LENGTH = Struct(">III"), Struct(">I"), Struct(">H")
SMALLEST = PRELUDE.size + CHECKSUM.size
MOST_HEADERS, MOST_PAYLOAD = 128 * 1024, 24 * 1024 * 1024  # the limits of AWS's own readers
TEXT, BYTES = 7, 6
# The size in bytes of a value of the other types: true, false, byte, short, integer, long, timestamp, UUID.
SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}


class InvalidFrame(Exception):
    """The bytes are not a frame: a checksum, a length or a header is wrong."""


class Frame(NamedTuple):
    """One frame: its text headers, and the payload."""

    headers: dict[str, str]
    payload: bytes


class FrameSplitter:
    """Splits a byte stream into complete frames, however it was cut into pieces."""

    def __init__(self) -> None:
        self._rest = bytearray()  # grows in place: a long frame in small pieces takes linear time
        self._size = 0  # of the incomplete frame, 0 if not yet known
        self.problem = ""  # why the rest of the stream cannot be read

    @property
    def at_event_boundary(self) -> bool:
        """Whether the next piece begins a frame."""
        return not self._rest

    def feed(self, piece: bytes) -> list[bytes]:
        """The frames completed by this piece."""
        self._rest += piece
        frames: list[bytes] = []
        while (size := self._size or self._begin_frame()) and len(self._rest) >= size:
            frames.append(bytes(self._rest[:size]))
            del self._rest[:size]
            self._size = 0
        return frames

    def end(self) -> bytes:
        """The incomplete rest after the last complete frame."""
        rest, self._rest = bytes(self._rest), bytearray()
        return rest

    def _begin_frame(self) -> int:
        """The size of the frame at the beginning of the rest; 0 if it is not known yet, or not valid."""
        if self.problem or len(self._rest) < PRELUDE.size:
            return 0
        total, headers, checksum = PRELUDE.unpack_from(self._rest)
        if crc32(self._rest[:8]) != checksum:
            self.problem = "the checksum of its beginning is wrong"
        elif headers > MOST_HEADERS or not SMALLEST + headers <= total <= SMALLEST + headers + MOST_PAYLOAD:
            self.problem = "its length is impossible"
        else:
            self._size = total
        return self._size


def read_frame(raw: bytes) -> Frame:
    """A complete frame. Raises InvalidFrame if the checksum or a header is wrong."""
    end = len(raw) - CHECKSUM.size
    if crc32(raw[:end]) != CHECKSUM.unpack_from(raw, end)[0]:
        raise InvalidFrame("its checksum is wrong")
    begin = PRELUDE.size + PRELUDE.unpack_from(raw)[1]
    return Frame(_headers(raw, PRELUDE.size, begin), raw[begin:end])


def write_frame(headers: dict[str, str], payload: bytes) -> bytes:
    """A frame with these text headers."""
    parts = [
        bytes([len(name.encode())]) + name.encode() + bytes([TEXT]) + LENGTH.pack(len(value.encode())) + value.encode()
        for name, value in headers.items()
    ]
    body = b"".join(parts)
    lengths = Struct(">II").pack(SMALLEST + len(body) + len(payload), len(body))
    frame = lengths + CHECKSUM.pack(crc32(lengths)) + body + payload
    return frame + CHECKSUM.pack(crc32(frame))


def _headers(raw: bytes, at: int, end: int) -> dict[str, str]:
    headers = {}
    try:
        while at < end:
            name_end = at + 1 + raw[at]
            name, kind, at = raw[at + 1 : name_end].decode(), raw[name_end], name_end + 1
            if kind in (TEXT, BYTES):
                begin = at + LENGTH.size
                at = begin + LENGTH.unpack_from(raw, at)[0]
                if kind == TEXT:
                    headers[name] = raw[begin:at].decode()
            else:
                at += SIZES[kind]
    except (KeyError, IndexError, ValueError, struct.error) as error:
        raise InvalidFrame("its headers cannot be read") from error
    if at != end:
        raise InvalidFrame("its headers cannot be read")
    return headers
