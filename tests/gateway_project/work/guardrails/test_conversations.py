"""Placeholders in conversations that the provider keeps."""

from types import SimpleNamespace

import pytest

from gateway_project.work.guardrails.conversations import placeholder_key
from gateway_project.work.guardrails.detectors.redaction import Placeholders
from rules.guardrails.services import create_guardrail, delete_guardrail
from tests.support.stored_responses import events_of, message, response_with

pytestmark = pytest.mark.either_store

BOB, ALICE = "bob@example.com", "alice@example.com"


@pytest.fixture
def guardrail(world):
    world.allow()
    row = create_guardrail(
        name=world.name("guardrail"),
        type="pii",
        action="redact",
        direction="request",
        parameters={"kinds": ["email"], "placeholders": True},
        applies_to={"users": [world.user.pk]},
    )
    world.settle()
    yield row
    delete_guardrail(row)


def ask(world, provider, prompt, answer, *, stream=False, **members):
    """The answer that the client gets, and the prompt that the provider got."""
    identifier = world.name("resp")
    part = {"type": "output_text", "text": answer, "annotations": []}
    item = message(f"msg_{identifier}") | {"content": [part]}
    response = response_with(identifier, item)
    if stream:
        events = [event.replace('"delta": "Lisbon"', f'"delta": "{answer}"') for event in events_of(response)]
        provider.answers(stream=events)
    else:
        provider.answers(body=response)
    before = len(provider.seen)
    reply = world.post({"model": world.model, "input": prompt, "stream": stream, **members}, path="/v1/responses")
    assert reply.status_code == 200, reply.text
    return reply, provider.wait_for(before + 1)[-1].json["input"], identifier


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_no_turn_shows_the_original_of_another_one(world, guardrail, stream):
    provider = world.provider(format_name="openai-responses")
    _, first, identifier = ask(world, provider, BOB, "Yes.")
    reply, second, identifier = ask(
        world, provider, ALICE, f"First {first}.", stream=stream, previous_response_id=identifier
    )
    assert first != second
    assert first in reply.text
    assert ALICE not in reply.text
    reply, third, _ = ask(world, provider, f"{BOB} {ALICE}", f"{first} {second}", previous_response_id=identifier)
    assert third == f"{first} {second}"
    assert f"{BOB} {ALICE}" in reply.text


def test_what_no_provider_keeps_is_numbered(world, guardrail):
    provider = world.provider(format_name="openai-responses")
    assert ask(world, provider, BOB, "Yes.", store=False)[1] == "<EMAIL_1>"


def test_no_original_gets_what_the_request_contains():
    own = Placeholders(key=b"k").placeholder("email", BOB)
    placeholders = Placeholders([f"Who is {own}?"], b"k")
    other = placeholders.placeholder("email", BOB)
    assert other != own
    assert placeholders.restore(f"{own} {other}") == f"{own} {BOB}"


def test_callers_have_keys_of_their_own():
    request = SimpleNamespace(stateful_parameter="previous_response_id")
    keys = [placeholder_key(request, (), SimpleNamespace(id=number)) for number in (1, 2, 1)]
    assert keys[0] == keys[2] != keys[1]
    assert len({Placeholders(key=key).placeholder("email", BOB) for key in keys}) == 2
