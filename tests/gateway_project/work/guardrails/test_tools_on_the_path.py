"""Guardrails on tools and on the arguments of their calls, through running gateways."""

import json

import pytest

from rules.guardrails.services import update_guardrail
from tests.support.guardrail_path import DOORS, SECRET, ask, body_for

pytestmark = pytest.mark.either_store


def test_a_pattern_is_for_texts_or_for_arguments(world, guard):
    world.provider()
    user = {"role": "user", "content": "Hi"}
    function = {"name": "run", "arguments": json.dumps({"command": "rm \u002drf"})}
    call = {"id": "c", "type": "function", "function": function}
    in_call = [user, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "x"}]
    in_text = [{"role": "user", "content": "What is rm -rf?"}]
    guardrail = guard(direction="request", type="pattern", parameters={"patterns": ["rm -rf"]})
    for places, statuses in (([], (400, 400)), (["arguments"], (400, 200)), (["text"], (200, 400))):
        update_guardrail(guardrail, parameters={"patterns": ["rm -rf"], "in": places})
        world.settle()
        for messages, status in zip((in_call, in_text), statuses, strict=True):
            assert world.post({"model": world.model, "messages": messages}).status_code == status, places


def test_arguments_with_half_a_surrogate_pair_are_redacted(world, guard):
    provider = world.provider()
    guard(direction="request", type="pattern", action="redact", parameters={"patterns": ["rm -rf"]})
    function = {"name": "run", "arguments": r'{"command": "\ud800 rm -rf", "note": "\u00e4"}'}
    call = {"id": "c", "type": "function", "function": function}
    messages = [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "x"},
    ]
    assert world.post({"model": world.model, "messages": messages}).status_code == 200
    arguments = provider.seen[0].json["messages"][0]["tool_calls"][0]["function"]["arguments"]
    assert "rm -rf" not in arguments
    assert json.loads(arguments)["command"].startswith("\ud800 ")


def call_of(arguments):
    """A conversation in which a tool was called with these arguments."""
    function = {"name": "f", "arguments": arguments}
    return [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c", "content": "done"},
    ]


@pytest.mark.parametrize(
    ("kind", "arguments", "secret"),
    [
        ("nl_bsn", '{"bsn": 123456782}', "123456782"),
        ("email", f'{{"n": {"1" * 5_000}, "mail": "{SECRET}"}}', SECRET),
    ],
)
def test_what_is_found_in_arguments_is_taken_out_of_them(world, guard, kind, arguments, secret):
    """Also a number, whose mask makes them no JSON, and whatever a very long number does to a parser."""
    provider = world.provider()
    guard(direction="request", action="redact", parameters={"kinds": [kind]})
    response = ask(world, "/v1/chat/completions", messages=call_of(arguments))
    assert response.status_code == 200
    assert secret not in provider.seen[-1].body.decode()
    assert secret not in world.entry(response).payload


@pytest.mark.parametrize(
    "arguments", ['{"a":"\\u0073wordfish"', '{"a":"\\u0073wordfish","a":1}', '{"a":"sword\U000e0101fish"}']
)
def test_a_word_is_found_in_arguments_however_it_is_written(world, guard, arguments):
    provider = world.provider()
    guard(direction="request", type="words", parameters={"words": ["swordfish"]})
    response = ask(world, "/v1/chat/completions", messages=call_of(arguments))
    assert (response.status_code, provider.seen) == (400, [])


TOOLS = {
    "/v1/chat/completions": {"type": "function", "function": {"name": "bash"}},
    "/v1/messages": {"type": "bash_20250124", "name": "bash"},
}


@pytest.mark.parametrize("path", TOOLS)
def test_a_tool_is_known_by_where_its_name_stands(world, guard, path):
    provider = world.provider()
    guard(direction="request", type="topic", parameters={"forbiddenTools": ["bash"]})
    assert ask(world, path, tools=[TOOLS[path]]).status_code == 400
    assert provider.seen == []


@pytest.mark.parametrize("path", DOORS[1:2] + DOORS[3:])
@pytest.mark.parametrize(
    ("message", "blocking"),
    [
        ({"content": "alpha\nbeta"}, {"type": "pattern", "parameters": {"patterns": [r"alpha\sbeta"]}}),
        ({"content": '{"a": 1}'}, None),
        (call_of('{"a": "\\u0073wordfish"}')[1], {"type": "words", "parameters": {"words": ["swordfish"]}}),
        (call_of("{}")[1], {"type": "topic", "parameters": {"forbiddenTools": ["f"]}}),
    ],
    ids=["text", "json", "arguments", "tool"],
)
def test_a_whole_answer_to_a_client_that_streams_is_searched_as_one(world, guard, path, message, blocking):
    provider = world.provider()
    reason = "tool_calls" if "tool_calls" in message else "stop"
    provider.default.body = {
        "id": "x", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }  # fmt: skip
    guard(direction="response", **(blocking or {"type": "json", "parameters": {}}))
    for stream in (False, True):
        response = ask(world, path, prompt=f"{path} {stream}", stream=stream)
        assert ("guardrail_blocked" in response.text) is (blocking is not None), stream


def test_models_and_tools_that_are_not_allowed(world, guard):
    world.provider(world.model, f"{world.model}-large")
    guard(type="topic", parameters={"models": [".*-large"], "forbiddenTools": ["shell.*"]}, direction="request")
    assert "model" in ask(world).json()["message"]
    tool = {"type": "function", "function": {"name": "shell_run", "parameters": {"type": "object"}}}
    body = body_for("/work", "Hi", f"{world.model}-large")
    assert world.post(body).status_code == 200
    assert "tool" in world.post({**body, "tools": [tool]}).json()["message"]
