"""Guardrails on the path of requests and answers, through running gateways."""

import json
from types import SimpleNamespace

import pytest

from gateway_project.work.exchange import Exchange
from gateway_project.work.stages.guardrails import guard_answer, guard_request
from gateway_project.work.stages.repair import repair_answer
from gateway_project.work.streaming.stream import ClientConnection
from keys.services import update_key
from providers.transport.calls import Call
from rules.aliases.drafts import MirrorDraft
from rules.guardrails.services import update_guardrail
from tests.support.guardrail_path import DOORS, SECRET, TEXT, ask, body_for, row_of, text_of_events

pytestmark = pytest.mark.either_store


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


@pytest.mark.parametrize("path", DOORS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_placeholder_goes_to_the_provider_and_the_original_to_the_client(world, guard, path, stream):
    provider = world.provider()
    provider.default.text = "Write to <EMAIL_1> today."
    guard(direction="request", action="redact", parameters={"kinds": ["email"], "placeholders": True})
    response = ask(world, path, stream=stream)
    assert response.status_code == 200, response.text
    assert SECRET in (text_of_events(response.content) if stream else response.text)
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
            text = text_of_events(response.content) if stream else response.text
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
