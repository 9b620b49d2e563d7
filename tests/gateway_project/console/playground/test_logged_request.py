"""The request of a log entry in the playground: of each dialect, whole, cut, masked or not kept."""

import json

import pytest

from gateway_project.console.playground.form_values import form_values
from gateway_project.console.playground.logged_request import CUT, MASKED, NO_CONTENT, TEXT_ALONE, logged_request
from telemetry.models import LogEntry

pytestmark = pytest.mark.either_store

IMAGE = "data:image/png;base64,iVBORw0KGgo="
SEE = {"type": "image_url", "image_url": {"url": IMAGE}}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
FUNCTION = {"name": "weather", "description": "Of a city", "parameters": SCHEMA}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Faro"}'}}
MESSAGES = [
    {"role": "system", "content": "Be brief.\nBe kind."},
    {"role": "user", "content": "Weather?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    {"role": "assistant", "content": "Sunny."},
    {"role": "user", "content": [{"type": "text", "text": "And here?"}, SEE]},
]  # fmt: skip
CHAT = {"model": "m", "messages": MESSAGES, "temperature": 0.5, "max_tokens": 64, "top_p": 0.9,
        "tools": [{"type": "function", "function": FUNCTION}], "stream": True}  # fmt: skip
ANTHROPIC = {
    "model": "m",
    "system": "Be brief.\nBe kind.",
    "messages": [
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Faro"}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "sunny"}]},
        {"role": "assistant", "content": "Sunny."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "And here?"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
            ],
        },
    ],
    "tools": [{"name": "weather", "description": "Of a city", "input_schema": SCHEMA}],
    "temperature": 0.5,
    "max_tokens": 64,
    "top_p": 0.9,
}
RESPONSES = {
    "model": "m",
    "instructions": "Be brief.\nBe kind.",
    "input": [
        {"role": "user", "content": "Weather?"},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city":"Faro"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
        {"role": "assistant", "content": "Sunny."},
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "And here?"}, {"type": "input_image", "image_url": IMAGE}],
        },
    ],
    "tools": [{"type": "function", **FUNCTION}],
    "temperature": 0.5,
    "max_output_tokens": 64,
    "top_p": 0.9,
}


def entry_of(request: object) -> LogEntry:
    return LogEntry(model="m", payload=json.dumps({"request": request, "response": "x"}))


def values_of(request: object) -> dict:
    return form_values(logged_request(entry_of(request)))


@pytest.mark.parametrize("body", [CHAT, json.dumps(CHAT), ANTHROPIC, RESPONSES])
def test_the_whole_conversation_is_there_in_each_dialect(body):
    assert logged_request(entry_of(body)).omissions == []
    values = values_of(body)
    assert (values["system"], values["prompt"]) == ("Be brief.\nBe kind.", "And here?")
    assert (values["temperature"], values["max_tokens"]) == (0.5, 64)
    assert json.loads(values["tools"]) == CHAT["tools"]
    assert json.loads(values["more"]) == {"top_p": 0.9}
    conversation = values["conversation"]
    assert conversation["messages"] == MESSAGES[1:5]
    assert conversation["attachments"] == [{"type": "image_url", "image_url": {"url": IMAGE}}]
    assert conversation["results"] == {}


def test_results_at_the_end_are_in_their_fields():
    conversation = values_of(CHAT | {"messages": MESSAGES[:4]})["conversation"]
    assert conversation["messages"] == MESSAGES[1:3]
    assert conversation["results"] == {"c1": "sunny"}


def test_results_of_unknown_calls_stay_in_the_conversation():
    messages = [*MESSAGES[:3], {"role": "tool", "tool_call_id": "other", "content": "sunny"}]
    conversation = values_of(CHAT | {"messages": messages})["conversation"]
    assert conversation["messages"] == messages[1:]
    assert conversation["results"] == {}


def test_a_schema_keeps_its_name():
    described = {"name": "place", "strict": True, "schema": SCHEMA}
    values = values_of(CHAT | {"response_format": {"type": "json_schema", "json_schema": described}})
    assert json.loads(values["schema"]) == SCHEMA
    assert values["conversation"]["output"] == {"name": "place", "strict": True}
    assert "response_format" not in values["more"]


def test_another_form_of_the_answer_is_among_the_other_parameters():
    values = values_of(CHAT | {"response_format": {"type": "json_object"}})
    assert values["schema"] == ""
    assert json.loads(values["more"])["response_format"] == {"type": "json_object"}


@pytest.mark.parametrize(
    ("payload", "omissions"),
    [
        ("", [NO_CONTENT]),
        ({"request": {"bytes": 3, "sha256": "00"}, "response": {"bytes": 3, "sha256": "00"}}, [NO_CONTENT]),
        ({"request": json.dumps(CHAT)[:200] + "… (900 bytes)", "response": ""}, [CUT]),
        ({"request": '{"mess… (900 bytes)', "response": ""}, [CUT]),
        ({"request": {"messages": [{"role": "user", "content": "sk-***"}]}, "response": ""}, [MASKED]),
        ({"request": {"contents": [{"parts": [{"text": "Hello"}]}]}, "response": ""}, [TEXT_ALONE]),
    ],
)
def test_what_is_missing_is_said(payload, omissions):
    entry = LogEntry(model="m", payload=payload and json.dumps(payload))
    assert logged_request(entry).omissions == omissions


def test_a_cut_request_has_the_messages_before_the_cut():
    text = json.dumps(CHAT)
    request = logged_request(entry_of(text[: text.index("Sunny.")] + "… (900 bytes)"))
    assert request.messages == MESSAGES[:4]


def test_the_text_of_an_unknown_shape_is_there():
    values = values_of({"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]})
    assert values["prompt"] == "Hello"


def test_what_chat_completions_do_not_have_is_named():
    part = {"type": "document", "source": {"type": "url", "url": "https://example.org/a.pdf"}}
    message = {"role": "user", "content": [{"type": "text", "text": "Read"}, part]}
    request = logged_request(entry_of({"system": "s", "messages": [message], "max_tokens": 9, "mcp_servers": []}))
    assert request.messages[-1] == {"role": "user", "content": "Read"}
    assert request.omissions == ["Left out, because OpenAI's API does not have them: mcp_servers, file."]
