"""Guardrails on the path of requests and answers, through running gateways."""

import json
from types import SimpleNamespace

import pytest

from gateway_project.work.exchange import Exchange
from gateway_project.work.guardrails.channels import MAX_CHANNELS
from gateway_project.work.stages.guardrails import guard_answer, guard_request
from gateway_project.work.stages.repair import repair_answer
from gateway_project.work.streaming.stream import ClientConnection
from keys.services import update_key
from providers.formats.sse import data_of, events_in
from providers.transport.calls import Call
from rules.aliases.drafts import MirrorDraft
from rules.guardrails.services import create_guardrail, delete_guardrail, update_guardrail
from tests.support.provider import ScriptedProvider
from tests.support.provider_answers import Answer

pytestmark = pytest.mark.either_store

SECRET = "bob@example.com"
TEXT = f"Write to {SECRET} today."
MAIL = {"type": "pii", "parameters": {"kinds": ["email"]}}
DOORS = ["/work", "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"]


@pytest.fixture
def guard(world, request):
    """Makes guardrails for the world's user."""

    def make(**options):
        options = {"applies_to": {"users": [world.user.pk]}, **MAIL} | options
        row = create_guardrail(name=options.pop("name", world.name("guardrail")), **options)
        request.addfinalizer(lambda: delete_guardrail(row) if row.pk else None)
        world._settled = False
        return row

    world.allow()
    return make


def body_for(path, prompt, model, **members):
    shapes = {
        "/v1/completions": {"prompt": prompt},
        "/v1/responses": {"input": prompt},
        "/v1/messages": {"messages": [{"role": "user", "content": prompt}], "max_tokens": 100},
    }.get(path, {"messages": [{"role": "user", "content": prompt}]})
    return {"model": model, **shapes, **members}


def ask(world, path="/work", prompt=TEXT, **members):
    return world.post(body_for(path, prompt, world.model, **members), path=path)


def row_of(world, response, direction="request"):
    rows = [row for row in world.entry(response).guardrails if row["direction"] == direction]
    (row,) = rows
    return row


@pytest.mark.parametrize("path", DOORS)
def test_a_request_is_blocked_in_the_shape_of_its_client_api(world, guard, path):
    provider = world.provider()
    guardrail = guard(direction="request")
    response = ask(world, path)
    assert response.status_code == 400
    assert guardrail.name in response.text
    assert "email" in response.text
    assert SECRET not in response.text
    document = response.json()
    if path == "/work":
        assert document["exception"] == "GuardrailBlocked"
    elif path == "/v1/messages":
        assert document["error"]["type"] == "invalid_request_error"
    else:
        assert document["error"]["code"] == "guardrail_blocked"
    assert provider.seen == []
    entry = world.entry(response)
    assert (entry.outcome, entry.exception, entry.status) == ("blocked", "GuardrailBlocked", 400)
    assert SECRET not in entry.payload
    assert "[EMAIL]" in entry.payload
    row = row_of(world, response)
    assert (row["id"], row["name"], row["result"]) == (guardrail.pk, guardrail.name, "blocked")
    assert row["counts"] == {"email": 1}
    assert row["milliseconds"] >= 0


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
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_placeholder_goes_to_the_provider_and_the_original_to_the_client(world, guard, path, stream):
    provider = world.provider()
    provider.default.text = "Write to <EMAIL_1> today."
    guard(direction="request", action="redact", parameters={"kinds": ["email"], "placeholders": True})
    response = ask(world, path, stream=stream)
    assert response.status_code == 200, response.text
    assert SECRET in (said(response.content) if stream else response.text)
    (request,) = provider.wait_for(1)
    assert SECRET.encode() not in request.body
    assert b"<EMAIL_1>" in request.body or b"\\u003cEMAIL_1" in request.body
    entry = world.entry(response)
    assert entry.outcome == "completed"
    assert SECRET not in entry.payload
    assert row_of(world, response)["result"] == "redacted"


@pytest.mark.parametrize("path", DOORS)
def test_an_answer_is_redacted_whole_and_streamed(world, guard, path):
    world.provider().default.text = TEXT
    guard(direction="response", action="redact")
    for stream in (False, True):
        for _ in range(2):  # the second one is in the cache
            response = ask(world, path, prompt="Whom?", stream=stream)
            assert response.status_code == 200, response.text
            text = said(response.content) if stream else response.text
            assert SECRET not in response.text
            assert "[EMAIL]" in text
            entry = world.entry(response)
            assert SECRET not in entry.payload
            assert row_of(world, response, "response")["counts"] == {"email": 1}


