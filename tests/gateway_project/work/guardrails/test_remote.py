"""Guardrails that ask a service over HTTP, or a model of a provider."""

import base64
import hashlib
import hmac
import threading
import time
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from gateway_project.errors import ProviderError, ValidationError
from gateway_project.work.guardrails.book import Audience, GuardrailSnapshot
from gateway_project.work.guardrails.remote.asking import (
    MAX_ANSWER_BYTES,
    MAX_CALLS,
    MAX_QUESTION_BYTES,
    RemoteGuardrails,
    ServiceClients,
)
from gateway_project.work.guardrails.remote.services import Question, Service
from rules.guardrails.services import create_guardrail, delete_guardrail, update_guardrail
from tests.support.guardrail_path import body_for, row_of, text_of_events
from tests.support.provider import ScriptedProvider

pytestmark = pytest.mark.either_store

SECRET = base64.b64encode(b"a secret of 24 bytes ...").decode()


@pytest.fixture
def service():
    with ScriptedProvider() as running:
        running.default.body = {"action": "allow"}
        yield running


@pytest.fixture
def guard(world, service, request):
    def make(**options):
        parameters = {"url": f"{service.url}/check", "secret": f"whsec_{SECRET}", "timeoutSeconds": 1}
        own = options.pop("parameters", {})
        parameters = parameters | own if options.get("type", "http") == "http" else own
        options = {"applies_to": {"users": [world.user.pk]}, "type": "http", "parameters": parameters} | options
        row = create_guardrail(name=world.name("guardrail"), **options)
        request.addfinalizer(lambda: delete_guardrail(row))
        world._settled = False
        return row

    world.allow()
    return make


def ask(world, prompt="Some words.", **members):
    return world.post(body_for("/work", prompt, world.model, **members))


def test_a_signed_request_says_what_is_asked(world, guard, service):
    world.provider()
    guardrail = guard(direction="request")
    response = ask(world)
    assert response.status_code == 200
    (request,) = service.wait_for(1)
    assert request.json == {
        "direction": "request", "texts": ["Some words."], "model": world.model, "userId": world.user.pk,
        "keyId": world._key.key.pk, "requestId": response.headers["X-Svc-Request-ID"],
    }  # fmt: skip
    signed = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + request.body
    digest = hmac.digest(base64.b64decode(SECRET), signed, hashlib.sha256)
    assert request.headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
    assert abs(int(request.headers["webhook-timestamp"]) - time.time()) < 60
    assert guardrail.pk == row_of(world, response)["id"]
    assert row_of(world, response)["result"] == "passed"


def test_it_gets_each_header_once(world, guard, service):
    """Servers that join headers with the same name cannot tell that the body is JSON."""
    world.provider()
    guard(direction="request")
    ask(world)
    (request,) = service.wait_for(1)
    assert [value for name, value in request.raw_headers if name.lower() == "content-type"] == ["application/json"]
    assert len(request.headers) == len(request.raw_headers)


def test_each_question_has_an_id_of_its_own(world, guard, service):
    """Who reads webhooks takes a second one with the same id for the first one, sent again."""
    world.provider()
    guard()
    ask(world)
    request, answer = service.wait_for(2)
    assert [request.json["direction"], answer.json["direction"]] == ["request", "response"]
    assert request.headers["webhook-id"] != answer.headers["webhook-id"]


def test_it_blocks_with_its_reason(world, guard, service):
    provider = world.provider()
    guard(direction="request")
    service.default.body = {"action": "block", "reason": "weapons"}
    response = ask(world)
    assert response.status_code == 400
    assert "weapons" in response.json()["message"]
    assert provider.seen == []
    assert row_of(world, response)["counts"] == {"weapons": 1}


def test_it_replaces_texts_of_requests_and_whole_answers(world, guard, service):
    provider = world.provider()
    provider.default.text = "An answer."
    guard(action="redact")
    service.answers(body={"action": "replace", "texts": ["Other words."]})
    service.answers(body={"action": "replace", "texts": ["Another answer."]})
    response = ask(world)
    assert provider.wait_for(1)[0].json["messages"][0]["content"] == "Other words."
    assert response.json()["choices"][0]["message"]["content"] == "Another answer."
    assert "Some words" not in world.entry(response).payload
    assert "An answer" not in world.entry(response).payload


def test_questions_that_it_refuses_do_not_keep_it_from_being_asked_about_others(world, guard, service):
    """Otherwise whoever sends texts that it refuses switches it off for all."""
    world.provider()
    guard(direction="request")
    for status in (400, 413, 422) * 2:
        service.answers(status=status)
        assert row_of(world, ask(world))["result"] == "failed"
    service.default.body = {"action": "block", "reason": "weapons"}
    assert ask(world).status_code == 400


