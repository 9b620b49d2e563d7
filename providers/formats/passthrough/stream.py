"""A stream of any JSON service, forwarded line by line."""

from gateway_project.json_types import JsonObject
from providers.formats.base import StreamReader
from providers.formats.dialect import WorkRequest
from providers.formats.json_stream import stream_error
from providers.formats.json_values import read_json
from providers.formats.openai.stream import DONE
from providers.formats.passthrough.reply import familiar_finish, familiar_text, familiar_usage

LINE_LIMIT = 1024 * 1024


class PassthroughReader(StreamReader):
    """Forwards lines unchanged, and reads usage, errors and end marks in them.

    A line is forwarded when it is whole: it may contain an error, after which nothing more is forwarded.
    """

    def __init__(self, work: WorkRequest) -> None:
        super().__init__(work)
        self._rest = bytearray()  # the beginning of an incomplete line
        self._is_long = False  # whether that line is already being forwarded
        self._marked = False
        self._usage: JsonObject = {}  # counts are totals: the last of each counts

    def feed(self, piece: bytes) -> bytes:
        end = _end_of_lines(piece)
        output = self._take(piece[:end]) if end else b""
        self._rest += piece[end:]
        if self.error is None and (self._is_long or len(self._rest) > LINE_LIMIT):
            self._is_long = True  # forwarded, but not read
            output += self._give()
        return output

    def end(self, is_complete: bool) -> bytes:
        output = self._take(b"")
        # An unknown protocol may have no end mark: then the end of the HTTP framing counts.
        self.done = self.done or self._marked or is_complete
        return output

    def text(self, events: bytes) -> str:
        values = (read_json(line.removeprefix(b"data:").strip()) for line in events.splitlines())
        return "".join(familiar_text(value) for value in values if isinstance(value, dict))

    def _take(self, piece: bytes) -> bytes:
        """The bytes to forward now that this piece ends a line: all lines up to one that contains an error."""
        self._rest += piece
        lines = []
        for line in self._give().splitlines(keepends=True):
            if not self._is_long:
                self._line(line)
            if self.error is not None:
                break
            self._is_long = False
            lines.append(line)
        return b"".join(lines)

    def _give(self) -> bytes:
        rest, self._rest = bytes(self._rest), bytearray()
        return rest

    def _line(self, line: bytes) -> None:
        data = line.removeprefix(b"data:").strip()
        if data == DONE:
            self._marked = True
        elif not line.rstrip(b"\r\n"):  # the blank line ends the event with the mark
            self.done = self.done or self._marked
        elif data.startswith(b"{") and isinstance(value := read_json(data), dict):
            self._read(value)

    def _read(self, value: JsonObject) -> None:
        if value.get("error"):
            self.error = stream_error(value)
        self._marked = self._marked or value.get("type") == "message_stop"
        self.done = self.done or value.get("done") is True
        for holder in (value.get("message"), value):  # Anthropic reports the input first, inside a message
            if isinstance(holder, dict) and isinstance(usage := holder.get("usage"), dict):
                self._usage.update({name: value for name, value in usage.items() if value is not None})
                self.usage = familiar_usage({"usage": self._usage}) or self.usage
        reason, normalised = familiar_finish(value)
        if reason:
            self.provider_finish_reason, self.finish_reason = reason, normalised


def _end_of_lines(piece: bytes) -> int:
    """The end of the last whole line. A CR at the very end may be half of a CRLF."""
    return max(piece.rfind(b"\n"), piece.rfind(b"\r", 0, len(piece) - 1)) + 1