@pytest.mark.parametrize("path", DOORS)
def test_an_answer_is_blocked(world, guard, path):
    world.provider().default.text = TEXT
    guard(direction="response")
    for _ in range(2):  # nothing is cached
        response = ask(world, path, prompt="Whom?")
        assert response.status_code == 400, response.text
        assert SECRET not in response.text
        entry = world.entry(response)
        assert (entry.outcome, entry.entry_source, entry.cache_status) == ("blocked", "Worker", "MISS")
        assert entry.output_tokens
        assert SECRET not in entry.payload


@pytest.mark.parametrize("path", DOORS)
def test_a_stream_is_blocked_in_the_middle(world, guard, path):
    world.provider().default.text = f"This comes first, and it is long enough to be sent. {TEXT}"
    guard(direction="response")
    for _ in range(2):
        response = ask(world, path, prompt="Whom?", stream=True)
        assert response.status_code == 200
        assert "bob" not in response.text
        assert "comes first" in said(response.content)
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


def test_a_longest_text_is_one_of_requests_and_of_answers(world, guard):
    provider = world.provider()
    guardrail = guard(type="topic", direction="request", parameters={"maxLength": 20})
    assert ask(world, prompt="x" * 20).status_code == 200
    response = ask(world, prompt="x" * 21)
    assert (response.status_code, row_of(world, response)["counts"]) == (400, {"length": 1})
    update_guardrail(guardrail, direction="response", action="redact")
    world.settle()
    for text, answer in (("y" * 20, "y" * 20), ("y" * 20 + "z" * 9, "y" * 20 + "[LENGTH]")):
        provider.default.text = text
        response = ask(world, prompt=f"A longer prompt about {text}.")
        assert response.json()["choices"][0]["message"]["content"] == answer


def test_the_time_that_a_search_takes_is_logged(world, guard):
    world.provider()
    guard(direction="request")
    response = ask(world, prompt="Nothing to see here. " * 5000)
    assert 0 < row_of(world, response)["milliseconds"] < 1000


def test_a_cached_stream_is_searched_for_who_gets_it(world, guard):
    world.provider().default.text = TEXT
    other = world.new_user()
    world.allow(user=other)
    key = world.new_key(owner=other).text
    body = body_for("/work", "Whom?", world.model, stream=True)
    assert SECRET in said(world.post(body, key=key).content)
    guardrail = guard(direction="response", action="redact")
    response = world.post(body)
    assert response.headers["X-Svc-Cache"] == "HIT"
    assert said(response.content) == "Write to [EMAIL] today."
    update_guardrail(guardrail, action="block")
    response = world.soon(lambda: world.post(body), 400)
    assert response.json()["exception"] == "GuardrailBlocked"
    assert SECRET in said(world.post(body, key=key).content)


def test_the_strictest_action_wins_and_all_are_listed(world, guard):
    world.provider()
    names = [guard(direction="request", action=action, position=place).name
             for place, action in enumerate(("monitor", "redact", "block"))]  # fmt: skip
    response = ask(world)
    assert names[2] in response.json()["message"]
    rows = world.entry(response).guardrails
    assert [(row["name"], row["result"]) for row in rows] == list(
        zip(names, ("monitored", "redacted", "blocked"), strict=True)
    )


def test_what_is_only_recorded_changes_nothing(world, guard):
    provider = world.provider()
    guard(action="monitor")
    response = ask(world)
    assert response.status_code == 200
    assert SECRET in response.text
    assert SECRET.encode() in provider.wait_for(1)[0].body
    assert SECRET in world.entry(response).payload
    assert row_of(world, response)["result"] == row_of(world, response, "response")["result"] == "monitored"


def test_whom_a_guardrail_is_for(world, guard):
    first = world.provider()
    group, rule, alias = world.new_group(world.user), world.allow(), world.alias(first)
    key = world.new_key()
    body, through_alias = (body_for("/work", TEXT, name) for name in (world.model, alias.name))
    guardrail = guard(direction="request", applies_to={"groups": [group.pk]})
    cases = [
        ({"groups": [group.pk]}, {}, 400),
        ({"groups": [world.new_group().pk]}, {}, 200),
        ({"users": [world.new_user().pk]}, {}, 200),
        ({"keys": [key.key.pk]}, {"key": key.text}, 400),
        ({"keys": [key.key.pk]}, {}, 200),
        ({"aliases": [alias.name]}, {"body": through_alias}, 400),
        ({"aliases": [alias.name]}, {}, 200),
        ({"everyone": True}, {}, 400),
    ]
    for audience, options, status in cases:
        update_guardrail(guardrail, applies_to=audience)
        world.settle()
        values = {"body": body} | options
        assert world.post(**values).status_code == status, audience
    assert rule.pk


