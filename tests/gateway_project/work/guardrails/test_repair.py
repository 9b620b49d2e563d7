"""The model is asked once more for an answer that is not the JSON that a guardrail wants."""

import json
from decimal import Decimal

import pytest

from keys.services import update_key
from rules.guardrails.services import create_guardrail, delete_guardrail
from tests.support.guardrail_path import body_for, row_of, text_of_events
from tests.support.limiting import bypass, left, limited

pytestmark = pytest.mark.either_store

SCHEMA = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}
VALID, INVALID, FENCED = '{"city": "Lisbon"}', '{"town": "Lisbon"}', "Here you are: Lisbon."
DOORS = ["/work", "/v1/chat/completions", "/v1/responses", "/v1/messages"]
USAGE = {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30}
PROMPT = "Where?"


@pytest.fixture
def guard(world, request):
    def make(**options):
        parameters = {"schema": SCHEMA, "repair": True} | options.pop("parameters", {})
        options = {"applies_to": {"users": [world.user.pk]}, "type": "json", "parameters": parameters} | options
        row = create_guardrail(name=world.name("guardrail"), **options)
        request.addfinalizer(lambda: delete_guardrail(row))
        world._settled = False
        return row

    world.allow()
    return make


def ask(world, path="/work", prompt=PROMPT, **options):
    headers = options.pop("headers", None)
    return world.post(body_for(path, prompt, world.model, **options), path=path, headers=headers)


def calls_of(entry):
    return [(call[4], call[5], call[9]) for call in entry.provider_calls]


@pytest.mark.parametrize("path", DOORS)
@pytest.mark.parametrize(("text", "problem"), [(FENCED, "not JSON"), (INVALID, '"city" is a required property')])
def test_a_valid_second_answer_is_delivered_and_both_are_billed(world, guard, path, text, problem):
    world.price(1, 2)
    provider = world.provider()
    provider.answers(text=text, usage=USAGE).answers(text=VALID, usage=USAGE)
    guardrail = guard()
    response = ask(world, path)
    assert response.status_code == 200, response.text
    assert "town" not in response.text
    assert "Lisbon" in response.text
    first, second = provider.wait_for(2)
    before, answer, question = second.json["messages"]
    assert first.json["messages"] == [before]
    assert answer == {"role": "assistant", "content": text}
    assert question["role"] == "user"
    assert problem in str(question["content"])
    assert first.json["model"] == second.json["model"]
    entry = world.entry(response)
    assert (entry.outcome, entry.attempts, entry.input_tokens, entry.output_tokens) == ("completed", 2, 20, 40)
    assert entry.cost == Decimal("0.0001")
    assert [(status, cause, Decimal(cost)) for status, cause, cost in calls_of(entry)] == [
        (200, "", Decimal("0.00005")), (200, "", Decimal("0.00005")),
    ]  # fmt: skip
    row = row_of(world, response, "response")
    assert (row["id"], row["result"], row["repaired"]) == (guardrail.pk, "passed", True)
    assert "town" not in entry.payload
    assert json.loads(entry.payload)["request"]["model"] == world.model
    assert "Send the whole answer again" not in entry.payload


def test_the_second_answer_is_cached_and_needs_no_repair(world, guard):
    provider = world.provider()
    provider.answers(text=FENCED).answers(text=VALID)
    guard()
    assert ask(world).status_code == 200
    again = ask(world)
    assert again.headers["X-Svc-Cache"] == "HIT"
    assert "Lisbon" in again.text
    assert len(provider.seen) == 2
    assert "repaired" not in row_of(world, again, "response")


@pytest.mark.parametrize("second", [{"text": ""}, {"body": {"choices": []}}])
def test_the_first_answer_stays_where_the_second_has_no_text(world, guard, second):
    provider = world.provider()
    provider.answers(text=FENCED).answers(**second)
    guard(action="monitor")
    response = ask(world)
    assert FENCED in response.text
    assert row_of(world, response, "response")["repaired"] is False


def other_user(world):
    """A user without guardrails, whose answers are cached for the world's user, too."""
    user = world.new_user()
    world.allow(user=user)
    return world.new_key(owner=user).text


