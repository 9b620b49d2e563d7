"""What an answer of Gemini's rests on (python-genai, GroundingMetadata): pages, and which segments of its words do."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate
from typing import Any

from providers.formats.documents import as_dict, as_list, as_text
from providers.formats.neutral import Citation
from providers.formats.usage import count

GROUNDING = "groundingMetadata"
# Where a source says what it is: a page of the web, one of Google's places, or a document of a store.
KINDS = ("web", "maps", "retrievedContext")
SUGGESTIONS = "searchEntryPoint"  # what Google wants shown beside a grounded answer, as HTML


def citations_of(grounding: Any, words: str, begins: Mapping[int, int]) -> tuple[list[Citation], list[str]]:
    """The citations of an answer's words, and the names of what there is to it that no other shape knows.

    `begins` says by the number of a part where among all words its own begin: segments count bytes of UTF-8 from there.
    """
    grounding = as_dict(grounding)
    sources = [_source(as_dict(chunk)) for chunk in as_list(grounding.get("groundingChunks"))]
    offsets = _offsets(words)
    found, lost = [], [SUGGESTIONS] if grounding.get(SUGGESTIONS) else []
    for support in map(as_dict, as_list(grounding.get("groundingSupports"))):
        start, end = _place(as_dict(support.get("segment")), offsets, begins)
        for number in as_list(support.get("groundingChunkIndices")):
            source = sources[number] if type(number) is int and 0 <= number < len(sources) else None
            if source is None:
                lost.append(GROUNDING)
            else:
                found.append(replace(source, start=start, end=end))
    return found, lost


def _source(chunk: dict[str, Any]) -> Citation | None:
    """What is cited, as far as it has an address."""
    kind = next((kind for kind in KINDS if kind in chunk), "")
    told = as_dict(chunk.get(kind))
    url = as_text(told.get("uri"))
    return Citation(url, as_text(told.get("title")), as_text(told.get("text"))) if url else None


def _offsets(words: str) -> range | list[int]:
    """How many bytes stand before each character, and before the end."""
    if words.isascii():
        return range(len(words) + 1)
    return list(accumulate((len(letter.encode("utf-8", "replace")) for letter in words), initial=0))


def _place(segment: dict[str, Any], offsets: range | list[int], begins: Mapping[int, int]) -> tuple[int, int]:
    begin = offsets[begins.get(count(segment.get("partIndex")) or 0, 0)]
    start, end = (bisect_left(offsets, begin + (count(segment.get(name)) or 0)) for name in ("startIndex", "endIndex"))
    return min(start, len(offsets) - 1), min(end, len(offsets) - 1)
