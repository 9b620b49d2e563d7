r"""JSON in pieces, read without the escapes that hide letters: what is written \u0041 is searched as A. Pure.

The text that is read is the same JSON as before. The pieces themselves can be put together again from it.
"""

import json
import re
from collections import deque
from typing import NamedTuple

_ESCAPE = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[^u])", re.DOTALL)
# The beginning of an escape, or the first half of a surrogate pair, at the end of a text.
_UNFINISHED = re.compile(
    r"\\(?:u(?:[0-9a-fA-F]{0,3}|[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?)?)?\Z"
)


class Unit(NamedTuple):
    """An escape that is read as something else: where its reading begins, how long that is, and how it was written."""

    start: int
    length: int
    source: str


class Escapes:
    """Reads one text; at most eleven characters are held back, which may be the beginning of an escape."""

    def __init__(self) -> None:
        self._rest = ""
        self._units: deque[Unit] = deque()
        self._read = self._passed = 0  # characters of the readings so far
        self._skipped = 0  # characters of the next readings that were given back already

    def read(self, piece: str) -> str:
        """The next piece as it is searched."""
        text, self._rest = self._rest + piece, ""
        parts, position = [], 0
        while (begin := text.find("\\", position)) >= 0:
            parts.append(self._note(text[position:begin]))
            if _UNFINISHED.match(text, begin):
                self._rest = text[begin:]
                return "".join(parts)
            escape = _ESCAPE.match(text, begin)
            position = begin + 1 if escape is None else escape.end()
            parts.append(self._note(text[begin:position], is_escape=escape is not None))
        return "".join([*parts, self._note(text[position:])])

    def end(self) -> str:
        """What was held back once the text has ended."""
        rest, self._rest = self._rest, ""
        return self._note(rest)

    def take_written(self, reading: str) -> str:
        """The next part of what was read, as it was written."""
        start, end = self._passed, self._passed + len(reading)
        position, parts = start + self._skipped, []
        self._skipped = 0
        for unit in self._pass(end):
            if unit.start >= position:
                parts += [reading[position - start : unit.start - start], unit.source]
                position = unit.start + unit.length
        self._skipped = max(0, position - end)
        return "".join([*parts, reading[position - start :]])

    def skip(self, reading: str) -> None:
        """Go past the next part of what was read."""
        self._skipped = 0
        self._pass(self._passed + len(reading))

    def _pass(self, end: int) -> list[Unit]:
        """The escapes up to there, which are forgotten."""
        units = []
        while self._units and self._units[0].start < end:
            units.append(self._units.popleft())
        self._passed = end
        return units

    def _note(self, source: str, *, is_escape: bool = False) -> str:
        reading = _read_escape(source) if is_escape else source
        if reading != source:
            self._units.append(Unit(self._read, len(reading), source))
        self._read += len(reading)
        return reading


def _read_escape(escape: str) -> str:
    """The character of an escape as JSON writes it without need; an escape that stands for none stays."""
    if escape[1] not in "u/":
        return escape
    character = json.loads(f'"{escape}"')
    return escape if "\ud800" <= character <= "\udfff" else json.dumps(character, ensure_ascii=False)[1:-1]
