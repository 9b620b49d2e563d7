"""Letters whose accents are characters of their own: found as if each were one character, however many there are."""

from unicodedata import normalize

import pytest

from gateway_project.work.guardrails.detectors import compile_detector
from gateway_project.work.guardrails.detectors.composition import MAX_MARKS, compose_letters
from gateway_project.work.guardrails.detectors.normalisation import normalise_text
from gateway_project.work.guardrails.detectors.window import Window

pytestmark = pytest.mark.embedded

WORDS = ["café", "Việt", "がく", "각"]
DETECTORS = {
    "words": compile_detector("words", {"words": WORDS}),
    "pattern": compile_detector("pattern", {"patterns": WORDS}),
}


@pytest.mark.parametrize("detector", DETECTORS.values(), ids=DETECTORS)
@pytest.mark.parametrize("word", WORDS)
def test_accents_of_their_own_are_part_of_what_is_found(detector, word):
    decomposed = normalize("NFD", word)
    assert decomposed != word
    spans = [match[:2] for match in detector.scan(f"a\u0308 {decomposed} and {word}.")]
    assert spans == [(3, 3 + len(decomposed)), (8 + len(decomposed), 8 + len(decomposed) + len(word))]


@pytest.mark.parametrize("detector", DETECTORS.values(), ids=DETECTORS)
def test_a_stream_keeps_a_letter_that_an_accent_may_follow(detector):
    window = Window([detector])
    assert window.push("my cafe").text == "my "
    window.push("\u0301")
    assert [match[:2] for step in [window.close()] for _, match in step.findings] == [(0, 5)]


def test_another_letter_is_no_accent():
    assert DETECTORS["words"].scan("cafe, cafe\u0308, e\u0301caf") == []


@pytest.mark.parametrize(
    "text", ["\u0301e", "e" + "\u0301" * 9, "x\u0302y", "\u200be\u200b\u0301\u0323", "a\u0308" * 3]
)
def test_each_character_stands_for_a_part_of_the_text(text):
    normal = compose_letters(normalise_text(text))
    offsets, ends = normal.offsets or range(len(text)), normal.ends or normal.offsets or range(len(text))
    assert len(offsets) == len(ends) == len(normal.text)
    assert sorted(offsets) == list(offsets)
    assert all(first <= last for first, last in zip(offsets, ends, strict=True))
    assert normal.position(len(text)) == len(normal.text)


def test_what_has_no_accents_is_left_alone():
    for text in ("plain", "Grüße", "中文"):
        normal = normalise_text(text)
        assert compose_letters(normal) is normal


def test_a_letter_has_at_most_so_many_accents():
    assert (
        compose_letters(normalise_text("a" + "\u0323" * MAX_MARKS + "\u0302")).text
        == "ạ" + "\u0323" * (MAX_MARKS - 1) + "\u0302"
    )
