"""Random conversations through every door to every format, and the answers back: nobody changes what was said.

Clients' requests are written with the formats that write the same shape for a provider, which no door uses.
"""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway_project.work.doors import ENDPOINTS
from gateway_project.work.doors.openai.responses_items import items_of
from providers.formats import FORMATS, Options, Usage
from providers.formats.base import TranslatingReader
from providers.formats.dialect import WorkRequest
from providers.formats.json_stream import JsonStreamReader
from providers.formats.json_values import read_json
from providers.formats.neutral.chat import Chat, OutputFormat, Tool, ToolChoice
from providers.formats.neutral.deltas import (
    AnswerEnd,
    AnswerStart,
    CallDelta,
    CallStart,
    ImageDelta,
    ReasoningDelta,
    TextDelta,
)
from providers.formats.neutral.messages import Image, Message, Reasoning, Text, ToolCall, ToolResult
from providers.formats.neutral.reply import Reply
from providers.formats.sse import data_of, events_in
from tests.support.thoroughness import number_of

pytestmark = pytest.mark.embedded

MODEL, OPTIONS = "some-model", Options(max_output_tokens=4096)
CHATS = {endpoint.dialect.name: endpoint.dialect for endpoint in ENDPOINTS.values() if endpoint.operation == "chat"}
# Formats that take what can be said in every shape; the others only differ in which ids and signatures they take.
SPOKEN = [name for name in FORMATS if name != "passthrough"]

words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).filter(str.strip)
names = st.from_regex(r"[a-z][a-z_]{0,10}", fullmatch=True)
ids = st.from_regex(r"[A-Za-z0-9]{9}", fullmatch=True)
arguments = st.dictionaries(words, st.integers(-(2**53), 2**53) | words | st.booleans(), max_size=3)
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@st.composite
def rounds(draw, number):
    """A question, perhaps with a picture; what the model said and called; the results."""
    requests = [Text(draw(words))]
    if draw(st.booleans()):
        requests.append(Image(data="aGk=", media_type="image/png"))
    text = [Text(draw(words))] if draw(st.booleans()) else []
    row = draw(st.lists(st.tuples(names, arguments), min_size=0 if text else 1, max_size=3))
    calls = [ToolCall(f"call{number}x{at}", name, compact(values)) for at, (name, values) in enumerate(row)]
    results = [Message("tool", [ToolResult(call.id, [Text(draw(words))], call.name)]) for call in calls]
    return [Message("user", requests), Message("assistant", text + calls), *results]


@st.composite
def conversations(draw):
    """What every shape has a place for."""
    messages = [Message("system", [Text(draw(words))])] if draw(st.booleans()) else []
    for number in range(draw(st.integers(0, 3))):
        messages += draw(rounds(number))
    messages.append(Message("user", [Text(draw(words))]))
    chat = Chat(messages, max_tokens=draw(st.integers(1, 4096)), temperature=draw(st.sampled_from([None, 0, 0.5, 1])))
    called = {part.name for message in messages for part in message.parts if isinstance(part, ToolCall)}
    chat.tools = [Tool(name, draw(words), SCHEMA) for name in sorted(called | set(draw(st.lists(names, max_size=2))))]
    if chat.tools:
        chosen = ToolChoice("tool", chat.tools[0].name)
        chat.tool_choice = draw(st.sampled_from([None, ToolChoice("auto"), ToolChoice("required"), chosen]))
    chat.output = draw(st.sampled_from([None, OutputFormat("schema", SCHEMA, "answer")]))
    return chat


# --- What clients send ---


