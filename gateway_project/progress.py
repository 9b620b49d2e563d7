"""What a long command is doing now, on a terminal; a script that reads its output sees nothing of it."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from django.core.management.base import OutputWrapper

CLEAR_LINE = "\r\x1b[K"
Item = TypeVar("Item")


class Progress:
    """One line, written over again and again; clear() it before anything else is printed."""

    def __init__(self, output: OutputWrapper) -> None:
        self._output = output
        self._is_shown = output.isatty()

    def show(self, text: str) -> None:
        self._write(f"{CLEAR_LINE}{text}…")

    def clear(self) -> None:
        self._write(CLEAR_LINE)

    def count_items(self, items: Sequence[Item], action: str) -> Iterator[Item]:
        """The items, with the number of the one that is being worked on."""
        for number, item in enumerate(items, start=1):
            self.show(f"{action}: {number} of {len(items)}")
            yield item
        self.clear()

    def _write(self, text: str) -> None:
        if self._is_shown:
            self._output.write(text, style_func=str, ending="")
            self._output.flush()
