"""Anthropic's Messages through Anthropic's own format and back, and the proofs of others' thoughts through both."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.formats import FORMATS, Options
from providers.formats.anthropic.foreign import mark_signature, read_signature
from providers.formats.base import TranslatingReader
from tests.support.doors.anthropic_client import RESULT, message_of, work, written
from tests.support.thoroughness import number_of

pytestmark = [pytest.mark.embedded, pytest.mark.long]

ANTHROPIC = FORMATS["anthropic"]

words = st.text(st.characters(codec="utf-8"), min_size=1).filter(str.strip)
names = st.text("abcXYZ_-09", min_size=1, max_size=20)
arguments = st.dictionaries(names, st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | words, st.lists))
texts = st.builds(lambda text: {"type": "text", "text": text}, words)
pictures = st.just({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}})
thoughts = st.one_of(
    st.builds(lambda text, sign: {"type": "thinking", "thinking": text, "signature": sign}, st.text(), names),
    st.builds(lambda data: {"type": "redacted_thinking", "data": data}, names),
)


@st.composite
def conversations(draw):
    """Turns as Anthropic has them: alternating roles, and the results of all calls first in the turn behind them."""
    messages, calls = [], []
    for number in range(draw(st.integers(1, 4))):
        results = [RESULT | {"tool_use_id": call["id"], "content": draw(words)} for call in calls]
        messages.append({"role": "user", "content": results + draw(st.lists(texts | pictures, min_size=not results))})
        calls = [
            {"type": "tool_use", "id": f"toolu_{number}_{index}", "name": draw(names), "input": draw(arguments)}
            for index in range(draw(st.integers(0, 2)))
        ]
        text = draw(st.lists(thoughts, max_size=2)) + draw(st.lists(texts, min_size=not calls, max_size=2)) + calls
        messages.append({"role": "assistant", "content": text})
    results = [RESULT | {"tool_use_id": call["id"]} for call in calls]
    return [*messages, {"role": "user", "content": [*results, {"type": "text", "text": "Go on."}]}]


@given(messages=conversations(), system=words)
@settings(max_examples=number_of(60), deadline=None)
def test_a_conversation_comes_through_unchanged(messages, system):
    message = work(messages=messages, system=system)
    body = ANTHROPIC.chat_body(message, message.chat, "claude-sonnet-4-5", Options())
    assert body["messages"] == messages
    assert body["system"] == system


@given(messages=conversations())
@settings(max_examples=number_of(60), deadline=None)
def test_an_answer_comes_through_unchanged(messages):
    content = [block for message in messages if message["role"] == "assistant" for block in message["content"]]
    value = {"id": "msg_1", "model": "m", "content": content, "stop_reason": "end_turn", "usage": {"input_tokens": 1}}
    assert written(ANTHROPIC.read_reply(value))["content"] == content


@given(messages=conversations(), data=st.data())
@settings(max_examples=number_of(25), deadline=None)
def test_a_stream_comes_through_unchanged_wherever_it_is_cut(messages, data):
    content = [block for message in messages if message["role"] == "assistant" for block in message["content"]]
    request = stream_of(content)
    query = work(stream=True)
    reader, pieces, start = TranslatingReader(ANTHROPIC.native_reader(query)), [], 0
    while start < len(request):
        end = data.draw(st.integers(start + 1, len(request)))
        pieces.append(reader.feed(request[start:end]))
        start = end
    assert reader.done
    assert message_of(b"".join(pieces))["content"] == joined(content)


def joined(content):
    """The blocks with neighbouring texts as one: a stream of the neutral form does not part them."""
    results = []
    for block in content:
        if results and block["type"] == results[-1]["type"] == "text":
            results[-1] = {"type": "text", "text": results[-1]["text"] + block["text"]}
        else:
            results.append(block)
    return results


def stream_of(content):
    """A stream of these blocks, as Anthropic sends them."""

    def event(kind, **about):
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **about})}\n\n"

    def delta(index, **about):
        return event("content_block_delta", index=index, delta=about)

    head = {"id": "msg_1", "model": "m", "role": "assistant", "content": [], "usage": {"input_tokens": 1}}
    results = [event("message_start", message=head)]
    for index, block in enumerate(content):
        begun = dict(block)
        pieces = []
        if block["type"] == "text":
            begun["text"] = ""
            pieces = [delta(index, type="text_delta", text=letter) for letter in block["text"]]
        elif block["type"] == "thinking":
            begun |= {"thinking": "", "signature": ""}
            pieces = [delta(index, type="thinking_delta", thinking=block["thinking"])]
            pieces.append(delta(index, type="signature_delta", signature=block["signature"]))
        elif block["type"] == "tool_use":
            begun["input"] = {}
            pieces = [delta(index, type="input_json_delta", partial_json=json.dumps(block["input"]))]
        results += [event("content_block_start", index=index, content_block=begun), *pieces]
        results.append(event("content_block_stop", index=index))
    results.append(event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 8}))
    return "".join([*results, event("message_stop")]).encode()


@given(source=names, proof=st.text())
def test_a_foreign_proof_leads_back_to_its_maker(source, proof):
    assert read_signature(mark_signature(source, proof)) == (source, proof) or source == "anthropic"


def test_the_thoughts_of_others_are_kept_from_anthropic():
    own = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    foreign = [
        {"type": "thinking", "thinking": "Hm.", "signature": "gateway:openai:"},
        {"type": "redacted_thinking", "data": "gateway:gemini:d"},
    ]
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [*foreign, own, {"type": "text", "text": "gateway:x:y"}]},
        {"role": "assistant", "content": foreign},
        {"role": "user", "content": "Go on."},
    ]
    body = json.loads(ANTHROPIC.request(work(messages=messages), "m").body)
    rest = [{"role": "assistant", "content": [own, {"type": "text", "text": "gateway:x:y"}]}]
    assert body["messages"] == [messages[0], *rest, messages[3]]


def test_without_such_thoughts_the_bytes_pass_as_they_are():
    message = work(messages=[{"role": "user", "content": "Hi"}])
    assert ANTHROPIC.request(message, "m").body == message.raw
