"""Escapes of JSON in the streamed arguments of tools: found as in whole answers, and passed on as they were written."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway_project.work.guardrails.escapes import Escapes
from tests.gateway_project.work.guardrails.test_streams import (
    SECRET,
    anthropic_calls,
    cuts,
    guarded,
    guardrail,
    openai_calls,
    texts,
)
from tests.support.thoroughness import number_of

pytestmark = pytest.mark.embedded
CALLS = [openai_calls, anthropic_calls]


def escaped(text, *places):
    return "".join(f"\\u{ord(one):04x}" if place in places else one for place, one in enumerate(text))


WRITTEN = [
    "".join(f"\\u{ord(one):04X}" for one in SECRET),
    escaped(SECRET, 0),
    escaped(SECRET, 3, len(SECRET) - 1),
]


@pytest.mark.long
@pytest.mark.parametrize("shape", CALLS)
@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize("joined", [False, True], ids=["events", "one chunk"])
def test_an_escaped_match_is_taken_out_wherever_it_is_cut(shape, written, joined):
    for pieces in cuts(f"Write to {written} \\u00e4 today."):
        shown, _, search = guarded(shape, pieces, guardrail(), joined=joined)
        arguments = texts(shown)["text"]
        assert SECRET not in json.loads(arguments)["to"], pieces
        assert json.loads(arguments)["to"] == "Write to [EMAIL] ä today."
        assert search.tallies[1].counts == {"email": 1}


@pytest.mark.parametrize("shape", CALLS)
def test_without_a_match_escapes_are_passed_on_as_they_were(shape):
    text = r"Caf\u00e9 \ud83d\ude00 \u0022x\u0022 C:\\u0041 \/ \ud83d \u001f \n"
    for pieces in cuts(text):
        shown, _, _ = guarded(shape, pieces, guardrail())
        assert texts(shown)["text"] == '{"to": "' + text + '"}', pieces


def test_an_escaped_backslash_begins_no_escape():
    written = "\\\\u0062ob@example.com"  # the characters of JSON: an escaped backslash, and a word
    shown, _, _ = guarded(openai_calls, list(written), guardrail())
    assert SECRET not in texts(shown)["text"]
    assert json.loads(texts(shown)["text"])["to"].startswith("\\")


ANYTHING = st.text(alphabet=st.sampled_from(list('\\u/"dD8cC0049aAeE\U0001f600é n')), max_size=60)


@settings(max_examples=number_of(300), deadline=None)
@given(ANYTHING, st.lists(st.integers(0, 60), max_size=8), st.integers(1, 9))
def test_what_was_read_is_given_back_as_it_was_written(text, places, size):
    places = sorted({min(place, len(text)) for place in places})
    escapes = Escapes()
    pieces = [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
    reading = "".join([*map(escapes.read, pieces), escapes.end()])
    parts = [reading[start : start + size] for start in range(0, len(reading), size)]
    assert "".join(map(escapes.take_written, parts)) == text


@settings(max_examples=number_of(300), deadline=None)
@given(st.text(max_size=20), st.integers(1, 13))
def test_json_is_read_as_whole_answers_are(text, size):
    written = json.dumps(text)
    escapes = Escapes()
    pieces = [written[start : start + size] for start in range(0, len(written), size)]
    reading = "".join([*map(escapes.read, pieces), escapes.end()])
    assert json.loads(reading) == text
    assert reading == json.dumps(json.loads(written), ensure_ascii=False)