def test_a_cached_answer_that_is_not_valid_is_asked_for_anew(world, guard):
    provider = world.provider()
    provider.answers(text=INVALID).answers(text=VALID)
    body, key = body_for("/work", PROMPT, world.model), other_user(world)
    assert "town" in world.post(body, key=key).text
    guardrail = guard()
    response = world.post(body)
    assert response.status_code == 200, response.text
    assert response.headers["X-Svc-Cache"] == "MISS"
    assert "Lisbon" in response.text
    assert len(provider.seen) == 2
    row = row_of(world, response, "response")
    assert (row["id"], row["result"]) == (guardrail.pk, "passed")
    for again in (world.post(body), world.post(body, key=key)):  # the valid one is in its place
        assert again.headers["X-Svc-Cache"] == "HIT"
        assert "town" not in again.text
    assert len(provider.seen) == 2


def test_what_is_asked_for_anew_is_repaired_once_more_and_counted(world, guard):
    provider = world.provider()
    provider.answers(text=INVALID).answers(text=INVALID, usage=USAGE).answers(text=VALID, usage=USAGE)
    body = body_for("/work", PROMPT, world.model)
    world.post(body, key=other_user(world))
    guard()
    response = world.post(body)
    assert response.status_code == 200, response.text
    assert len(provider.seen) == 3
    assert row_of(world, response, "response")["repaired"] is True
    entry = world.entry(response)
    assert (entry.entry_source, entry.cache_status, entry.attempts, entry.input_tokens) == ("Worker", "MISS", 2, 20)


@pytest.mark.parametrize(("measure", "window", "policy", "used"), [
    ("requests", "month", "key-month", 1), ("tokens", "month", "key-tokens-month", 30),
])  # fmt: skip
def test_what_is_asked_for_anew_counts_once_in_each_limit(world, guard, measure, window, policy, used):
    provider = world.provider()
    provider.answers(text=INVALID, usage=USAGE).answers(text=VALID, usage=USAGE)
    body = body_for("/work", PROMPT, world.model)
    world.post(body, key=other_user(world))
    guard()
    response = world.post(body, key=limited(world, measure, window, 100_000))
    assert response.status_code == 200, response.text
    assert len(provider.seen) == 2
    assert left(response, policy) == 100_000 - used


def test_a_cached_answer_is_judged_as_it_is_where_nothing_may_be_asked(world, guard):
    provider = world.provider()
    provider.default.text = INVALID
    body, key = body_for("/work", PROMPT, world.model), other_user(world)
    world.post(body, key=key)
    stream = {**body, "stream": True}
    world.post(stream, key=key)
    guard()
    for question, headers in ((body, {"X-Svc-Cache": "only"}), (stream, None)):
        response = world.post(question, headers=headers)
        assert response.json()["exception"] == "GuardrailBlocked", response.text
        assert "town" not in response.text
    assert len(provider.seen) == 2


def test_the_question_reaches_no_log_and_no_error(world, guard):
    """The model has to know what is wrong; what a provider says of the question is not the caller's."""
    provider = world.provider()
    echo = {"error": {"message": 'I was asked: "city" is a required property. Send the whole answer again.'}}
    provider.answers(text=INVALID, usage=USAGE).answers(status=400, body=echo)
    guard()
    response = ask(world)
    assert "required property" in str(provider.wait_for(2)[1].json["messages"])
    entry = world.entry(response)
    stored = " ".join(str(getattr(entry, field.attname)) for field in entry._meta.fields)
    for text in (response.text, stored):
        assert "required property" not in text
        assert "whole answer again" not in text


@pytest.mark.parametrize(("action", "status", "result"), [
    ("block", 400, "blocked"), ("redact", 200, "redacted"), ("monitor", 200, "monitored"),
])  # fmt: skip
def test_the_action_applies_to_the_first_answer_if_the_second_is_no_better(world, guard, action, status, result):
    world.price(1, 2)
    provider = world.provider()
    provider.answers(text="The first one.", usage=USAGE).answers(text="The second one.", usage=USAGE)
    guard(action=action)
    response = ask(world)
    assert response.status_code == status, response.text
    assert len(provider.seen) == 2
    assert ("The first one." in response.text) == (action == "monitor")
    assert "The second one." not in response.text
    entry = world.entry(response)
    assert (entry.input_tokens, entry.output_tokens, entry.cost) == (20, 40, Decimal("0.0001"))
    row = row_of(world, response, "response")
    assert (row["result"], row["repaired"]) == (result, False)


