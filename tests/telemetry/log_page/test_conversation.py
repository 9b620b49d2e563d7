"""Logged requests of every format as turns; hostile ones are text, and never more."""

import json

import pytest
from django.template.loader import render_to_string
from hypothesis import given
from hypothesis import strategies as st

from telemetry.log_page.conversation import Part, conversation
from tests.support.promises import parses

PIXEL = "data:image/png;base64,iVBORw0KGgo="
SEE = {"type": "text", "text": "See"}
CALL = {"id": "c", "type": "function", "function": {"name": "find", "arguments": '{"q": 1}'}}
CHAT = {
    "messages": [
        {"role": "system", "content": "Be terse."},
        {"role": "user", "content": [SEE, {"type": "image_url", "image_url": {"url": PIXEL}}]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c", "content": "a square"},
    ]
}  # fmt: skip
ANTHROPIC = {
    "system": "Be terse.",
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "See"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
            ],
        },
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "find", "input": {"q": 1}}]},
        {"role": "tool", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "a square"}]},
    ],
}
GEMINI = {
    "systemInstruction": {"parts": [{"text": "Be terse."}]},
    "contents": [
        {"role": "user", "parts": [{"text": "See"}, {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}]},
        {"role": "model", "parts": [{"functionCall": {"name": "find", "args": {"q": 1}}}]},
        {"role": "function", "parts": [{"functionResponse": {"name": "c", "response": "a square"}}]},
    ],
}
RESPONSES = {
    "instructions": "Be terse.",
    "input": [
        {"role": "user", "content": [SEE | {"type": "input_text"}, {"type": "input_image", "image_url": PIXEL}]},
        {"type": "function_call", "name": "find", "arguments": '{"q": 1}'},
        {"type": "function_call_output", "call_id": "c", "output": "a square"},
    ],
}  # fmt: skip
HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)>"


@pytest.mark.parametrize("request_", [CHAT, ANTHROPIC, GEMINI, RESPONSES])
def test_each_format_has_the_same_turns(request_):
    turns = conversation(request_, {"choices": [{"message": {"role": "assistant", "content": "Red."}}]})
    assert [turn.role for turn in turns] == ["system", "user", "assistant", "tool", "assistant"]
    assert turns[0].parts == [Part("text", "Be terse.")]
    assert turns[1].parts == [Part("text", "See"), Part("image", PIXEL)]
    assert turns[2].parts == [Part("call", '{\n  "q": 1\n}', "find")]
    assert turns[3].parts == [Part("result", "a square", "c")]
    assert turns[4].parts == [Part("text", "Red.")]


@pytest.mark.parametrize("end", [None, -40])
def test_a_body_that_was_logged_as_a_text_has_turns(end):
    """As bodies are that are not ASCII, or too long."""
    body = {"messages": [{"role": "user", "content": "São?"}, {"role": "user", "content": "And " + "x" * 30}]}
    turns = conversation(json.dumps(body, ensure_ascii=False)[:end], json.dumps({"output_text": "", "content": "Sé."}))
    assert [part.text for turn in turns for part in turn.parts if len(part.text) < 30] == ["São?", "Sé."]


@pytest.mark.parametrize(
    "response",
    [
        "Red.",
        {"choices": [{"text": "Red."}]},
        {"content": [{"type": "text", "text": "Red."}]},
        {"candidates": [{"content": {"parts": [{"text": "Red."}]}}]},
        {"output": [{"type": "message", "content": [{"type": "output_text", "text": "Red."}]}]},
        {"message": {"role": "assistant", "content": "Red."}},
    ],
)
def test_each_answer_is_a_turn(response):
    assert conversation(None, response) == [("assistant", [Part("text", "Red.")])]


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/x.png",
        "javascript:alert(1)",
        "data:text/html;base64,PHNjcmlwdD4=",
        "data:image/svg+xml;base64,PHN2Zz4=",
        'data:image/png;base64,AA" onerror="alert(1)',
    ],
)
def test_only_an_image_with_its_own_data_is_shown(url):
    body = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]}
    (turn,) = conversation(body, None)
    assert turn.parts == [Part("text", f"Image: {url}")]
    assert "<img" not in render_to_string("console/conversation.html", {"turns": [turn]})


def test_hostile_text_is_escaped_wherever_it_stands():
    call = {"function": {"name": HOSTILE, "arguments": HOSTILE}}
    messages = [
        {"role": HOSTILE, "content": HOSTILE, "tool_calls": [call]},
        {"role": "tool", "name": HOSTILE, "content": HOSTILE},
    ]
    page = render_to_string("console/conversation.html", {"turns": conversation({"messages": messages}, HOSTILE)})
    assert "<script" not in page
    assert "<img" not in page


NAMES = [
    "role",
    "content",
    "parts",
    "messages",
    "contents",
    "input",
    "type",
    "tool_calls",
    "function",
    "choices",
    "message",
    "candidates",
    "image_url",
    "source",
    "data",
    "functionCall",
    "functionResponse",
    "text",
    "output",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
)


@parses
@given(JSON, JSON)
def test_nothing_that_was_logged_breaks_the_page(request_, response):
    render_to_string("console/conversation.html", {"turns": conversation(request_, response)})


HOSTILE = [
    {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "[" * 5000}}]}]},
    {"contents": [{"parts": [{"functionCall": "x"}, {"functionCall": None}, {"functionResponse": []}]}]},
]


@pytest.mark.parametrize("request_body", HOSTILE)
def test_what_no_client_would_send_is_shown_all_the_same(request_body):
    assert len(list(conversation(request_body, ""))) == 1


def test_an_answer_that_is_nested_too_deep_is_no_conversation():
    depth = 700
    request, answer = {"messages": [{"role": "user", "content": "Lisbon?"}]}, '{"content":' * depth + "1" + "}" * depth
    assert conversation(request, json.loads(answer)) == []


MEMBERS = ["messages", "contents", "content", "parts", "role", "type", "text", "tool_calls", "function", "arguments",
           "functionCall", "functionResponse", "image_url", "source", "inlineData", "choices", "message"]  # fmt: skip
KINDS = ["user", "assistant", "tool_use", "tool_result", "image", "function_call", "", "[[", None, 1]
BODIES = st.recursive(
    st.sampled_from(KINDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=4),
    max_leaves=15,
)


@parses
@given(BODIES, BODIES)
def test_members_of_the_wrong_kind_are_passed_over(request_body, response_body):
    for turn in conversation(request_body, response_body):
        assert all(isinstance(part.text, str) for part in turn.parts)