@pytest.mark.parametrize("fail_mode", ["open", "closed"])
def test_what_happens_while_it_cannot_be_asked(world, guard, service, fail_mode):
    world.provider()
    guard(direction="request", fail_mode=fail_mode)
    for script in ({"status": 500}, {"body": b"no JSON"}, {"body": {"action": "dance"}}, {"silent": True}):
        service.answers(**script)
        response = ask(world)
        assert response.status_code == (400 if fail_mode == "closed" else 200), response.text
        assert row_of(world, response)["result"] == ("blocked" if fail_mode == "closed" else "failed")


def test_who_keeps_failing_is_not_asked_for_a_while(world, guard, service):
    world.provider()
    guard(direction="request")
    service.default.status = 500
    for _ in range(8):
        assert ask(world).status_code == 200
    assert len(service.seen) < 8


def test_a_question_and_an_answer_may_have_so_many_bytes(world, guard, service):
    world.provider()
    guard(direction="request", fail_mode="closed", parameters={"timeoutSeconds": 10})
    longest = "x" * (MAX_QUESTION_BYTES - 1000)
    assert ask(world, prompt=longest).status_code == 200
    response = ask(world, prompt=longest + "x" * 1000)
    assert (response.status_code, row_of(world, response)["counts"]) == (400, {"unavailable": 1})
    assert len(service.seen) == 1
    for size, status in ((MAX_ANSWER_BYTES - 1000, 200), (MAX_ANSWER_BYTES + 1000, 400)):
        service.answers(body={"action": "allow", "more": "x" * size})
        assert ask(world).status_code == status, size
    assert len(service.seen) == 3


class SlowService:
    """In the place of the transport: it answers nobody until all are let go."""

    def __init__(self):
        self.calls, self.release = 0, threading.Event()
        self._lock = threading.Lock()

    def send(self, *_, **__):
        with self._lock:
            self.calls += 1
        self.release.wait(10)
        raise ProviderError("no answer")


def test_so_many_are_asked_at_one_moment():
    slow, services = SlowService(), RemoteGuardrails()
    watcher = SimpleNamespace(watch_call=lambda call: nullcontext())
    question = Question("request", ["Some words."], "m", 1, None, "r")
    guardrails = [
        GuardrailSnapshot(
            number, f"g{number}", 1, "block", "", None, Audience(everyone=True),
            service=Service((number, 0), f"http://{number}.example", "", 5.0),
        )
        for number in range(2 * MAX_CALLS)
    ]  # fmt: skip
    answers = []
    means = ServiceClients(slow, watcher, None)
    threads = [
        threading.Thread(target=lambda one=one: answers.extend(services.ask(means, [one], question)))
        for one in guardrails
    ]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 10
    while len(answers) < MAX_CALLS and time.monotonic() < until:
        time.sleep(0.01)
    assert (slow.calls, len(answers)) == (MAX_CALLS, MAX_CALLS)
    assert all(answer.verdict.has_failed for answer in answers)
    slow.release.set()
    for thread in threads:
        thread.join()
    services.stop()


def test_several_are_asked_at_once(world, guard, service):
    world.provider()
    service.default.delay = 0.5
    for _ in range(3):
        guard(direction="request")
    ask(world)
    assert len(service.seen) == 3
    arrivals = [request.arrived for request in service.seen]
    assert max(arrivals) - min(arrivals) < 0.5


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_what_only_records_is_asked_while_the_provider_works(world, guard, service, stream):
    world.provider().default.delay = 1
    service.default.body = {"action": "block", "reason": "weapons"}
    service.default.delay = 1
    guard(direction="request", action="monitor", parameters={"timeoutSeconds": 3})
    world.settle()
    start = time.monotonic()
    response = ask(world, stream=stream)
    assert response.status_code == 200
    assert time.monotonic() - start < 1.9  # one after the other, they would take two seconds
    row = row_of(world, response)
    assert (row["result"], row["counts"]) == ("monitored", {"weapons": 1})
    assert row["milliseconds"] >= 1000


def test_what_only_records_has_its_own_time(world, guard, service):
    world.provider()
    service.default.silent = True
    guard(direction="request", action="monitor", fail_mode="closed", parameters={"timeoutSeconds": 0.5})
    start = time.monotonic()
    response = ask(world)
    assert response.status_code == 200
    assert time.monotonic() - start < 2
    assert row_of(world, response)["counts"] == {"unavailable": 1}


def test_what_only_records_holds_no_stream(world, guard, service):
    provider = world.provider()
    words = ["one ", "two ", "three ", "four."]
    provider.default.stream = [{"choices": [{"index": 0, "delta": {"content": word}}]} for word in words]
    provider.default.silent_after = len(words) - 1  # the rest never comes
    guard(direction="response", action="monitor")
    guard(direction="response", action="redact", type="words", parameters={"words": ["two"]})
    with world.stream("Count.") as response:
        events = b""
        for chunk in response.iter_content(None):
            events += chunk
            if b"three " in events:
                break
    assert text_of_events(events) == "one [WORDS] three "


