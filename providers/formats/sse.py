"""Server-sent events as bytes (WHATWG HTML, section 9.2): split at LF, CRLF or CR, decoded only when complete."""

import re
from collections.abc import Iterator
from functools import lru_cache

# CR ends a line by itself only if no LF follows: CRLF is one line end, not two.
EVENT_END = re.compile(rb"(?:\n|\r(?!\n))(?:\r\n|\n|\r)")
CARRIAGE_RETURN = ord("\r")
DATA = re.compile(rb"(?:\A|[\r\n])data(?:: ?([^\r\n]*))?(?=[\r\n]|\Z)")
# The inside of a JSON string without escapes and control characters.
PLAIN = re.compile(rb'[^\x00-\x1f"\\]*')
MAX_TEMPLATE_BYTES = 4096  # of the event that a template is made from: providers choose how long events are
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventSplitter:
    """Splits a byte stream into complete events, however it was cut into pieces."""

    def __init__(self) -> None:
        self._rest = bytearray()  # grows in place: a long event in small pieces takes linear time
        self._searched = 0
        self._begun = False

    @property
    def at_event_boundary(self) -> bool:
        """Whether the next piece begins an event."""
        return not self._rest

    def feed(self, piece: bytes) -> list[bytes]:
        """The events completed by this piece, each with the blank line that ends it; without a byte order mark."""
        if not self._rest and 0 <= piece.find(b"\n\n") == len(piece) - 2 and CARRIAGE_RETURN not in piece:
            events = [piece]  # one event in one piece: what most providers send
        else:
            self._rest += piece
            events = self._cut_events()
        if events and not self._begun:
            self._begun = True
            events[0] = events[0].removeprefix(BYTE_ORDER_MARK)
        return events

    def end(self) -> bytes:
        """The incomplete rest after the last blank line."""
        rest, self._rest, self._searched = bytes(self._rest), bytearray(), 0
        return rest

    def _cut_events(self) -> list[bytes]:
        events, start = [], 0
        search = max(self._searched - 3, 0)  # a blank line is at most four bytes long
        while blank := EVENT_END.search(self._rest, search):
            events.append(bytes(self._rest[start : blank.end()]))
            start = search = blank.end()
        del self._rest[:start]
        self._searched = len(self._rest)
        return events


def events_in(data: bytes) -> Iterator[bytes]:
    """Iterate over the events of a recorded stream: a list of them could take many times its size."""
    start = 0
    for blank in EVENT_END.finditer(data):
        yield data[start : blank.end()]
        start = blank.end()


def data_of(event: bytes) -> bytes:
    """The data of an event: its data lines joined with LF; b"" for comments and other fields."""
    if is_one_line(event):
        return event[6:-2]
    return b"\n".join(DATA.findall(event.removeprefix(BYTE_ORDER_MARK)))


def is_one_line(event: bytes) -> bool:
    """Whether an event is a single data line, as nearly all are, and a blank line."""
    ends = event.endswith(b"\n\n") and event.find(b"\n") == len(event) - 2
    return ends and event.startswith(b"data: ") and CARRIAGE_RETURN not in event


class ChunkTemplate:
    """Matches events that differ from a parsed one only in their text, so that they need not be parsed.

    A model's answer consists of hundreds of these. The text is a JSON string without quotes or backslashes: it cannot
    change the meaning of what surrounds it. A second variable string may follow, of random padding letters.
    `text` and `padding` are the positions of both in `event`.
    """

    def __init__(self, event: bytes, text: tuple[int, int], padding: tuple[int, int] | None = None) -> None:
        begin, end = text
        self._before, self._after = event[:begin], event[padding[1] if padding else end :]
        self._between = event[end : padding[0]] if padding else b""  # begins with the quote that ends the text
        self._chunk_end = self._after + b"\r\n"

    def matches(self, event: bytes) -> bool:
        """Whether this is exactly one such event."""
        before, after = self._before, self._after
        same = event.startswith(before) and event.endswith(after)
        return same and self._varies_in_text(event, len(before), len(event) - len(after))

    def matches_http_chunk(self, data: bytes) -> bool:
        """Whether this is exactly one HTTP/1.1 chunk that holds exactly one such event (RFC 9112, section 7.1)."""
        size, before, end = len(data), self._before, self._chunk_end
        lines = _size_lines(size)
        if not (data.startswith(lines) and data.endswith(end)):
            return False
        begin = len(lines[0])
        return data.startswith(before, begin) and self._varies_in_text(data, begin + len(before), size - len(end))

    def _varies_in_text(self, data: bytes, begin: int, end: int) -> bool:
        if between := self._between:
            text = PLAIN.match(data, begin, end)
            if text is None or not data.startswith(between, text.end(), end):
                return False
            begin = text.end() + len(between)
        return PLAIN.fullmatch(data, begin, end) is not None


@lru_cache(maxsize=MAX_TEMPLATE_BYTES)
def _size_lines(size: int) -> tuple[bytes, ...]:
    """The possible first lines of a chunk of this total size, in lower and upper case hex digits; () for none."""
    lines = (style % (size - digits - 4) for digits in range(1, 9) for style in (b"%x\r\n", b"%X\r\n"))
    return tuple(line for line in lines if size - len(line) - 2 == int(line, 16))
