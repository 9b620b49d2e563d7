"""Many kinds in a text are looked for together, few one after the other: what is there is the same."""

import pytest

from gateway_project.work.guardrails.detectors import compile_detector
from tests.support.detectors.samples import every_sample

pytestmark = pytest.mark.embedded

SPACE = "\n" + "and so on " * 20 + "\n"


@pytest.mark.long
@pytest.mark.parametrize("type", ["secrets", "pii"])
def test_a_text_with_all_kinds_has_what_each_of_its_parts_has(type):
    detector = compile_detector(type, {})
    whole, expected = "", []
    for text in (text for other, text in every_sample() if other == type):
        expected += [(start + len(whole), end + len(whole), kind) for start, end, kind in detector.scan(text)]
        whole += text + SPACE
    assert len({kind for _, _, kind in expected}) > 20
    assert detector.scan(whole) == expected


@pytest.mark.parametrize(("type", "text"), [
    ("pii", "bob@example.com"), ("pii", "_bob@example.com"), ("pii", r"\nbob@example.com"), ("pii", "é.b@example.com"),
    ("pii", "4111 1111 1111 1112 4111 1111 1111 1111"), ("secrets", "password: Xk3!pq9Zr2"),
    ("pii", "4111111111111112, 4111-1111-1111-1111"),
])  # fmt: skip
def test_what_stands_before_a_match_or_is_none_hides_nothing(type, text):
    detector = compile_detector(type, {})
    alone, (*_, last) = detector.scan(text), detector.scan(f"{text}{SPACE}{text}")
    assert alone
    assert (last.end - last.start, last.category) == (alone[-1].end - alone[-1].start, alone[-1].category)


@pytest.mark.long
@pytest.mark.parametrize("type", ["secrets", "pii"])
def test_an_escaped_line_end_hides_nothing(type):
    """As it stands in JSON: the letter of the escape is no part of the word that follows."""
    detector, number = compile_detector(type, {}), 0
    for text in (text for other, text in every_sample() if other == type):
        for start, end, kind in detector.scan(text):
            word = text[start:end]
            if word[0].isalnum() and kind in {one.category for one in detector.scan(word)}:
                number += 1
                assert kind in {one.category for one in detector.scan(rf"a\n{word}")}, word
    assert number > 50
