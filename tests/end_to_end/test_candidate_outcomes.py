"""The log entry tells of each provider with the model what became of it."""

from itertools import count

import pytest

from licensing.models import Limit
from providers.models import Provider, ProviderFormat
from tests.support.provider_answers import Answer

pytestmark = pytest.mark.either_store

SECRET = "sk-secret-of-the-provider"


@pytest.fixture
def told(world):
    """What the entry of a response says of some providers: told(response, first, second) -> [(result, detail), …]."""

    def of(response, *providers):
        entry = {name: (result, detail) for name, result, detail in world.entry(response).candidates}
        return [entry[world.row(provider).name] for provider in providers]

    return of


def test_who_answered_and_who_was_not_needed(world, pair, told):
    response = world.ask()
    assert told(response, *pair) == [("answered", ""), ("not_tried", "")]
    again = world.ask()
    assert again.headers["X-Svc-Cache"] == "HIT"
    assert told(again, *pair) == [("stored", ""), ("not_tried", "")]
    assert [name for name, _, _ in world.entry(response).candidates] == [world.row(provider).name for provider in pair]


def test_who_failed_and_how_without_its_credential(world, pair, told):
    pair[0].answers(status=401, body={"error": {"message": f"{SECRET} is not a key; and " + "x" * 500}})
    response = world.ask()
    assert response.status_code == 200
    (result, detail), second = told(response, *pair)
    assert (result, second) == ("failed", ("answered", ""))
    assert detail.startswith("ProviderError: ")
    assert SECRET not in detail
    assert len(detail) <= 200


def test_who_rejected_it_was_the_last_one_asked(world, pair, told):
    pair[0].answers(status=400)
    (result, detail), second = told(world.ask(), *pair)
    assert (result, second) == ("failed", ("not_tried", ""))
    assert detail.startswith("ProviderRejected: ")


def test_a_stream_that_broke_and_one_whose_client_left(world, provider, told):
    provider.answers(text="one two three", no_terminal=True)
    broken = world.stream()
    assert broken.content
    assert told(broken, provider)[0][0] == "failed"
    provider.answers(silent=True)
    client = world.send({"stream": True}, head="X-Svc-Request-ID: left-early\r\nX-Svc-Cache: bypass")
    world.until(lambda: len(provider.seen) == 2)
    client.close()
    assert told("left-early", provider)[0][0] == "interrupted"


def test_who_rests_after_failures(world, pair, told):
    pair[0].default = Answer(status=500)
    prompts = map(str, count())
    assert told(world.ask(next(prompts)), *pair)[0][0] == "failed"
    world.until(lambda: told(world.ask(next(prompts)), *pair) == [("resting", ""), ("answered", "")])


SOUND = {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}}


def test_a_request_is_not_wrong_while_the_one_that_can_take_it_rests(world):
    world.allow()
    able, unable = world.provider(priority=1), world.provider(priority=2, format_name="anthropic")
    able.answers(status=429, headers={"Retry-After": "60"})
    prompts = map(str, count())

    def ask(*parts):
        content = [{"type": "text", "text": next(prompts)}, *parts]
        return world.post({"model": world.model, "messages": [{"role": "user", "content": content}]})

    assert ask(SOUND).status_code == 429
    response = ask(SOUND)
    assert (response.status_code, response.json()["exception"]) == (429, "ProviderOverloaded")
    assert 50 < int(response.headers["Retry-After"]) <= 60
    entry = world.entry(response)
    assert [result for _, result, _ in entry.candidates] == ["unfit", "resting"]
    assert (entry.provider_name, len(able.seen), len(unable.seen)) == ("", 1, 0)
    assert ask({"type": "video"}).status_code == 429
    unable.answers(status=503)
    assert ask().status_code == 503


def test_a_request_that_none_can_take_is_wrong_although_one_rests(world):
    world.allow()
    first, _ = (world.provider(priority=number, format_name="anthropic") for number in range(2))
    first.answers(status=503, headers={"Retry-After": "60"})
    assert world.ask(body={"max_tokens": 5}).status_code != 400
    messages = [{"role": "user", "content": [SOUND]}]
    response = world.post({"model": world.model, "messages": messages})
    assert (response.status_code, response.json()["exception"]) == (400, "ValidationError")


def test_whose_limits_have_no_room(world, pair, told):
    Limit.objects.create(measure="requests", window="day", amount=1, provider=world.row(pair[0]))
    world.settle()
    responses = [world.ask(str(number)) for number in range(3)]
    assert [told(response, *pair)[0] for response in responses] == [("answered", ""), ("full", ""), ("full", "")]


def test_whom_the_rules_the_request_and_the_version_leave_out(world, told):
    allowed, other, strange = world.provider(), world.provider(), world.provider()
    world.allow(provider=world.row(allowed))
    assert told(world.ask(), allowed, other) == [("answered", ""), ("not_allowed", "")]
    elsewhere = world.ask(headers={"X-Svc-Provider": world.row(other).name})
    assert elsewhere.status_code == 403
    assert told(elsewhere, allowed, other) == [("not_wanted", ""), ("not_allowed", "")]
    world.allow()
    future = ProviderFormat.objects.create(name=world.name("of-the-future"))
    Provider.objects.filter(pk=world.row(strange).pk).update(format=future)
    world.settle()
    response = world.ask(headers={"X-Svc-Provider": world.row(strange).name})
    assert response.status_code == 400
    result, detail = told(response, strange)[0]
    assert result == "unfit"
    assert "of-the-future" in detail


def test_a_request_that_nobody_was_looked_for_and_other_entries_have_none(world, provider):
    assert world.entry(world.ask(key="svc_nobody")).candidates == []
    provider.default = Answer(status=500)
    response = world.ask()
    assert [result for _, result, _ in world.entry(response).candidates] == ["failed"]
    assert world.entry(response, kind="Message").candidates is None
