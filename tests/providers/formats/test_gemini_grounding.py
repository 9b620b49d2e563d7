"""Where in an answer the words are that Gemini's segments are of."""

import pytest

from providers.formats.gemini_grounding import citations_of
from providers.formats.neutral import Citation

PAGE = {"web": {"uri": "https://a.example/", "title": "A"}}


def grounding(*supports, chunks=(PAGE,)):
    told = [{"segment": segment, "groundingChunkIndices": indices} for segment, indices in supports]
    return {"groundingChunks": list(chunks), "groundingSupports": told}


def cited(words, segment, begins=None):
    (found,), lost = citations_of(grounding((segment, [0])), words, begins or {})
    assert (found.url, lost) == ("https://a.example/", [])
    return words[found.start : found.end]


@pytest.mark.parametrize("words", ["Ten words. Ten more.", "Zehn Wörter. 十個。🐇 Noch mehr.", "🐇"])
def test_segments_are_counted_in_bytes(words):
    for start in range(len(words)):
        for end in range(start + 1, len(words) + 1):
            place = {"startIndex": len(words[:start].encode()), "endIndex": len(words[:end].encode())}
            assert cited(words, place) == words[start:end]


def test_a_segment_begins_where_its_part_does():
    assert cited("Für dich. Für mich.", {"partIndex": 2, "endIndex": 10}, {0: 0, 1: 10, 2: 10}) == "Für mich."
    assert cited("Für dich. Für mich.", {"partIndex": 9, "endIndex": 10}, {0: 0}) == "Für dich."


@pytest.mark.parametrize("place", [{"startIndex": 10**9, "endIndex": 10**10}, {"startIndex": -1}, {}])
def test_a_segment_that_is_none_is_inside_of_the_words_all_the_same(place):
    (found,), _ = citations_of(grounding((place, [0])), "words", {})
    assert 0 <= found.start <= 5
    assert 0 <= found.end <= 5


def test_sources_of_every_kind():
    place = {"maps": {"uri": "https://m.example/", "title": "M"}}
    kept = {"retrievedContext": {"uri": "gs://b/d.pdf", "title": "D", "text": "Words of the document."}}
    found, lost = citations_of(grounding(({"endIndex": 5}, [0, 1, 2]), chunks=(PAGE, place, kept)), "words", {})
    assert [citation.url for citation in found] == ["https://a.example/", "https://m.example/", "gs://b/d.pdf"]
    assert (found[2].quote, lost) == ("Words of the document.", [])


def test_what_has_no_address_or_no_words_is_told():
    known = grounding(({"endIndex": 5}, [0, 1, 7, True, -1, "0"]), chunks=(PAGE, {"web": {"title": "?"}}))
    found, lost = citations_of(known | {"searchEntryPoint": {"renderedContent": "<div>"}}, "words", {})
    assert found == [Citation("https://a.example/", "A", "", 0, 5)]
    assert set(lost) == {"groundingMetadata", "searchEntryPoint"}
