"""Recorded streams of every format are shown as the answers that they carried."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.log_page.conversation import Part, conversation
from telemetry.log_page.streamed import streamed_answer
from tests.support.promises import parses

SAMPLES = Path("tests/providers/formats/samples")
LISBON, PORTO = (Part("call", json.dumps({"city": city}, indent=2), "weather") for city in ("Lisbon", "Porto"))
CASES = [
    ("plain", [Part("text", "The capital is Lisbon.")]),
    ("responses_plain", [Part("text", "Lisbon")]),
    ("cut_by_length", [Part("text", "The capital")]),
    ("tool_call", [LISBON]),
    ("responses_tool_call", [LISBON]),
    ("parallel_tool_calls", [LISBON, PORTO]),
    ("responses_parallel_tool_calls", [LISBON, PORTO]),
    ("calls_of_one_index", [LISBON, PORTO]),
    ("server_tools", [Part("call", '{\n  "query": "Lisbon"\n}', "web_search"), Part("text", "Lisbon")]),
]  # fmt: skip
INTRODUCTION = Part("text", "I look.")  # of some samples with calls; others end with a call of this tool
LAST_CALL = "now"


def parts(stream: str) -> list[Part]:
    return [part for turn in conversation(None, stream) for part in turn.parts]


@pytest.mark.parametrize(
    ("path", "expected"),
    [(path, expected) for name, expected in CASES for path in sorted(SAMPLES.glob(f"*/{name}.sse"))],
    ids=lambda value: "/".join(value.parts[-2:]) if isinstance(value, Path) else "",
)
def test_a_stream_is_shown_as_its_answer(path, expected):
    result = [part for part in parts(path.read_text()) if part != INTRODUCTION and part.title != LAST_CALL]
    if path.stem == "cut_by_length":
        assert result[0].text.startswith(expected[0].text)
    else:
        assert result == expected


def test_every_format_with_streams_was_tried():
    formats = {path.parent.name for name, _ in CASES for path in SAMPLES.glob(f"*/{name}.sse")}
    assert formats == {path.parent.name for path in SAMPLES.glob("*/*.sse")}


def test_what_the_log_has_cut_is_shown_as_far_as_it_goes():
    stream = (SAMPLES / "openai/plain.sse").read_text()
    for end in range(len(stream)):
        assert "The capital is Lisbon.".startswith("".join(part.text for part in parts(stream[:end])).split("data:")[0])


@pytest.mark.parametrize(
    "body", ["Red.", '{"choices": []}', '{\n "choices": []\n}', "", None, {"data": ":"}, "database"]
)
def test_an_answer_that_is_no_stream_is_left_alone(body):
    assert streamed_answer(body) is None


MEMBERS = [
    "choices", "delta", "message", "content", "text", "tool_calls", "function", "arguments", "candidates", "parts",
    "functionCall", "args", "name", "content_block", "item", "type", "index", "id", "response", "output",
]  # fmt: skip
VALUES = st.recursive(
    st.sampled_from(["a", "tool_use", "response.function_call_arguments.delta", "", None, 1, True]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=5),
    max_leaves=15,
)


@parses
@given(st.lists(st.dictionaries(st.sampled_from(MEMBERS), VALUES, max_size=5), min_size=1, max_size=4))
def test_events_of_the_wrong_shape_are_passed_over(events):
    stream = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    assert all(isinstance(text, str) for part in parts(stream) for text in part)