def test_a_second_answer_that_fails_is_an_attempt_that_failed(world, guard):
    world.price(1, 2)
    provider = world.provider()
    provider.answers(text=FENCED, usage=USAGE).answers(status=400, body={"error": {"message": "too long"}})
    guard(action="monitor")
    response = ask(world)
    assert response.status_code == 200
    assert FENCED in response.text
    entry = world.entry(response)
    assert (entry.input_tokens, entry.output_tokens, entry.cost) == (10, 20, Decimal("0.00005"))
    (status, cause, cost), (second_status, second_cause, second_cost) = calls_of(entry)
    assert (status, cause, Decimal(cost)) == (200, "", Decimal("0.00005"))
    assert (second_status != 200, second_cause != "", Decimal(second_cost)) == (True, True, 0)


def test_it_takes_no_longer_than_the_request_may(world, guard):
    provider = world.provider()
    provider.answers(text=FENCED).answers(text=VALID, delay=20)
    guard()
    response = ask(world, headers={"X-Svc-Timeout": "2"})
    assert response.status_code == 400
    assert response.json()["exception"] == "GuardrailBlocked"
    assert response.elapsed.total_seconds() < 10
    assert row_of(world, response, "response")["repaired"] is False


def test_limits_count_both_answers(world, guard):
    provider = world.provider()
    provider.answers(text=FENCED, usage=USAGE).answers(text=VALID, usage=USAGE)
    guard()
    response = bypass(world, limited(world, "tokens", "month", 100_000))
    assert response.status_code == 200, response.text
    assert left(response, "key-tokens-month") == 100_000 - 60


@pytest.mark.parametrize(("path", "members"), [
    ("/work", {"stream": True}), ("/v1/chat/completions", {"stream": True}), ("/v1/completions", {}),
])  # fmt: skip
def test_streams_and_text_completions_are_not_repaired(world, guard, path, members):
    provider = world.provider()
    provider.default.text = FENCED
    guard()
    response = ask(world, path, **members)
    assert len(provider.seen) == 1
    assert FENCED not in (text_of_events(response.content) if members else response.text)
    row = row_of(world, response, "response")
    assert row["result"] == "blocked"
    assert "repaired" not in row


def test_a_valid_answer_and_one_that_calls_a_tool_are_not_asked_for_again(world, guard):
    provider = world.provider()
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    message = {"role": "assistant", "content": "I look it up.", "tool_calls": [call]}
    provider.answers(text=VALID).answers(
        body={"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}], "usage": USAGE}
    )
    guard(action="monitor")
    assert ask(world).status_code == 200
    assert ask(world, prompt="And where?").status_code == 200
    assert len(provider.seen) == 2


def test_without_repair_a_model_is_asked_once(world, guard):
    provider = world.provider()
    provider.default.text = FENCED
    guard(parameters={"repair": False})
    assert ask(world).status_code == 400
    assert len(provider.seen) == 1


def test_a_key_without_content_keeps_neither_answer(world, guard):
    provider = world.provider()
    provider.answers(text=FENCED).answers(text=VALID)
    guard()
    update_key(world.issued.key, content_logging="none")
    world._settled = False
    assert world.entry(ask(world)).payload == ""


def test_an_explanation_says_that_a_model_may_be_asked_once_more(world, guard):
    world.provider()
    guardrail = guard()
    sentence = f"The model would be asked once more if the guardrail {guardrail.name} refuses its answer."
    for stream in (False, True):
        explained = ask(world, "/work?explain=true", stream=stream).json()["data"]
        assert [row["repairs"] for row in explained["guardrails"]] == [True]
        assert (sentence in explained["sentences"]) == (not stream)
