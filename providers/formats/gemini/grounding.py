"""The sources of an answer of Gemini, and the segments of text that they support (python-genai, GroundingMetadata)."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import accumulate, repeat
from typing import NamedTuple

from gateway_project.json_types import JsonObject
from providers.formats.json_values import as_dict, as_list, as_text
from providers.formats.neutral.reply import Citation
from providers.formats.surrogates import merge_surrogates
from providers.formats.usage import read_count

GROUNDING = "groundingMetadata"
# The kinds of sources: web pages, places on Google Maps, documents of a store.
KINDS = ("web", "maps", "retrievedContext")
SUGGESTIONS = "searchEntryPoint"  # HTML that Google wants clients to show beside the answer


class GroundingSupport(NamedTuple):
    """One citation as Google sends it. `start` and `end` count bytes of UTF-8 from the beginning of the part."""

    source: Citation
    part: int
    start: int
    end: int


def citations_of(grounding: object, words: str, begins: Mapping[int, int]) -> tuple[list[Citation], list[str]]:
    """The citations in an answer's text, and the names of content that other shapes cannot hold."""
    supports, omissions = supports_of(grounding)
    offsets = array("Q", accumulate(_sizes(words), initial=0))
    return _place_citations(supports, offsets, begins), omissions


def supports_of(grounding: object) -> tuple[list[GroundingSupport], list[str]]:
    """The citations without positions in the text, which may not be complete yet, and the same names."""
    grounding = as_dict(grounding)
    sources = [_source(as_dict(chunk)) for chunk in as_list(grounding.get("groundingChunks"))]
    supports, omissions = [], [SUGGESTIONS] if grounding.get(SUGGESTIONS) else []
    for support in map(as_dict, as_list(grounding.get("groundingSupports"))):
        segment = as_dict(support.get("segment"))
        part, start, end = (read_count(segment.get(name)) or 0 for name in ("partIndex", "startIndex", "endIndex"))
        for number in as_list(support.get("groundingChunkIndices")):
            source = sources[number] if type(number) is int and 0 <= number < len(sources) else None
            if source is None:
                omissions.append(GROUNDING)
            else:
                supports.append(GroundingSupport(source, part, start, end))
    return supports, omissions


class StreamedGrounding:
    """The citations of a stream: each once, when its text is complete.

    Google may repeat a citation in later pieces, and may send it before its text.
    """

    def __init__(self) -> None:
        self._words: list[str] = []  # not in `_offsets` yet: they are counted when a citation needs it
        self._last = ""  # character in `_offsets`; may be half a surrogate pair
        self._offsets = array("Q", [0])
        self._met: set[GroundingSupport] = set()
        self._waiting: list[tuple[int, int, GroundingSupport]] = []  # a heap, by end and order of arrival

    def add_text(self, text: str) -> None:
        """Add text of the answer."""
        self._words.append(text)

    def read(self, grounding: object) -> list[str]:
        """Read the metadata of a piece; returns the names of content that other shapes cannot hold."""
        supports, omissions = supports_of(grounding)
        for support in supports:
            if support not in self._met:
                heappush(self._waiting, (support.end, len(self._met), support))
                self._met.add(support)
        return omissions

    def due(self, *, over: bool = False) -> list[Citation]:
        """The citations whose text is complete. `over`: no more text will come."""
        if not self._waiting:
            return []
        words, self._words = merge_surrogates("".join(self._words), self._last), []
        self._last = words[-1:] or self._last
        before = self._offsets.pop()
        self._offsets.extend(accumulate(_sizes(words), initial=before))
        supports = []
        while self._waiting and (over or self._waiting[0][0] <= self._offsets[-1]):
            supports.append(heappop(self._waiting)[-1])
        return _place_citations(supports, self._offsets, {})


def _source(chunk: JsonObject) -> Citation | None:
    """The source without positions; None if it has no address."""
    kind = next((kind for kind in KINDS if kind in chunk), "")
    page = as_dict(chunk.get(kind))
    url = as_text(page.get("uri"))
    return Citation(url, as_text(page.get("title")), as_text(page.get("text"))) if url else None


def _sizes(words: str) -> Iterable[int]:
    """The size of each character in bytes."""
    return repeat(1, len(words)) if words.isascii() else (len(letter.encode("utf-8", "replace")) for letter in words)


def _place_citations(
    supports: Iterable[GroundingSupport], offsets: Sequence[int], begins: Mapping[int, int]
) -> list[Citation]:
    """The citations with their positions in the whole text. `offsets` has the bytes before each character and in all.

    `begins` has the position at which the text of each part begins.
    """
    last, citations = len(offsets) - 1, []
    for source, part, *place in supports:
        begin = offsets[begins.get(part, 0)]
        start, end = (min(bisect_left(offsets, begin + byte), last) for byte in place)
        citations.append(replace(source, start=start, end=end))
    return citations