def test_the_rules_of_a_name_and_of_its_targets_count(world, guard):
    first, second = world.provider(), world.provider("cheap")
    alias = world.alias(first, world.target(second, "cheap"))
    user = world.new_user()
    key = world.new_key(owner=user).text
    rules = [world.allow(user=user, regex=name) for name in (world.model, "cheap", alias.name)]
    guardrail = guard(direction="request")
    cases = {
        world.model: (400, 200, 200),  # of the rules in their order
        "cheap": (200, 400, 200),
        alias.name: (400, 400, 400),
    }
    for number, rule in enumerate(rules):
        update_guardrail(guardrail, applies_to={"rules": [rule.pk]})
        world.settle()
        for name, statuses in cases.items():
            body = body_for("/work", TEXT, name)
            assert world.post(body, key=key).status_code == statuses[number], (name, number)
            explained = world.post(body, path="/work?explain=true", key=key).json()["data"]["guardrails"]
            assert [row["id"] for row in explained] == ([guardrail.pk] if statuses[number] == 400 else [])
    update_guardrail(guardrail, applies_to={"rules": [world.allow(user=world.new_user()).pk]})
    world.settle()
    assert world.post(body_for("/work", TEXT, alias.name), key=key).status_code == 200


def test_a_change_holds_within_a_second(world, guard):
    world.provider()
    guardrail = guard(direction="request")
    assert ask(world).status_code == 400
    update_guardrail(guardrail, enabled=False)
    world.soon(lambda: ask(world), 200)
    update_guardrail(guardrail, enabled=True)
    world.soon(lambda: ask(world), 400)


def test_what_stands_around_the_prompt_is_searched(world, guard):
    world.provider()
    guard(direction="request")
    tool = {"type": "function", "function": {"name": "mail", "description": TEXT, "parameters": {"type": "object"}}}
    call = {"id": "c", "type": "function", "function": {"name": "mail", "arguments": json.dumps({"to": SECRET})}}
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}, "alt": SECRET}
    user = {"role": "user", "content": "Hi"}
    for members in (
        {"messages": [{"role": "system", "content": TEXT}, user]},
        {"messages": [user], "tools": [tool]},
        {"messages": [user, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "x"}]},  # noqa: E501
        {"messages": [user, {"role": "tool", "tool_call_id": "c", "content": TEXT}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}, image]}]},
    ):  # fmt: skip
        response = world.post({"model": world.model, **members})
        assert response.status_code == 400, members
        assert response.json()["exception"] == "GuardrailBlocked", response.text


@pytest.mark.parametrize(
    ("path", "members"),
    [
        ("/v1/completions", {"prompt": [1, 2, 3]}),
        ("/v1/completions", {"prompt": [[1, 2], [3]]}),
        ("/v1/completions", {"prompt": ["Hi", 3]}),
        ("/v1/completions", {"prompt": "Hi", "prompt_embeds": "AAAA"}),
        ("/v1/embeddings", {"input": [1, 2, 3]}),
        ("/v1/embeddings", {"input": [[1, 2], [3]]}),
        ("/work", {"prompt": [1, 2, 3]}),
    ],
)
def test_token_ids_are_refused_where_a_text_would_be_searched(world, guard, path, members):
    provider = world.provider()
    guardrail = guard(direction="request", action="redact")
    body = {"model": world.model, **members}
    response = world.post(body, path=path)
    assert (response.status_code, "unreadable" in response.text) == (400, True), response.text
    assert provider.seen == []
    assert row_of(world, response)["counts"] == {"unreadable": 1}
    update_guardrail(guardrail, action="monitor")
    world.settle()
    response = world.post(body, path=path)
    assert "unreadable" not in response.text
    assert len(provider.seen) == 1
    assert row_of(world, response)["result"] == "monitored"


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


