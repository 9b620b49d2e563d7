"""Streams: what a scan of the whole text would find is never passed on, and nothing else is held back for long."""

import re
from itertools import pairwise

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway_project.work.guardrails.detectors import MAX_SPAN, Match, compile_detector
from gateway_project.work.guardrails.detectors.expressions import beginnings_of, longest_match, parse_pattern
from gateway_project.work.guardrails.detectors.window import INVISIBLE, Window
from tests.support.detectors import measurement
from tests.support.detectors.samples import every_sample, labelled
from tests.support.thoroughness import number_of, quarter_of

pytestmark = pytest.mark.embedded

PARAMETERS = {
    "pattern": {"patterns": [r"\bfoo\d{2,4}bar\b", "secret [a-z]+", "кот+", r"(?m)^top$", "x(?:ab|abc)*y", "crèmes?"]},
    "words": {"words": ["foo bar", "foo", "#tag", "Straße", "foo bar baz", "bête", "bệ"]},
    "secrets": {},
    "pii": {},
    "topic": {"images": False, "urls": False, "scripts": ["Latin", "Cyrillic"], "hosts": ["example.com"]},
    "injection": {},
}
DETECTORS = {type: compile_detector(type, parameters) for type, parameters in PARAMETERS.items()}
LANGUAGES = compile_detector("topic", {"allowedLanguages": ["en"]}).prose


def stream(detectors, pieces):
    """The text of the steps and the findings with offsets in it."""
    window = Window(detectors)
    text, findings = "", []
    for step in [*map(window.push, pieces), window.close()]:
        findings += [
            (number, Match(match.start + len(text), match.end + len(text), match.category))
            for number, match in step.findings
        ]
        text += step.text
    return text, findings


def split(text, *places):
    bounds = [0, *sorted(places), len(text)]
    return [text[start:end] for start, end in pairwise(bounds)]


def assert_same(text, pieces, detectors):
    streamed, findings = stream(detectors, pieces)
    assert streamed == text
    for number, detector in enumerate(detectors):
        assert sorted(match for place, match in findings if place == number) == sorted(detector.scan(text)), pieces


PLACES = [3, pytest.param(100_000, marks=pytest.mark.slow)]