def as_responses(chat):
    """The items of a client of Responses."""
    items = []
    for message in chat.messages:
        if message.role == "assistant":
            items += items_of(WorkRequest("chat", MODEL, {}, b"", id="r"), Reply(message.parts))
        elif message.role == "tool":
            (result,) = message.parts
            items.append({"type": "function_call_output", "call_id": result.call_id, "output": result.parts[0].text})
        else:
            items.append({"role": message.role, "content": [as_input(part) for part in message.parts]})
    tools = [{"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.schema} for tool in chat.tools]  # fmt: skip  # noqa: E501
    choice = chat.tool_choice
    body = {
        "input": items,
        "max_output_tokens": chat.max_tokens,
        "temperature": chat.temperature,
        "tools": tools,
        "tool_choice": {"type": "function", "name": choice.name} if choice and choice.name else choice and choice.mode,
        "text": chat.output and {"format": {"type": "json_schema", "name": "answer", "schema": chat.output.schema}},
    }
    return {name: value for name, value in body.items() if value is not None}


def as_input(part):
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    return {"type": "input_image", "image_url": f"data:{part.media_type};base64,{part.data}"}


def body_of_client(dialect_name, chat):
    """The body that a client of this dialect sends for a conversation."""
    if dialect_name == "openai-responses":
        return {"model": MODEL, **as_responses(chat)}
    writer = {"openai-chat": "openai", "anthropic-messages": "anthropic"}[dialect_name]
    return json.loads(json.dumps(body_for(writer, chat)))


def body_for(format_name, chat):
    """What a provider of the format is sent for a conversation."""
    work = WorkRequest("chat", MODEL, {}, b"", dialect=CHATS["openai-chat"], via_door=True, id="r")
    work.chat = chat
    return FORMATS[format_name].chat_body(work, chat, MODEL, OPTIONS)


def plain(chat):
    """The conversation without what shapes add or leave to the reader: names of schemas, and texts one by one."""
    chat.source, chat.parallel_tools = "", None
    for message in chat.messages:
        for part in message.parts:
            if isinstance(part, ToolCall):
                part.arguments = compact(json.loads(part.arguments))
    merged = []
    for message in chat.messages:  # Anthropic's clients put the results and the next question into one turn
        if merged and message.role == merged[-1].role == "tool":
            merged[-1].parts += message.parts
        else:
            merged.append(Message(message.role, list(message.parts)))
    chat.messages = merged
    if chat.output is not None:
        chat.output = OutputFormat("schema", chat.output.schema, "answer")
    return chat


each_dialect = pytest.mark.parametrize("dialect_name", CHATS)


@each_dialect
@given(chat=conversations())
@settings(max_examples=number_of(100), deadline=None)
def test_a_door_reads_what_was_said(dialect_name, chat):
    result = CHATS[dialect_name].read_chat(body_of_client(dialect_name, chat))
    assert plain(result) == plain(chat)


@each_dialect
@pytest.mark.parametrize("format_name", SPOKEN)
@given(chat=conversations())
@settings(max_examples=number_of(25), deadline=None)
def test_a_provider_is_told_the_same_whichever_door_it_came_by(dialect_name, format_name, chat):
    result = CHATS[dialect_name].read_chat(body_of_client(dialect_name, chat))
    assert body_for(format_name, plain(result)) == body_for(format_name, plain(chat))


# --- What clients are answered ---


@st.composite
def replies(draw):
    """What a model said: thoughts that are signed, words, pictures, calls."""
    parts = []
    if draw(st.booleans()):
        parts.append(Reasoning(draw(words), draw(ids), source="anthropic"))
    if draw(st.booleans()):
        parts.append(Reasoning(data=draw(ids), source="anthropic"))
    if draw(st.booleans()):
        parts.append(Text(draw(words)))
    for data in draw(st.lists(ids, max_size=2)):  # pictures, which Gemini signs, are never Anthropic's
        parts += [Image(data=data, media_type="image/png"), Reasoning(signature=draw(ids), source="gemini")]
    row = draw(st.lists(st.tuples(names, arguments), max_size=3))
    parts += [ToolCall(f"call{at}", name, compact(values)) for at, (name, values) in enumerate(row)]
    reason = "tool" if row else draw(st.sampled_from(["stop", "length"]))
    counts = st.integers(0, 2**30)
    return Reply(parts, reason, reason, Usage(draw(counts), draw(counts), draw(counts), draw(counts)), "reply", MODEL)


def cut(text, draw):
    """The text in pieces."""
    at = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
    pieces = [text[begin:end] for begin, end in zip([0, *at], [*at, len(text)], strict=True)]
    return [piece for piece in pieces if piece]


def deltas_of(reply, draw):
    """The same answer as it comes in a stream."""
    deltas, number, thought = [AnswerStart(reply.id, reply.model)], 0, False
    for part in reply.parts:
        if isinstance(part, Text):
            deltas += [TextDelta(piece) for piece in cut(part.text, draw)]
        elif isinstance(part, Reasoning):
            pieces = [ReasoningDelta(piece, source=part.source) for piece in cut(part.text, draw)]
            pieces += [ReasoningDelta(signature=part.signature, source=part.source)] if part.signature else []
            pieces += [ReasoningDelta(data=part.data, source=part.source)] if part.data else []
            pieces[0].begins, thought = thought, True
            deltas += pieces
        elif isinstance(part, Image):
            deltas.append(ImageDelta(part))
        else:
            deltas.append(CallStart(number, part.id, part.name))
            deltas += [CallDelta(number, piece) for piece in cut(part.arguments, draw)]
            number += 1
    return [*deltas, AnswerEnd(reply.finish_reason, reply.provider_finish_reason)]


def work_for(dialect_name, stream=False):
    body = {"model": MODEL, "stream": stream, "stream_options": {"include_usage": True}}
    return WorkRequest("chat", MODEL, body, b"", stream, CHATS[dialect_name], True, id="r")


def repeated_turn(dialect_name, answer):
    """The parts of the model's turn when the client sends it back as it came."""
    if dialect_name == "openai-chat":
        values = {"messages": [answer["choices"][0]["message"]]}
    elif dialect_name == "openai-responses":
        values = {"input": answer["output"]}
    else:
        values = {"messages": [{"role": "assistant", "content": answer["content"]}]}
    chat = CHATS[dialect_name].read_chat({"model": MODEL, **values})
    return [part for message in plain(chat).messages for part in message.parts if part != Text("")]


READERS = {"openai-chat": "openai", "openai-responses": "openai-responses", "anthropic-messages": "anthropic"}


@each_dialect
@given(reply=replies())
@settings(max_examples=number_of(100), deadline=None)
def test_an_answer_comes_back_as_it_went_out(dialect_name, reply):
    if not reply.parts:
        return
    answer = json.loads(CHATS[dialect_name].write_reply(work_for(dialect_name), reply))
    assert repeated_turn(dialect_name, answer) == reply.parts


@each_dialect
@given(reply=replies())
@settings(max_examples=number_of(100), deadline=None)
def test_who_speaks_the_shape_reads_the_same_in_it(dialect_name, reply):
    work = work_for(dialect_name)
    work.via_door = False
    answer = FORMATS[READERS[dialect_name]].answer(work, CHATS[dialect_name].write_reply(work, reply))
    assert (answer.text, answer.finish_reason) == (reply.text, reply.finish_reason)
    read, wrote = answer.usage, reply.usage
    assert (read.input, read.cache_read, read.cache_write, read.output) == (
        *(wrote.input, wrote.cache_read, wrote.cache_write, wrote.output),
    )


class Told(JsonStreamReader):
    """A provider whose stream consists of deltas that are known."""

    def __init__(self, work, deltas, usage):
        super().__init__(work)
        self._told, self._usage = deltas, usage

    def feed(self, piece):
        self.deltas += self._told
        self.usage, self.done = self._usage, True
        return b""

    def read(self, value):
        raise AssertionError


@each_dialect
@given(data=st.data())
@settings(max_examples=number_of(100), deadline=None)
def test_a_stream_says_what_an_answer_would(dialect_name, data):
    reply = data.draw(replies())
    work = work_for(dialect_name, stream=True)
    written = TranslatingReader(Told(work, deltas_of(reply, data.draw), reply.usage)).feed(b"")
    work.via_door = False
    reader = FORMATS[READERS[dialect_name]].reader(work)
    reader.feed(written)
    assert (reader.done, reader.error, reader.finish_reason) == (True, None, reply.finish_reason)
    assert (reader.usage.all_input, reader.usage.output) == (reply.usage.all_input, reply.usage.output)
    assert CHATS[dialect_name].text(written) == reply.text
    if dialect_name == "openai-responses":
        last = [read_json(data_of(event)) for event in events_in(written)][-1]["response"]
        assert last == json.loads(CHATS[dialect_name].write_reply(work, reply))
