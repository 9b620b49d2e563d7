"""The type `pattern`."""

import pytest

from gateway_project.errors import ValidationError
from gateway_project.work.guardrails.detectors import Match, compile_detector

pytestmark = pytest.mark.embedded


def detector(*patterns, **options):
    return compile_detector("pattern", {"patterns": list(patterns), **options})


def parts(detector, text):
    return [(text[start:end], category) for start, end, category in detector.scan(text)]


def test_each_pattern_has_its_number():
    assert parts(detector("tea", r"cups? of \w+"), "Two cups of tea") == [
        ("cups of tea", "pattern-2"),
        ("tea", "pattern-1"),
    ]


def test_case_does_not_count_unless_it_shall():
    assert parts(detector("Project X"), "PROJECT x") == [("PROJECT x", "pattern-1")]
    assert parts(detector("Project X", ignoreCase=False), "PROJECT x") == []


def test_offsets_are_those_of_the_original_text():
    assert detector("cat").scan("Ünïcödé 😀 c\u200bat") == [Match(10, 14, "pattern-1")]


@pytest.mark.parametrize("text", ["sесrеt", "ｓｅｃｒｅｔ", "s\u200be\u200bc\u200bret", "\u202esecret", "𝐬𝐞𝐜𝐫𝐞𝐭"])
def test_text_is_matched_as_a_reader_sees_it(text):
    assert detector("secret").scan(text)


def test_patterns_of_other_alphabets_match_the_original():
    assert parts(detector("тайна"), "Это тайна.") == [("тайна", "pattern-1")]


def test_a_pattern_finds_whole_words():
    assert detector(r"\bcat\b").scan("bobcat cats cat.") == [Match(12, 15, "pattern-1")]


def test_nothing_before_the_start_is_reported_but_it_decides_what_begins_a_word():
    assert detector(r"\bcat").scan("cat bobcat cat", 3) == [Match(11, 14, "pattern-1")]
    assert detector(r"\bcat").scan("bobcat", 3) == []


@pytest.mark.parametrize(
    ("parameters", "field", "reason"),
    [
        ({}, "parameters.patterns", "at least one"),
        ({"patterns": "a"}, "parameters.patterns", "must be an array"),
        ({"patterns": ["a", 3]}, "parameters.patterns.1", "must be a text"),
        ({"patterns": ["a", "(b"]}, "parameters.patterns.1", "missing"),
        ({"patterns": ["b*"]}, "parameters.patterns.0", "empty text"),
        ({"patterns": ["((a{100}){100}){100}"]}, "parameters.patterns.0", "not a valid RE2 pattern"),
        ({"patterns": ["a"], "ignoreCase": "no"}, "parameters.ignoreCase", "true or false"),
        ({"patterns": ["a"], "words": []}, "parameters.words", "known are patterns, ignoreCase, in"),
        ({"patterns": ["a"], "in": ["answers"]}, "parameters.in.0", "known are arguments, text"),
        ({"patterns": ["a"], "in": "text"}, "parameters.in", "array"),
    ],
)
def test_a_wrong_parameter_is_named(parameters, field, reason):
    with pytest.raises(ValidationError, match=reason) as error:
        compile_detector("pattern", parameters)
    assert error.value.field == field


def test_an_unknown_type_is_refused_with_the_known_ones():
    with pytest.raises(ValidationError, match="must be one of pattern, words"):
        compile_detector("magic", {})
