"""The type `topic` with allowed languages on the path of requests and answers."""

import json

import pytest

from rules.guardrails.services import create_guardrail, delete_guardrail
from tests.support.guardrail_path import body_for, row_of, text_of_events
from tests.support.provider_answers import Answer

pytestmark = pytest.mark.either_store

DOORS = ["/work", "/v1/chat/completions", "/v1/responses", "/v1/messages"]
ENGLISH, GERMAN = "We do not know why the server is down.", "Wir wissen nicht, warum der Server nicht läuft."
TOPIC = {"type": "topic", "parameters": {"allowedLanguages": ["en", "pt"]}}


@pytest.fixture
def guard(world, request):
    def make(**options):
        audience = {"users": [world.user.pk]}
        row = create_guardrail(name=world.name("guardrail"), applies_to=audience, **TOPIC, **options)
        request.addfinalizer(lambda: delete_guardrail(row))
        world._settled = False
        return row

    world.allow()
    return make


def ask(world, path, prompt, **members):
    return world.post(body_for(path, prompt, world.model, **members), path=path)


@pytest.mark.parametrize("path", DOORS)
def test_a_request_in_another_language_is_blocked(world, guard, path):
    provider = world.provider()
    guard(direction="request")
    response = ask(world, path, GERMAN)
    assert response.status_code == 400
    assert "language" in response.text
    assert "Wir wissen" not in response.text
    assert provider.seen == []
    assert row_of(world, response)["counts"] == {"language": 1}
    for prompt in (ENGLISH, "Danke!", "O servidor caiu e ninguém sabe porquê."):
        assert ask(world, path, prompt).status_code == 200


@pytest.mark.parametrize("path", DOORS)
def test_an_answer_in_another_language_is_blocked_whole_and_in_a_stream(world, guard, path):
    provider = world.provider()
    provider.default.text = f"{ENGLISH} {GERMAN} {ENGLISH}"
    guard(direction="response")
    response = ask(world, path, GERMAN)
    assert response.status_code == 400
    assert "Wir wissen" not in response.text
    response = ask(world, path, GERMAN, stream=True)
    assert response.status_code == 200
    assert ENGLISH in text_of_events(response.content)
    assert "wissen" not in response.text
    assert world.entry(response).outcome == "blocked"


@pytest.mark.parametrize("path", DOORS)
def test_a_sentence_is_redacted_whole_and_in_a_stream(world, guard, path):
    world.provider().default.text = f"{ENGLISH} {GERMAN} {ENGLISH}"
    guard(direction="response", action="redact")
    assert f"{ENGLISH} [LANGUAGE] {ENGLISH}" in ask(world, path, ENGLISH).text
    assert text_of_events(ask(world, path, ENGLISH, stream=True).content) == f"{ENGLISH} [LANGUAGE] {ENGLISH}"


def test_reasoning_and_arguments_of_tools_are_not_judged(world, guard):
    provider = world.provider()
    call = {"id": "c", "type": "function", "function": {"name": "note", "arguments": json.dumps({"text": GERMAN})}}
    message = {"role": "assistant", "content": ENGLISH, "reasoning_content": GERMAN, "tool_calls": [call]}
    provider.default = Answer(body={"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
    guard(direction="response")
    assert ask(world, "/work", "Why?").status_code == 200
    message["content"] = GERMAN
    assert ask(world, "/work", "Why not?").status_code == 400


def test_system_prompts_and_results_of_tools_are_judged(world, guard):
    world.provider()
    guard(direction="request")
    user = {"role": "user", "content": ENGLISH}
    for message in ({"role": "system", "content": GERMAN}, {"role": "tool", "tool_call_id": "c", "content": GERMAN}):
        assert world.post({"model": world.model, "messages": [message, user]}).status_code == 400
