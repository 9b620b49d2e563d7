"""What an answer of Gemini's rests on (python-genai, GroundingMetadata): pages, and which segments of its words do."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import accumulate, repeat
from typing import NamedTuple

from gateway_project.json_types import JsonObject
from providers.formats.json_values import as_dict, as_list, as_text
from providers.formats.neutral import Citation
from providers.formats.surrogates import merge_surrogates
from providers.formats.usage import count

GROUNDING = "groundingMetadata"
# Where a source says what it is: a page of the web, one of Google's places, or a document of a store.
KINDS = ("web", "maps", "retrievedContext")
SUGGESTIONS = "searchEntryPoint"  # what Google wants shown beside a grounded answer, as HTML


class GroundingSupport(NamedTuple):
    """One citation as Google tells it: `source` without a place, and the bytes of UTF-8 since its part began."""

    source: Citation
    part: int
    start: int
    end: int


def citations_of(grounding: object, words: str, begins: Mapping[int, int]) -> tuple[list[Citation], list[str]]:
    """The citations of an answer's words, and the names of what there is to it that no other shape knows."""
    supports, lost = supports_of(grounding)
    offsets = array("Q", accumulate(_sizes(words), initial=0))
    return _placed(supports, offsets, begins), lost


def supports_of(grounding: object) -> tuple[list[GroundingSupport], list[str]]:
    """The same without the words, of which those meant may not have been said yet."""
    grounding = as_dict(grounding)
    sources = [_source(as_dict(chunk)) for chunk in as_list(grounding.get("groundingChunks"))]
    supports, lost = [], [SUGGESTIONS] if grounding.get(SUGGESTIONS) else []
    for support in map(as_dict, as_list(grounding.get("groundingSupports"))):
        segment = as_dict(support.get("segment"))
        part, start, end = (count(segment.get(name)) or 0 for name in ("partIndex", "startIndex", "endIndex"))
        for number in as_list(support.get("groundingChunkIndices")):
            source = sources[number] if type(number) is int and 0 <= number < len(sources) else None
            if source is None:
                lost.append(GROUNDING)
            else:
                supports.append(GroundingSupport(source, part, start, end))
    return supports, lost


class StreamedGrounding:
    """What a stream rests on: each citation once, and not before the words are there that it is of.

    A piece may say again what others said, and more than once what no word has been said of yet.
    """

    def __init__(self) -> None:
        self._words: list[str] = []  # those not in `_offsets` yet: nobody counts before there is something to place
        self._last = ""  # of the letters in `_offsets`, which may be half a character
        self._offsets = array("Q", [0])
        self._met: set[GroundingSupport] = set()
        self._waiting: list[tuple[int, int, GroundingSupport]] = []  # a heap: by where they end, then as they came

    def add_text(self, text: str) -> None:
        """More words of the answer."""
        self._words.append(text)

    def read(self, grounding: object) -> list[str]:
        """Take in what a piece tells; the names of what no other shape knows."""
        supports, lost = supports_of(grounding)
        for one in supports:
            if one not in self._met:
                heappush(self._waiting, (one.end, len(self._met), one))
                self._met.add(one)
        return lost

    def due(self, *, over: bool = False) -> list[Citation]:
        """What can be told now; `over`: no more words will come."""
        if not self._waiting:
            return []
        words, self._words = merge_surrogates("".join(self._words), self._last), []
        self._last = words[-1:] or self._last
        before = self._offsets.pop()
        self._offsets.extend(accumulate(_sizes(words), initial=before))
        supports = []
        while self._waiting and (over or self._waiting[0][0] <= self._offsets[-1]):
            supports.append(heappop(self._waiting)[-1])
        return _placed(supports, self._offsets, {})


def _source(chunk: JsonObject) -> Citation | None:
    """What is cited, as far as it has an address."""
    kind = next((kind for kind in KINDS if kind in chunk), "")
    page = as_dict(chunk.get(kind))
    url = as_text(page.get("uri"))
    return Citation(url, as_text(page.get("title")), as_text(page.get("text"))) if url else None


def _sizes(words: str) -> Iterable[int]:
    """How many bytes each character takes."""
    return repeat(1, len(words)) if words.isascii() else (len(letter.encode("utf-8", "replace")) for letter in words)


def _placed(supports: Iterable[GroundingSupport], offsets: Sequence[int], begins: Mapping[int, int]) -> list[Citation]:
    """The citations with their places among all words: before each character, and at the end, stand so many bytes.

    `begins` says by the number of a part where its own words begin.
    """
    last, citations = len(offsets) - 1, []
    for source, part, *place in supports:
        begin = offsets[begins.get(part, 0)]
        start, end = (min(bisect_left(offsets, begin + byte), last) for byte in place)
        citations.append(replace(source, start=start, end=end))
    return citations
