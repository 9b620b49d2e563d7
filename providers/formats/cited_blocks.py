"""Answers that consist of blocks, each of which cites as a whole: Anthropic's, and Bedrock's."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from providers.formats.neutral import Citation
from providers.formats.surrogates import merge_surrogates

WEB = ("https://", "http://")
DROPPED_CITATIONS = "citations"  # of places in a document of the request, which have no address


class CitedBlocks:
    """Counts the words of an answer block by block: what one cites is known once all its words are.

    `drop` is told of citations that no other shape has a place for, which are None here.
    """

    def __init__(self, drop: Callable[[str], None]) -> None:
        self._drop = drop
        self._words = self._begin = 0
        self._last = ""  # of the letters, which may be half a character
        self._pages: list[Citation] = []

    def add_text(self, text: str) -> None:
        """More words of the block."""
        self._words += len(merge_surrogates(text, self._last))
        self._last = text[-1:] or self._last

    def add_citation(self, page: Citation | None) -> None:
        """What the block rests on, before or behind its words."""
        if page is None:
            self._drop(DROPPED_CITATIONS)
        else:
            self._pages.append(page)

    def end_block(self) -> list[Citation]:
        """The citations of the block, which has come to its end."""
        citations = [replace(page, start=self._begin, end=self._words) for page in self._pages]
        self._begin, self._pages = self._words, []
        return citations

    def add_block(self, text: str, pages: Iterable[Citation | None]) -> list[Citation]:
        """The citations of a block that came whole."""
        self.add_text(text)
        for page in pages:
            self.add_citation(page)
        return self.end_block()
