"""Guardrails on the path of streamed answers, through running gateways."""

import json
import time

import pytest

from gateway_project.work.guardrails.channels import MAX_CHANNELS
from gateway_project.work.streaming.live_stream import JOIN_SECONDS
from providers.formats.sse import data_of, events_in
from rules.guardrails.services import update_guardrail
from tests.support.guardrail_path import DOORS, SECRET, TEXT, ask, body_for, text_of_events
from tests.support.provider import ScriptedProvider
from tests.support.provider_answers import Answer
from tests.support.stepped_streams import Client, SteppedProvider
from tests.support.streaming import error_in, part

pytestmark = pytest.mark.either_store


def test_a_stream_of_more_texts_than_can_be_searched_ends_and_says_why(world, guard):
    """It was a fault of ours, with a stack in the output."""
    provider, second = world.provider(), world.provider()
    guard(direction="response")
    choices = [
        {"index": number, "delta": {"content": "Hi"}, "finish_reason": None} for number in range(MAX_CHANNELS + 1)
    ]
    provider.default.stream = second.default.stream = [{"choices": choices}, "data: [DONE]\n\n"]
    response = ask(world, "/work", stream=True)
    entry = world.entry(response)
    assert "at most 1,000 texts of an answer" in response.text
    assert (entry.exception, entry.attempts) == ("ProviderError", 1)
    assert "Traceback" not in world.gateway.log()


@pytest.mark.parametrize("path", DOORS)
def test_a_stream_is_blocked_in_the_middle(world, guard, path):
    world.provider().default.text = f"This comes first, and it is long enough to be sent. {TEXT}"
    guard(direction="response")
    for _ in range(2):
        response = ask(world, path, prompt="Whom?", stream=True)
        assert response.status_code == 200
        assert "bob" not in response.text
        assert "comes first" in text_of_events(response.content)
        last = list(events_in(response.content))[-1]
        assert b"guardrail" in data_of(last), last
        assert b"[DONE]" not in response.content
        entry = world.entry(response)
        assert (entry.outcome, entry.exception, entry.cache_status) == ("blocked", "GuardrailBlocked", "MISS")
        assert entry.output_tokens
        assert "bob" not in entry.payload


def test_the_error_event_has_the_shape_of_the_client_api(world, guard):
    world.provider().default.text = TEXT
    guard(direction="response")
    events = {}
    for path in DOORS:
        response = ask(world, path, prompt="Whom?", stream=True)
        last = list(events_in(response.content))[-1]
        events[path] = json.loads(data_of(last))
        if path in ("/v1/messages", "/v1/responses"):
            assert last.startswith(b"event: error\n"), last
    assert events["/work"]["exception"] == "GuardrailBlocked"
    for path in ("/v1/chat/completions", "/v1/completions"):
        assert events[path]["error"]["code"] == "guardrail_blocked"
    assert (events["/v1/messages"]["type"], events["/v1/messages"]["error"]["type"]) == (
        "error", "invalid_request_error",
    )  # fmt: skip
    assert (events["/v1/responses"]["type"], events["/v1/responses"]["code"]) == ("error", "guardrail_blocked")


def test_a_cached_stream_is_searched_for_who_gets_it(world, guard):
    world.provider().default.text = TEXT
    other = world.new_user()
    world.allow(user=other)
    key = world.new_key(owner=other).text
    body = body_for("/work", "Whom?", world.model, stream=True)
    assert SECRET in text_of_events(world.post(body, key=key).content)
    guardrail = guard(direction="response", action="redact")
    response = world.post(body)
    assert response.headers["X-Svc-Cache"] == "HIT"
    assert text_of_events(response.content) == "Write to [EMAIL] today."
    update_guardrail(guardrail, action="block")
    response = world.soon(lambda: world.post(body), 400)
    assert response.json()["exception"] == "GuardrailBlocked"
    assert SECRET in text_of_events(world.post(body, key=key).content)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("thought", "text", "is_blocked"), [("Let me", '{"a": 1}', False), ('{"a": 1}', "No.", True)])
