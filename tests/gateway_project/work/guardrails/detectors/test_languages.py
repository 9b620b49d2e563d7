"""Sentences in other languages than those allowed."""

import time
import tracemalloc

import pytest

from gateway_project.errors import ValidationError
from gateway_project.work.guardrails.detectors import Match, compile_detector
from gateway_project.work.guardrails.detectors.languages.detector import LANGUAGES, MAX_SENTENCE
from gateway_project.work.guardrails.detectors.window import Window
from tests.support.detectors.samples import sentences
from tests.support.running import ROOT

pytestmark = pytest.mark.embedded

GERMAN = "Das weiß ich leider auch nicht."


def languages(*allowed):
    return compile_detector("topic", {"allowedLanguages": list(allowed)}).prose


@pytest.mark.long
def test_sentences_of_allowed_languages_pass_and_those_of_others_do_not():
    """Each language alone, and with English and German; the exact figures are in docs/guardrails.md."""
    for allowed in LANGUAGES:
        alone, together = languages(allowed), languages(allowed, "en", "de")
        for language, sentence in sentences():
            if language in ("", allowed):
                assert alone.scan(sentence) == together.scan(sentence) == [], (allowed, sentence)
    others = [sentence for language, sentence in sentences() if language not in ("", "en")]
    assert sum(languages("en").scan(sentence) != [] for sentence in others) > 0.85 * len(others)


def test_there_are_sentences_of_every_language_and_the_page_names_each():
    assert {language for language, _ in sentences()} == {*LANGUAGES, ""}
    page = " ".join((ROOT / "docs/guardrails.md").read_text(encoding="utf-8").split())
    assert f"The languages are {', '.join(f'`{one}`' for one in LANGUAGES)}." in page


def test_a_match_is_the_sentence():
    text = f"I do not know. {GERMAN} Do you?\nWe do."
    start = text.index(GERMAN)
    assert languages("en").scan(text) == [Match(start, start + len(GERMAN), "language")]
    assert languages("en", "de").scan(text) == []


def test_what_is_too_short_or_no_sentence_passes():
    for text in ("Danke!", "Ja. Nein. Gut.", "https://example.org/der/die/das", "42", "", "\n\n", "こんにちは"):
        assert languages("en").scan(text) == []


def test_scripts_that_are_not_allowed_need_no_words():
    for text in ("ԱԲԳԴԵԶԷԸԹԺԻԼԽ", "абвгдежзийклмн", "我们明天再见面吧"):
        assert languages("en").scan(text) == [Match(0, len(text), "language")]
    assert languages("ru").scan("абвгдежзийклмн") == []


def test_han_without_kana_may_be_short_japanese_but_not_long():
    assert languages("ja").scan("東京大学医学部") == []
    assert languages("ja").scan("我们的服务器昨晚崩溃了没有人知道原因")
    assert languages("zh").scan("サーバーが落ちました。")


def test_of_a_sentence_without_an_end_the_beginning_decides():
    text = "und das ist nicht der die das " * 100
    assert languages("en").scan(text) == [Match(0, MAX_SENTENCE, "language")]
    window = Window([languages("en")])
    steps = [window.push(word) for word in text.split(" ")]
    assert max(len(step.text) for step in steps) < MAX_SENTENCE + 200


def test_a_stream_is_held_until_a_sentence_ends_and_no_longer():
    window = Window([languages("de")])
    assert [window.push(piece).text for piece in ("Das ", "geht. ", "Gut")] == ["", "Das geht. ", ""]
    assert window.close().text == "Gut"


MATCHED = f"One.\n\n \n{GERMAN}{' ' * 70}{GERMAN} \t ...! {GERMAN}\n{' ' * 1100}{GERMAN}। । ।{GERMAN}"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 63, 64, 65, 5000])
def test_a_stream_finds_the_sentences_of_a_text_wherever_it_is_cut(size):
    detector = languages("en")
    matches = [MATCHED[match.start : match.end] for match in detector.scan(MATCHED)]
    window = Window([detector])
    steps = [*(window.push(MATCHED[at : at + size]) for at in range(0, len(MATCHED), size)), window.close()]
    assert "".join(step.text for step in steps) == MATCHED
    assert [step.text[one.start : one.end] for step in steps for _, one in step.findings] == matches
    assert matches == [*[GERMAN] * 3, f"{GERMAN}।", GERMAN]


@pytest.mark.long
def test_stops_and_white_space_cost_no_more_than_prose():
    """In time, and in memory: nothing is kept of each."""
    detector, size = languages("de"), 300_000
    prose = cpu_seconds(detector, ("The quick brown fox jumps over the lazy dog, twice. " * size)[:size])
    for part in ("\n", "।", "! ", "\n \n", " ", ".", "。\n"):
        text = part * (size // len(part))
        assert cpu_seconds(detector, text) < 3 * prose + 0.002, repr(part)
        tracemalloc.start()
        detector.scan(text)
        assert tracemalloc.get_traced_memory()[1] < 100_000, repr(part)
        tracemalloc.stop()
    assert cpu_seconds(detector, "a\n" * (size // 2)) < 12 * prose


def cpu_seconds(detector, text):
    def once():
        start = time.process_time()
        detector.scan(text)
        detector.pending_start(text)
        return time.process_time() - start

    return min(once() for _ in range(3))


@pytest.mark.parametrize(("value", "field"), [
    (["en", "klingon"], "allowedLanguages.1"), (["EN"], "allowedLanguages.0"), ("en", "allowedLanguages"),
    ([1], "allowedLanguages.0"), (["en"] * 1000, "allowedLanguages"),
])  # fmt: skip
def test_an_unknown_language_is_refused_with_its_place(value, field):
    with pytest.raises(ValidationError) as error:
        compile_detector("topic", {"allowedLanguages": value})
    assert error.value.field == f"parameters.{field}"