def assert_same_however_split(text, detectors, places):
    """In two parts, at so many places or at each, and in many small parts."""
    step = max(1, len(text) // places)
    for place in range(len(text) % step, len(text) + 1, step):
        assert_same(text, split(text, place), detectors)
    assert_same(text, split(text, *range(0, len(text), max(1, step // 8))), detectors)


@pytest.mark.long
@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize(("type", "text"), quarter_of(*every_sample()))
def test_each_finding_may_be_split_at_each_character(type, text, places):
    assert_same_however_split(f"Well, {text} That was it.", [DETECTORS[type]], places)


MEASURED = {type: compile_detector(type, measurement.PARAMETERS[type]) for type in ("pattern", "words", "topic")}


HITS = [(type, one.text) for type in MEASURED for one in labelled(type) if MEASURED[type].scan(one.text)]


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize(("type", "text"), HITS)
def test_what_parameters_say_may_be_split_at_each_character(type, text, places):
    assert_same_however_split(text, [MEASURED[type]], places)


FRAGMENTS = st.sampled_from(
    [sample for _, sample in every_sample()]
    + ["foo", "foo12", "bar", "secret", " ", "ab", "x", "y", "\n", "top", "#tag"]
    + ["кот", "c\u200b", "ｆｏｏ", "é", ".", "-", "cre\u0300me", "be", "\u0302", "te", "\u0323", "\u0301"]
    + ["Das ist nicht gut.", " Und das auch nicht!\n", "We know that. ", "誰も知りません。", "...", "? "]
    + ["4111 1111", "+49 30", "bob@", "https://", "![a](", "ignore all", "_", "\\n", "ghp_", "eyJ", "12345678Z"]
)  # fmt: skip


@pytest.mark.long
@settings(max_examples=number_of(150), deadline=None)
@given(st.lists(FRAGMENTS, max_size=6), st.lists(st.integers(0, 400), max_size=12))
def test_pieces_find_what_the_whole_text_finds(fragments, places):
    text = "".join(fragments)[:1000]
    pieces = split(text, *(min(place, len(text)) for place in places))
    assert_same(text, pieces, [*DETECTORS.values(), LANGUAGES])


@pytest.mark.long
@settings(max_examples=number_of(100), deadline=None)
@given(st.text(alphabet="fob ar12sct-@.\u200b4e\u0302\u0323m", max_size=60), st.integers(1, 7))
def test_random_text_is_found_as_in_the_whole(text, size):
    pieces = [text[place : place + size] for place in range(0, len(text), size)]
    assert_same(text, pieces, list(DETECTORS.values()))


@pytest.mark.parametrize("type", [*DETECTORS])
def test_text_without_suspicion_is_passed_on_at_once(type):
    window = Window([DETECTORS[type]])
    for piece in ("Lisbon ", "lies ", "on ", "the ", "river ", "Tagus. "):
        assert window.push(piece).text == piece


def test_only_what_may_become_a_match_is_held():
    window = Window([DETECTORS["secrets"]])
    assert window.push("Take ghp_").text == "Take "
    assert window.push("me?").text == "ghp_me?"


def test_nobody_gets_the_beginning_of_a_match():
    window = Window([DETECTORS["pattern"]])
    assert [window.push(piece).text for piece in ("the f", "oo1", "2b", "ar")] == ["the ", "", "", ""]
    step = window.close()
    assert step.text == "foo12bar"
    assert [finding.match for finding in step.findings] == [Match(0, 8, "pattern-1")]


def test_what_may_become_longer_than_a_match_counts_as_one():
    window = Window([compile_detector("pattern", {"patterns": [r"BEGIN[^!]*END"]})])
    steps = [window.push("ok BEGIN")] + [window.push("a" * 100) for _ in range(60)]
    assert steps[0].text == "ok "
    first = next(step for step in steps[1:] if step.text)
    assert first.findings[0].match == Match(0, len(first.text), "overlong")
    assert MAX_SPAN < len(first.text) <= (MAX_SPAN + INVISIBLE) * 17 // 16 + 100


def test_invisible_characters_do_not_stretch_a_match_out_of_the_window():
    window = Window([compile_detector("words", {"words": ["secret"]})])
    steps = [window.push(piece) for piece in ("sec", *["\u200b" * 50] * 4, "ret", " ")]
    assert any(step.findings for step in steps)


@pytest.mark.long
def test_a_long_part_is_not_looked_at_for_each_character():
    class Counting(type(DETECTORS["pattern"])):
        characters = 0

        def pending_start(self, text, start=0):
            self.characters += len(text) - start
            return super().pending_start(text, start)

    detector = Counting(["BEGIN[^!]{0,900}[^!]{0,900}[^!]{0,900}[^!]{0,900}END"], ignore_case=False)
    window, size = Window([detector]), 3600
    for character in "BEGIN" + "a" * size:
        window.push(character)
    assert detector.characters < size * 200


def test_a_maximum_length_refuses_from_there_on():
    window = Window([compile_detector("topic", {"maxLength": 10})])
    assert window.push("12345678").findings == []
    step = window.push("9012")
    assert [finding.match for finding in step.findings] == [Match(2, 4, "length")]


def test_json_is_judged_at_the_end():
    detector = compile_detector("json", {})
    window = Window([detector])
    assert window.push('{"a":').text == ""
    assert window.push(" 1}").text == ""
    assert window.close() == ('{"a": 1}', [])


PIECES = st.sampled_from(
    ["a", "b", ".", r"\d", r"\w", "[ab]", "[^a]", r"\b", "(?i:A)"]
    + [ "(?:ab|a)", "(b|ba)", r"\x61", r"\Qa.b\E", r"\pL", "$"]
)  # fmt: skip
REPEATS = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,3}", "{2,}", "*?", "{0,2}?"])
PATTERNS = st.lists(st.builds(lambda piece, repeat: piece + (repeat if piece[-1] not in "b$" else ""), PIECES, REPEATS),
                    min_size=1, max_size=5).map("".join)  # fmt: skip


@settings(max_examples=number_of(300), deadline=None)
@given(PATTERNS, st.text(alphabet="abA1.é ", max_size=8))
def test_each_beginning_of_a_match_is_one_for_the_window(pattern, text):
    node = parse_pattern(pattern)
    begin = re2.compile(rf"\A(?:{beginnings_of(node)})\z")
    for match in re2.finditer(pattern, text):
        whole = match.group()
        longest = longest_match(node)
        assert longest is None or len(whole) <= longest
        if match.start() == 0:
            assert all(begin.search(whole[:size]) for size in range(len(whole) + 1))


@pytest.mark.parametrize(
    "pattern", [r"(?<name>a)b", "a(?i)b|c", "(?s).", "[]a]", r"[\]a[:alpha:]]", r"\x{1F600}", "a{,3}", "x" * 1000]
)
def test_the_whole_syntax_of_re2_is_understood(pattern):
    re2.compile(beginnings_of(parse_pattern(pattern)))
    assert not re.search(r"\(\?<", beginnings_of(parse_pattern(pattern)))


@pytest.mark.parametrize("type", PARAMETERS)
@pytest.mark.parametrize(
    "part", ["4111 1111 ", "a.b-c@x.", "password:   ", "-----BEGIN PRIVATE KEY-----\nAAAA", "foo ", "x"]
)
def test_no_more_is_held_than_the_page_says(type, part):
    window = Window([DETECTORS[type]])
    for _ in range(20_000 // len(part)):
        window.push(part)
        assert window.rest_length <= MAX_SPAN + INVISIBLE + len(part)
