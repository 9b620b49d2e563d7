"""Whatever a text is in a request or an answer of any client API, guardrails see it."""

import json

import pytest

from rules.guardrails.services import create_guardrail, delete_guardrail
from tests.support.guardrail_path import row_of

pytestmark = pytest.mark.either_store

SECRET = "bob@example.com"
TEXT = f"Write to {SECRET} today."
ALT = f"![{SECRET}](https://example.com/a.png)"
IMAGE = "https://example.com/a.png"
DOORS = ["/work", "/v1/chat/completions", "/v1/responses", "/v1/messages"]
SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}}}
# Split so that no piece has the address; its escape (\u0040) is that of JSON.
PIECES = ['{"to": "bob', "\\u0040exam", 'ple.com"}']


@pytest.fixture
def guard(world, request):
    def make(**options):
        audience, parameters = {"users": [world.user.pk]}, {"kinds": ["email"]}
        options = {"type": "pii", "parameters": parameters, "applies_to": audience} | options
        row = create_guardrail(name=world.name("guardrail"), **options)
        request.addfinalizer(lambda: delete_guardrail(row))
        world._settled = False
        return row

    world.allow()
    return make


def chat(text="Hi", system="Be brief.", description="Sends mail.", argument="me", result="Sent.", alt="A cat."):
    """A conversation with a text in each place, in the shape of chat completions."""
    function = {"name": "mail", "arguments": json.dumps({"to": argument})}
    image = {"type": "image_url", "image_url": {"url": IMAGE}}
    return {
        "messages": [
            {"role": "system", "content": system},
            {"role": "user", "content": [{"type": "text", "text": text}, {"type": "text", "text": alt}, image]},
            {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
            {"role": "tool", "tool_call_id": "c1", "content": result},
        ],
        "tools": [{"type": "function", "function": {"name": "mail", "description": description, "parameters": SCHEMA}}],
    }


def responses(text="Hi", system="Be brief.", description="Sends mail.", argument="me", result="Sent.", alt="A cat."):
    """The same in the shape of the Responses API."""
    texts = [{"type": "input_text", "text": text}, {"type": "input_text", "text": alt}]
    call = {"type": "function_call", "call_id": "c1", "name": "mail", "arguments": json.dumps({"to": argument})}
    return {
        "instructions": system,
        "input": [
            {"role": "user", "content": [*texts, {"type": "input_image", "image_url": IMAGE}]},
            call,
            {"type": "function_call_output", "call_id": "c1", "output": result},
        ],
        "tools": [{"type": "function", "name": "mail", "description": description, "parameters": SCHEMA}],
    }


def messages(text="Hi", system="Be brief.", description="Sends mail.", argument="me", result="Sent.", alt="A cat."):
    """The same in the shape of the Messages API."""
    image = {"type": "image", "source": {"type": "url", "url": IMAGE}}
    use = {"type": "tool_use", "id": "c1", "name": "mail", "input": {"to": argument}}
    answer = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": result}]}
    texts = [{"type": "text", "text": text}, {"type": "text", "text": alt}]
    return {
        "max_tokens": 100,
        "system": [{"type": "text", "text": system}],
        "messages": [
            {"role": "user", "content": [*texts, image]},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [answer]},
        ],
        "tools": [{"name": "mail", "description": description, "input_schema": SCHEMA}],
    }


SHAPES = dict(zip(DOORS, (chat, chat, responses, messages), strict=True))
PLACES = {"text": TEXT, "system": TEXT, "description": TEXT, "argument": SECRET, "result": TEXT, "alt": ALT}


def ask(world, path, **members):
    return world.post({"model": world.model, **SHAPES[path](), **members}, path=path)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("path", DOORS)
def test_every_text_of_a_request_is_searched(world, guard, path, stream):
    provider = world.provider()
    guardrail = guard(direction="request")
    assert ask(world, path, stream=stream).status_code == 200
    for place, text in PLACES.items():
        response = world.post({"model": world.model, **SHAPES[path](**{place: text}), "stream": stream}, path=path)
        assert response.status_code == 400, (place, response.text)
        assert guardrail.name in response.text, place
        assert SECRET not in response.text
        assert row_of(world, response)["counts"] == {"email": 1}, place
    assert len(provider.seen) == 1


@pytest.mark.parametrize("path", DOORS)
def test_every_text_of_a_request_is_redacted(world, guard, path):
    provider = world.provider()
    guard(direction="request", action="redact")
    response = world.post({"model": world.model, **SHAPES[path](**PLACES)}, path=path)
    assert response.status_code == 200, response.text
    (request,) = provider.wait_for(1)
    assert SECRET.encode() not in request.body
    assert request.body.count(b"[EMAIL]") == len(PLACES)


def call_of(arguments):
    return {"id": "c1", "type": "function", "function": {"name": "mail", "arguments": arguments}}


def whole_answer():
    message = {"role": "assistant", "content": f"See {ALT}.", "tool_calls": [call_of("".join(PIECES))]}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}


def stream_of(*, of_calls=True, of_text=True):
    """The same answer in pieces."""
    texts = ["See ![bob", "@exam", "ple.com](https://example.com/a.png)."] if of_text else ["See."]
    calls = [{"index": 0, **call_of(PIECES[0])}]
    calls += [{"index": 0, "function": {"arguments": piece}} for piece in PIECES[1:]]
    deltas = [{"role": "assistant", "content": piece} for piece in texts]
    deltas += [{"tool_calls": [call]} for call in calls if of_calls]
    ends = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if of_calls else "stop"}
    choices = [*({"index": 0, "delta": delta} for delta in deltas), ends]
    return [*({"choices": [choice]} for choice in choices), "data: [DONE]\n\n"]


@pytest.mark.parametrize("path", DOORS)
def test_calls_and_alt_texts_of_an_answer_are_redacted(world, guard, path):
    provider = world.provider()
    provider.answers(body=whole_answer()).answers(stream=stream_of())
    guard(direction="response", action="redact")
    for stream in (False, True):
        response = ask(world, path, stream=stream)
        assert response.status_code == 200, response.text
        assert "[EMAIL]" in response.text
        for part in (SECRET, "\\u0040", "ple.com"):
            assert part not in response.text.replace("example.com/a.png", ""), (part, stream)
        assert row_of(world, response, "response")["counts"] == {"email": 2}
        assert SECRET not in world.entry(response).payload


@pytest.mark.parametrize("path", DOORS)
@pytest.mark.parametrize("place", ["text", "call"])
def test_calls_and_alt_texts_of_an_answer_are_blocked(world, guard, path, place):
    provider = world.provider()
    provider.default.stream = stream_of(of_text=place == "text", of_calls=place == "call")
    guard(direction="response")
    response = ask(world, path, stream=True)
    assert "guardrail" in response.text
    assert "ple.com" not in response.text
    assert world.entry(response).outcome == "blocked"
    provider.default.stream, provider.default.body = None, whole_answer()
    response = ask(world, path)
    assert response.status_code == 400
    assert SECRET not in response.text
