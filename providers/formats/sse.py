"""Server-sent events as bytes (WHATWG HTML, section 9.2): split at LF, CRLF or CR, never decoded before whole."""

import re
from collections.abc import Iterator
from functools import lru_cache

# CR is a line's end of its own only where no LF follows: CRLF is one end and not two.
EVENT_END = re.compile(rb"(?:\n|\r(?!\n))(?:\r\n|\n|\r)")
CARRIAGE_RETURN = ord("\r")
DATA = re.compile(rb"(?:\A|[\r\n])data(?:: ?([^\r\n]*))?(?=[\r\n]|\Z)")
# A string of JSON that means what it says, and holds no end of a line.
PLAIN = re.compile(rb'[^\x00-\x1f"\\]*')
LONGEST_ALIKE = 4096  # bytes of events that are compared: providers choose how long they are
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventSplitter:
    """Cuts a stream of bytes into whole events, wherever the pieces were cut."""

    def __init__(self) -> None:
        self._rest = bytearray()  # grows in place: a long event in small pieces takes linear time
        self._searched = 0
        self._begun = False

    @property
    def is_between(self) -> bool:
        """Whether the next piece begins an event."""
        return not self._rest

    def feed(self, piece: bytes) -> list[bytes]:
        """The events that are whole now, each with the blank line that ends it; without a byte order mark."""
        if not self._rest and 0 <= piece.find(b"\n\n") == len(piece) - 2 and CARRIAGE_RETURN not in piece:
            events = [piece]  # one event in one piece: what most providers send
        else:
            self._rest += piece
            events = self._cut()
        if events and not self._begun:
            self._begun = True
            events[0] = events[0].removeprefix(BYTE_ORDER_MARK)
        return events

    def end(self) -> bytes:
        """What came after the last blank line."""
        rest, self._rest, self._searched = bytes(self._rest), bytearray(), 0
        return rest

    def _cut(self) -> list[bytes]:
        events, start = [], 0
        search = max(self._searched - 3, 0)  # a blank line is at most four bytes long
        while found := EVENT_END.search(self._rest, search):
            events.append(bytes(self._rest[start : found.end()]))
            start = search = found.end()
        del self._rest[:start]
        self._searched = len(self._rest)
        return events


def events_in(recorded: bytes) -> Iterator[bytes]:
    """The events of a recorded stream one by one: all at once they could take many times its size."""
    start = 0
    for found in EVENT_END.finditer(recorded):
        yield recorded[start : found.end()]
        start = found.end()


def data_of(event: bytes) -> bytes:
    """The data of an event: its data lines joined with LF; b"" for comments and other fields."""
    if is_one_line(event):
        return event[6:-2]
    return b"\n".join(DATA.findall(event.removeprefix(BYTE_ORDER_MARK)))


def is_one_line(event: bytes) -> bool:
    """Whether an event is a single line of data, as nearly all are, and the blank line behind it."""
    ends = event.endswith(b"\n\n") and event.find(b"\n") == len(event) - 2
    return ends and event.startswith(b"data: ") and CARRIAGE_RETURN not in event


class Likeness:
    """Knows events that differ from one that was looked at in a text alone: nothing else is to be found in them.

    A model's words come in hundreds of these. The text is a string of JSON without a quote or a backslash: whatever it
    says, what stands around it means the same. There can be a second one, of random letters.
    """

    def __init__(self, event: bytes, text: tuple[int, int], letters: tuple[int, int] | None = None) -> None:
        begin, end = text
        self._before, self._behind = event[:begin], event[letters[1] if letters else end :]
        self._between = event[end : letters[0]] if letters else b""  # begins with the quote that ends the text
        self._chunk_end = self._behind + b"\r\n"

    def has(self, event: bytes) -> bool:
        """Whether this is such an event, and a whole one."""
        before, behind = self._before, self._behind
        same = event.startswith(before) and event.endswith(behind)
        return same and self._varies_in_text(event, len(before), len(event) - len(behind))

    def has_chunk(self, data: bytes) -> bool:
        """Whether this is one whole chunk of HTTP/1.1 with such an event in it, and nothing else (RFC 9112, 7.1)."""
        lines = _size_lines(len(data))
        if not data.startswith(lines):
            return False
        begin, before, end = len(lines[0]), self._before, self._chunk_end
        same = data.startswith(before, begin) and data.endswith(end)
        return same and self._varies_in_text(data, begin + len(before), len(data) - len(end))

    def _varies_in_text(self, data: bytes, begin: int, end: int) -> bool:
        if between := self._between:
            text = PLAIN.match(data, begin, end)
            if text is None or not data.startswith(between, text.end(), end):
                return False
            begin = text.end() + len(between)
        return PLAIN.fullmatch(data, begin, end) is not None


@lru_cache(maxsize=LONGEST_ALIKE)
def _size_lines(size: int) -> tuple[bytes, ...]:
    """The first line of a chunk that has so many bytes with its lines, in small digits and in large; () for none."""
    lines = (style % (size - digits - 4) for digits in range(1, 9) for style in (b"%x\r\n", b"%X\r\n"))
    return tuple(line for line in lines if size - len(line) - 2 == int(line, 16))
