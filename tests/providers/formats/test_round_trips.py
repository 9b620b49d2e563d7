"""Random conversations through every format and back: what was said arrives, and what the model said returns as it was.

A turn of a model's has nearly the same shape in a provider's answers and in the history that it is sent, so that one
can be made of the other: `ANSWERS` says how.
"""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway_project.work.doors import DIALECTS
from providers.formats import FORMATS, Options
from providers.formats.mistral.request import RECEIPT
from providers.formats.neutral.chat import Chat, Tool
from providers.formats.neutral.messages import Message, Reasoning, Text, ToolCall, ToolResult
from providers.formats.translated import TranslatedFormat
from tests.support.formats.samples import FOREIGN, request
from tests.support.thoroughness import number_of

pytestmark = pytest.mark.embedded

MODEL = "some-model"
OPTIONS = Options(max_output_tokens=4096)
# Whose thoughts carry a signature.
SIGNING = {"anthropic", "bedrock", "gemini", "mistral", "openai", "openai-responses", "azure-openai"}
# As which thoughts name their maker.
SOURCES = {"azure-openai": "openai", "openai-responses": "openai"}


def turn_of_model(body):
    """The last turn of the model's in a request."""
    messages = body.get("contents") or body["messages"]
    spoken = [message for message in messages if message["role"] in ("assistant", "model")]
    return [message for message in spoken if message.get("content") != RECEIPT][-1]


def as_choice(turn):
    return {"choices": [{"index": 0, "message": turn, "finish_reason": "stop"}]}


def as_cohere(turn):
    content = turn.get("content", [])
    dropped_header = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {"message": turn | {"content": dropped_header}, "finish_reason": "COMPLETE"}


ANSWERS = {
    "openai": as_choice,
    "openai-responses": as_choice,
    "azure-openai": as_choice,
    "mistral": as_choice,
    "cohere": as_cohere,
    "ollama": lambda turn: {"message": turn, "done": True, "done_reason": "stop"},
    "gemini": lambda turn: {"candidates": [{"content": turn, "finishReason": "STOP"}]},
    "bedrock": lambda turn: {"output": {"message": turn}, "stopReason": "end_turn"},
    "anthropic": lambda turn: {"type": "message", **turn, "stop_reason": "end_turn", "usage": {}},
}


def results_of(value):
    """The ids that calls and results have in a request, in their order."""
    if isinstance(value, list):
        return [found for item in value for found in results_of(item)]
    if not isinstance(value, dict):
        return []
    own = [("result", value[name]) for name in ("tool_call_id", "tool_use_id") if name in value]
    for name, kind in [("toolUse", "call"), ("toolResult", "result")]:
        own += [(kind, value[name]["toolUseId"])] if isinstance(value.get(name), dict) else []
    if isinstance(value.get("functionResponse"), dict):
        own.append(("result", value["functionResponse"]["id"]))
    elif isinstance(value.get("functionCall"), dict):
        own.append(("call", value["functionCall"]["id"]))
    elif "id" in value and ("function" in value or value.get("type") == "tool_use"):
        own.append(("call", value["id"]))
    # Arguments are the model's: they may hold the same names.
    inner = [item for name, item in value.items() if name not in ("input", "args", "arguments")]
    return own + [found for item in inner for found in results_of(item)]


def strings_of(value):
    """Every string in a JSON value, in order."""
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [found for item in items for found in strings_of(item)]


# --- Conversations ---

words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).filter(str.strip)
names = st.from_regex(r"[a-z][a-z_]{0,10}", fullmatch=True)
numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | words, lambda inner: st.lists(inner, max_size=2), max_leaves=4
)
arguments = st.dictionaries(words, values, max_size=3)


@st.composite
def turns(draw, format_name):
    """What a model said: a thought, words and calls, or some of them; whoever uses it gives the calls their ids."""
    parts = []
    if draw(st.booleans()):
        signature = draw(st.from_regex(r"[A-Za-z0-9+/]{8}", fullmatch=True)) if format_name in SIGNING else ""
        parts.append(Reasoning(draw(words), signature, source=SOURCES.get(format_name, format_name)))
    said = [Text(draw(words))] if draw(st.booleans()) else []
    made = draw(st.lists(st.tuples(names, arguments), min_size=0 if said else 1, max_size=3))
    return parts + said + [ToolCall("", name, json.dumps(given, ensure_ascii=False)) for name, given in made]