def test_a_thought_is_not_the_answer(world, guard, stream, thought, text, is_blocked):
    provider = world.provider(format_name="gemini")
    parts = {"text": thought, "thought": True}, {"text": text}

    def event(*own):
        return {"candidates": [{"content": {"role": "model", "parts": list(own)}, "finishReason": "STOP", "index": 0}]}

    provider.default.body = event(*parts)
    if stream:
        provider.default = Answer(stream=[event(part) for part in parts])
    guard(direction="response", type="json", parameters={})
    response = ask(world, stream=stream)
    assert ("guardrail" in response.text) is is_blocked


def test_followers_of_a_stream_have_guardrails_of_their_own(world, guard):
    provider: ScriptedProvider = world.provider()
    pieces = [
        {"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in ("Write to ", "bob@exam", "ple.com")
    ]
    last = {"choices": [{"index": 0, "delta": {"content": " today."}, "finish_reason": "stop"}]}
    provider.default.stream = [*pieces, last, "data: [DONE]\n\n"]
    provider.default.pace = 0.5
    other = world.new_user()
    world.allow(user=other)
    key = world.new_key(owner=other).text
    guard(direction="response", action="redact")
    body = body_for("/work", "Whom?", world.model, stream=True)
    world.settle()
    for first_key, second_key in ((world.key, key), (key, world.key)):
        body["messages"][0]["content"] = f"Whom? {first_key[-4:]}"
        first = world.post(body, key=first_key, stream=True)
        second = world.post(body, key=second_key, stream=True)
        texts = {first_key: text_of_events(first.content), second_key: text_of_events(second.content)}
        assert texts == {world.key: "Write to [EMAIL] today.", key: TEXT}
        assert SECRET not in world.entry(first if first_key == world.key else second).payload
    assert len(provider.seen) == 2


def test_what_is_safe_is_passed_on_at_once(world, guard):
    """Each word arrives before the provider sends the next one: it waits for the client to have read it."""
    provider = world.provider()
    words = ["one ", "two ", "three ", "four."]
    chunks = [{"choices": [{"index": 0, "delta": {"content": word}}]} for word in words]
    provider.default.stream = chunks
    provider.default.silent_after = len(chunks) - 1  # the rest never comes, and what was sent is not held
    guard(direction="response", action="redact")
    with world.stream("Count.") as response:
        events = b""
        for chunk in response.iter_content(None):
            events += chunk
            if b"three " in events:
                break
    assert text_of_events(events) == "one two three "


@pytest.mark.parametrize("action", ["block", "redact"])
def test_lines_of_json_that_are_announced_as_events_are_searched(world, guard, action):
    provider = world.provider(format_name="passthrough")
    guard(direction="response", action=action)
    lines = [{"message": {"content": f"Write to {SECRET}"}, "done": False}, {"message": {"content": ""}, "done": True}]
    provider.answers(
        stream=[f"{json.dumps(line)}\n".encode() for line in lines], headers={"Content-Type": "text/event-stream"}
    )
    response = ask(world, stream=True)
    assert SECRET not in response.text
    assert world.entry(response).outcome == ("blocked" if action == "block" else "completed")


def test_the_first_client_is_told_if_its_stream_is_blocked_as_another_joins(world, guard):
    """Its thread waits for the provider, so that the other one joins with the chunk that is blocked."""
    guard(direction="response")
    stepped = SteppedProvider()
    world.provider(url=stepped.url)
    assert world.key
    world.settle()
    first = Client(world, version="1.0")  # the relay, which others can interrupt, has no such clients
    stream = stepped.stream()
    opening = f"This comes first, and it is long enough to be sent at once: {'so ' * 40}"
    stream.send(part(opening))
    first.read_until(b"so so")
    second = Client(world)
    time.sleep(2 * JOIN_SECONDS)
    stream.send(part(f"{TEXT} And it goes on for long enough. "))
    assert error_in(first.read())["exception"] == "GuardrailBlocked"
    assert world.entry(first.id).outcome == "blocked"
    second.leave()
    stepped.close()