def test_models_and_tools_that_are_not_allowed(world, guard):
    world.provider(world.model, f"{world.model}-large")
    guard(type="topic", parameters={"models": [".*-large"], "forbiddenTools": ["shell.*"]}, direction="request")
    assert "model" in ask(world).json()["message"]
    tool = {"type": "function", "function": {"name": "shell_run", "parameters": {"type": "object"}}}
    body = body_for("/work", "Hi", f"{world.model}-large")
    assert world.post(body).status_code == 200
    assert "tool" in world.post({**body, "tools": [tool]}).json()["message"]


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
        texts = {first_key: said(first.content), second_key: said(second.content)}
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
    assert said(events) == "one two three "


def said(events):
    """The text of a stream of any client API."""
    text = ""
    for event in events_in(events):
        data = data_of(event)
        if not data.startswith(b"{"):
            continue
        value = json.loads(data)
        delta = value.get("delta")
        if isinstance(delta, str):
            text += delta
        elif isinstance(delta, dict):
            text += delta.get("text", "")
        for choice in value.get("choices", ()):
            text += choice.get("text") or choice.get("delta", {}).get("content") or ""
    return text


def test_log_filters_metrics_and_explanations_name_guardrails(world, guard):
    world.provider()
    guardrail, other = guard(direction="request"), guard(direction="response", action="monitor")
    response = ask(world)
    world.entry(response)
    reader = world.new_key(permissions=["logs.view_all"], owner=world.new_user(roles=["admin"]))
    for query, is_listed in {
        f"guardrail={guardrail.pk}": True, f"guardrail={other.pk}": False, "guardrailResult=passed": False,
        f"guardrail={guardrail.pk}&guardrailResult=blocked": True, "outcome=blocked": True, "outcome=failed": False,
    }.items():  # fmt: skip
        listed = world.get(f"/logs/?type=WorkRequest&id={world.user.pk}&{query}", key=reader.text).json()["data"]
        assert bool(listed) == is_listed, query
        for row in listed:
            assert row["attributes"]["guardrails"][0]["name"] == guardrail.name
    explained = world.post(body_for("/work", TEXT, world.model), path="/work?explain=true").json()["data"]
    assert (explained["allowed"], explained["error"]["exception"]) == (False, "GuardrailBlocked")
    assert [(row["id"], row["result"], row["counts"]) for row in explained["guardrails"]] == [
        (guardrail.pk, "blocked", {"email": 1}), (other.pk, None, {}),
    ]  # fmt: skip
    samples = f'gateway_guardrail_results_total{{direction="request",guardrail="{guardrail.name}",result="blocked"}} 1'
    world.until(lambda: samples in world.session.get(f"{world.gateway.url}/metrics", timeout=10).text)


def test_requests_need_not_be_json_where_answers_must(world, guard):
    provider = world.provider()
    guard(type="json", parameters={"schema": {"type": "object", "required": ["a"]}})
    provider.default.text = '{"a": 1}'
    assert ask(world, prompt="Some words.").status_code == 200
    provider.default.text = '{"b": 1}'
    response = ask(world, prompt="Other words.")
    assert response.status_code == 400
    assert "schema" in response.json()["message"]


def test_answers_of_mirrors_are_logged_without_the_match(world, guard):
    first, mirror = world.provider(), world.provider("mirrored")
    mirror.default.text = TEXT
    alias = world.alias(first, mirror=MirrorDraft(world.row(mirror).pk, "mirrored", 1.0))
    guard(direction="response", action="redact")
    for stream in (False, True):
        response = world.post(body_for("/work", "Whom?", alias.name, stream=stream))
        assert response.status_code == 200
        payload = world.entry(response, kind="Mirror").payload
        assert SECRET not in payload
        assert "[EMAIL]" in payload or "EMAIL" in payload


def test_without_guardrails_nothing_is_looked_at():
    """Not even the caller: the snapshot's one attribute is all that a request costs."""
    exchange = Exchange(ClientConnection({}), call=Call(client=None, total_seconds=1))
    gateway = SimpleNamespace(snapshot=SimpleNamespace(guardrails=None))
    guard_request(exchange, gateway)
    repair_answer(exchange, None)
    guard_answer(exchange, None)
    assert exchange.guarding is None
    assert exchange.timings == []


def test_a_key_that_keeps_no_content_keeps_none(world, guard):
    world.provider()
    guard(action="redact")
    issued = world.new_key()
    update_key(issued.key, content_logging="none")
    response = world.post(body_for("/work", TEXT, world.model), key=issued.text)
    assert world.entry(response).payload == ""


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
