"""Where in an answer the words are that Gemini's segments are of."""

import json
import time

import pytest

from providers.formats import FORMATS
from providers.formats.gemini.grounding import citations_of
from providers.formats.neutral.deltas import AnswerEnd, TextDelta
from providers.formats.neutral.reply import Citation
from tests.support.formats.samples import request
from tests.support.pace import slowness

pytestmark = pytest.mark.embedded

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


class TestStreams:
    @staticmethod
    def read(*pieces, deltas=True):
        """What a stream says, each piece of which is a text and perhaps what it rests on; the last one ends it."""
        reader = FORMATS["gemini"].native_reader(request({"model": "m", "messages": [], "stream": True}))
        reader.deltas = [] if deltas else None
        for number, (text, *grounds) in enumerate(pieces, 1):
            candidate = {"content": {"parts": [{"text": text}]}, "index": 0}
            candidate |= {"groundingMetadata": grounds[0]} if grounds else {}
            candidate |= {"finishReason": "STOP"} if number == len(pieces) else {}
            reader.feed(b"data: " + json.dumps({"candidates": [candidate]}).encode() + b"\n\n")
        reader.end(True)
        assert (reader.done, reader.error) == (True, None)
        return reader

    def cited(self, *pieces):
        told = self.read(*pieces).take_deltas()
        text = "".join(delta.text for delta in told if isinstance(delta, TextDelta))
        assert isinstance(told[-1], AnswerEnd)
        return [text[delta.start : delta.end] for delta in told if isinstance(delta, Citation)]

    def test_what_is_told_before_its_words_waits_for_them(self):
        early = grounding(({"endIndex": 21}, [0]))
        assert self.cited(("Ten wörds.", early), (" Ten more.",), (" The end.",)) == ["Ten wörds. Ten more."]
        again = ("Ten wörds.", early), (" Ten more.", early), (" The end.", early)
        assert self.cited(*again) == ["Ten wörds. Ten more."]
        assert self.cited(("Ten words.", early), ("",)) == ["Ten words."]

    def test_what_is_told_again_is_one_citation_and_what_is_new_another(self):
        first, second = ({"endIndex": 10}, [0]), ({"startIndex": 11, "endIndex": 20}, [0])
        told = grounding(first), grounding(first, second), grounding(second, first)
        pieces = zip(("Ten words.", " Ten more.", " The end."), told, strict=True)
        assert self.cited(*pieces) == ["Ten words.", "Ten more."]

    def test_a_stream_that_tells_something_with_every_piece_takes_no_more_time_for_each(self):
        pieces = [("Zehn Wörter und noch mehr. " * 20, grounding(({"endIndex": end}, [0]))) for end in range(2000)]
        begun = time.process_time()
        assert len(self.cited(*pieces)) == 2000
        assert time.process_time() - begun < 3 * slowness()  # a second, where it was a minute

    def test_what_passes_as_it_came_is_not_kept(self):
        reader = self.read(("Ten words.", grounding(({"endIndex": 10}, [0]))), (" Ten more.",), deltas=False)
        assert not vars(reader._grounding)["_words"]