@st.composite
def conversations(draw, format_name):
    """System prompt, and some rounds of question, answer and the results of its calls, with a question at the end."""
    messages, number = [Message("system", [Text(draw(words))])], 0
    for parts in draw(st.lists(turns(format_name), min_size=1, max_size=3)):
        messages.append(Message("user", [Text(draw(words))]))
        calls = [part for part in parts if isinstance(part, ToolCall)]
        for call in calls:
            call.id, number = f"call_{number}", number + 1
        messages.append(Message("assistant", parts))
        messages += [Message("tool", [ToolResult(call.id, [Text(draw(words))], call.name)]) for call in calls]
    messages.append(Message("user", [Text(draw(words))]))
    tools = {part.name for message in messages for part in message.parts if isinstance(part, ToolCall)}
    return Chat(messages, tools=[Tool(name, schema={"type": "object"}) for name in sorted(tools)])


def sent(format_name, chat):
    """The request's body for a conversation."""
    work = request({"model": MODEL, "messages": []}, door=True)
    work.chat = chat
    body = FORMATS[format_name].chat_body(work, chat, MODEL, OPTIONS)
    return json.loads(json.dumps(body))


def comparable(parts):
    """Parts without their calls' ids and signatures, which some providers want in a form of their own."""
    return [(part.name, json.loads(part.arguments)) if isinstance(part, ToolCall) else part for part in parts]


TRANSLATED = [name for name, one in FORMATS.items() if isinstance(one, TranslatedFormat)]
each_format = pytest.mark.parametrize("format_name", TRANSLATED)


@each_format
@given(data=st.data())
@settings(max_examples=number_of(60), deadline=None)
def test_what_a_model_said_is_read_as_it_was_written(format_name, data):
    chat = data.draw(conversations(format_name))
    spoken = [message for message in chat.messages if message.role == "assistant"][-1]
    reply = FORMATS[format_name].read_reply(ANSWERS[format_name](turn_of_model(sent(format_name, chat))))
    assert [part for part in comparable(reply.parts) if part != Text("")] == comparable(spoken.parts)


@each_format
@given(data=st.data())
@settings(max_examples=number_of(40), deadline=None)
def test_everything_that_was_said_arrives_in_its_order(format_name, data):
    chat = data.draw(conversations(format_name))
    body = sent(format_name, chat)
    turns = body.get("contents") or body["messages"]
    heard = iter(strings_of(turns))
    for message in chat.messages:
        for part in message.parts:
            told = part.parts[0] if isinstance(part, ToolResult) else part
            if isinstance(told, Text) and message.role in ("user", "tool"):
                assert any(told.text in text for text in heard)


@each_format
@given(data=st.data())
@settings(max_examples=number_of(40), deadline=None)
def test_each_result_has_the_id_of_its_call(format_name, data):
    chat = data.draw(conversations(format_name))
    waiting, numbers = [], 0
    for kind, call_id in results_of(sent(format_name, chat)):
        if kind == "call":
            waiting.append(call_id)
            numbers += 1
        else:
            assert call_id == waiting.pop(0)
    assert not waiting
    assert numbers == sum(isinstance(part, ToolCall) for message in chat.messages for part in message.parts)


@each_format
@given(data=st.data())
@settings(max_examples=number_of(60), deadline=None)
def test_a_client_of_openais_door_brings_back_what_the_model_said(format_name, data):
    """Thoughts, signatures and calls go through a client that knows none of them, to the letter."""
    format = FORMATS[format_name]
    turn = turn_of_model(sent(format_name, data.draw(conversations(format_name))))
    work = request({"model": MODEL, "messages": [{"role": "user", "content": "x"}]}, door=True)
    reply = format.read_reply(ANSWERS[format_name](turn))
    message = json.loads(DIALECTS["chat"].write_reply(work, reply))["choices"][0]["message"]
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": "done"} for call in message.get("tool_calls") or ()
    ]
    again = work.body["messages"] + [message, *results, {"role": "user", "content": "Go on."}]
    work = request({"model": MODEL, "messages": again}, door=True)
    assert turn_of_model(sent(format_name, work.chat)) == turn


@pytest.mark.parametrize("format_name", ["openai", "anthropic", "gemini", "mistral", "cohere", "ollama"])
def test_the_blocks_of_a_system_prompt_are_paragraphs(format_name):
    blocks = [{"type": "text", "text": text} for text in ("You are brief.", "", "Answer in French.")]
    turns = [{"role": "system", "content": blocks}, {"role": "user", "content": "Hi"}]
    work = request({"model": MODEL, "messages": turns}, door=True, dialect=FOREIGN["chat"])
    body = FORMATS[format_name].request(work, MODEL, OPTIONS).body
    assert json.dumps("You are brief.\n\nAnswer in French.").encode() in body