def test_all_of_a_stream_is_recorded(world, guard, service):
    world.provider().default.text = "An answer in several words."
    guard(direction="response", action="monitor")
    service.default.body = {"action": "block", "reason": "weapons"}
    response = ask(world, stream=True)
    assert text_of_events(response.content) == "An answer in several words."
    assert service.wait_for(1)[0].json["texts"] == ["An answer in several words."]
    row = row_of(world, response, "response")
    assert (row["result"], row["counts"]) == ("monitored", {"weapons": 1})


def test_a_stream_is_judged_before_any_of_it_is_passed_on(world, guard, service):
    world.provider().default.text = "An answer in several words."
    guard(direction="response")
    response = ask(world, stream=True)
    assert text_of_events(response.content) == "An answer in several words."
    assert service.seen[0].json["texts"] == ["An answer in several words."]
    service.default.body = {"action": "block", "reason": "weapons"}
    response = ask(world, prompt="More words.", stream=True)
    assert text_of_events(response.content) == ""
    assert b"GuardrailBlocked" in response.content
    assert world.entry(response).outcome == "blocked"


def test_the_model_of_a_provider_judges(world, guard, service):
    world.provider()
    moderation = world.provider("moderation")
    moderation.default.body = {"results": [{"flagged": True, "categories": {"violence": True, "hate": False}}]}
    row = world.row(moderation)
    parameters = {"provider": row.pk, "model": "moderation"}
    guardrail = create_guardrail(
        name=world.name("guardrail"), type="provider", parameters=parameters, direction="request",
        applies_to={"users": [world.user.pk]},
    )  # fmt: skip
    try:
        world._settled = False
        response = ask(world)
        assert response.status_code == 400
        assert "violence" in response.json()["message"]
        (request,) = moderation.wait_for(1)
        assert request.path == "/v1/moderations"
        assert request.json == {"model": "moderation", "input": ["Some words."]}
        assert request.headers["authorization"] == "Bearer sk-secret-of-the-provider"
        update_guardrail(guardrail, parameters={**parameters, "categories": ["hate"]})
        world.settle()
        assert ask(world).status_code == 200
    finally:
        delete_guardrail(guardrail)


def test_an_explanation_asks_nobody(world, guard, service):
    world.provider()
    guardrail = guard(direction="request")
    body = body_for("/work", "Some words.", world.model)
    explained = world.post(body, path="/work?explain=true").json()["data"]
    assert explained["allowed"]
    assert [(row["id"], row["result"]) for row in explained["guardrails"]] == [(guardrail.pk, None)]
    assert service.seen == []


def test_the_secret_is_sealed_and_masked(world, guard, service):
    guardrail = guard()
    guardrail.refresh_from_db()
    assert "secret" not in guardrail.parameters
    assert SECRET not in guardrail.credential
    assert guardrail.opened_secret() == f"whsec_{SECRET}"
    shown = guardrail.shown_parameters
    assert shown["secret"] == f"…{SECRET[-4:]}"
    update_guardrail(guardrail, parameters={**shown, "timeoutSeconds": 3})
    guardrail.refresh_from_db()
    assert guardrail.opened_secret() == f"whsec_{SECRET}"
    with pytest.raises(ValidationError, match="sent again"):
        update_guardrail(guardrail, parameters={**shown, "url": "https://elsewhere.example/check"})
    update_guardrail(guardrail, parameters={"url": shown["url"]})
    assert guardrail.opened_secret() == ""


@pytest.mark.parametrize(
    ("type", "parameters", "field"),
    [
        ("http", {}, "parameters.url"),
        ("http", {"url": "ftp://example.com"}, "parameters.url"),
        ("http", {"url": "https://user@example.com"}, "parameters.url"),
        ("http", {"url": "https://example.com", "timeoutSeconds": 31}, "parameters.timeoutSeconds"),
        ("http", {"url": "https://example.com", "timeoutSeconds": True}, "parameters.timeoutSeconds"),
        ("http", {"url": "https://example.com", "secret": 5}, "parameters.secret"),
        ("http", {"url": "https://example.com", "method": "GET"}, "parameters.method"),
        ("provider", {"model": "m"}, "parameters.provider"),
        ("provider", {"provider": 10**9, "model": "m"}, "parameters.provider"),
        ("provider", {"provider": 1}, "parameters.model"),
    ],
)
def test_a_wrong_parameter_is_named(orm, type, parameters, field):
    with pytest.raises(ValidationError) as error:
        create_guardrail(name="wrong", type=type, parameters=parameters)
    assert error.value.field == field
