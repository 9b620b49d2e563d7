"""Citations in answers of Anthropic and Bedrock, which apply to a whole block of text."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from providers.formats.neutral.reply import Citation
from providers.formats.surrogates import merge_surrogates

WEB = ("https://", "http://")
DROPPED_CITATIONS = "citations"  # of documents in the request, which have no address


class CitedBlocks:
    """Counts the text of an answer block by block: a citation has a position once its block is complete.

    A citation that other shapes cannot hold is None here; its kind is passed to `drop`.
    """

    def __init__(self, drop: Callable[[str], None]) -> None:
        self._drop = drop
        self._words = self._begin = 0
        self._last = ""  # character; may be half a surrogate pair
        self._pages: list[Citation] = []

    def add_text(self, text: str) -> None:
        """Add text to the block."""
        self._words += len(merge_surrogates(text, self._last))
        self._last = text[-1:] or self._last

    def add_citation(self, page: Citation | None) -> None:
        """Add a citation of the block, before or after its text."""
        if page is None:
            self._drop(DROPPED_CITATIONS)
        else:
            self._pages.append(page)

    def end_block(self) -> list[Citation]:
        """End the block; returns its citations."""
        citations = [replace(page, start=self._begin, end=self._words) for page in self._pages]
        self._begin, self._pages = self._words, []
        return citations

    def add_block(self, text: str, pages: Iterable[Citation | None]) -> list[Citation]:
        """Add a complete block; returns its citations."""
        self.add_text(text)
        for page in pages:
            self.add_citation(page)
        return self.end_block()
