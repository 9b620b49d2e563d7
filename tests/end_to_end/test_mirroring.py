"""A share of an alias's requests goes to another target too, once they are answered."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from keys.services import delete_keys
from licensing.models import Limit
from providers.models import ModelPrice
from providers.services import update_provider
from rules.aliases.drafts import MirrorDraft, TargetDraft
from rules.aliases.services import create_alias
from telemetry.models import LogEntry
from tests.support.management import Client, new_admin
from tests.support.metrics import samples
from tests.support.pace import patience, slowness
from tests.support.provider import counts
from tests.support.provider_answers import Answer
from tests.support.streaming import arrivals
from tests.support.world import LONG_AGO

pytestmark = pytest.mark.either_store

LIMITS = ("tokens", "day", 10_000), ("cost", "month", 10_000), ("concurrent", "none", 1)
LARGE = 24 * 1024 * 1024  # more than the buffers between a gateway and a client that does not read


@pytest.fixture
def main(world):
    """The provider that serves the alias."""
    world.allow()
    return world.provider()


@pytest.fixture
def mirror(world):
    """Another one, of another model."""
    return world.provider("shadow")


@pytest.fixture
def alias(world, main, mirror):
    """Makes an alias that main serves and that the mirror gets too: alias(share=1) -> its name."""

    def make(share=1.0):
        name = world.name("alias")
        create_alias(
            name=name,
            targets=[TargetDraft(provider_id=world.row(main).pk, model=world.model)],
            mirror=MirrorDraft(world.row(mirror).pk, "shadow", share),
        )
        world._settled = False
        return name

    return make


def test_the_mirror_gets_the_same_request_and_its_answer_is_logged_beside_the_other(world, main, mirror, alias):
    world.price(1, 2)
    world.price(10, 20, model="shadow")
    main.default, mirror.default = Answer(text="Lisbon"), Answer(text="Porto", delay=0.5 * slowness())
    begun = time.monotonic()
    response = world.ask("Capital?", body={"model": alias(), "max_tokens": 7})
    assert response.json()["choices"][0]["message"]["content"] == "Lisbon"
    assert time.monotonic() - begun < 0.5 * slowness()
    body = mirror.wait_for(1)[0].json
    assert (body["model"], body["messages"], body["max_tokens"]) == ("shadow", main.seen[0].json["messages"], 7)
    own, mirrored = world.entry(response), world.entry(response, "Mirror")
    assert (own.provider_name, mirrored.provider_name) == (world.row(main).name, world.row(mirror).name)
    assert (mirrored.outcome, mirrored.user_id, mirrored.model) == ("completed", own.user_id, own.model)
    assert "Porto" in mirrored.payload
    assert mirrored.duration_ms >= 500
    assert 0 < own.cost < mirrored.cost


def test_a_stream_is_mirrored_as_a_stream(world, main, mirror, alias):
    mirror.default = Answer(text="one two three", pace=0.05)
    response = world.stream(body={"model": alias()})
    assert response.content
    entry = world.entry(response, "Mirror")
    assert (entry.stream, entry.outcome, entry.output_tokens) == (True, "completed", 3)
    assert entry.first_byte_ms < entry.duration_ms


def test_only_the_share_is_mirrored(world, main, mirror, alias):
    name = alias(0.3)
    for number in range(60):
        world.ask(f"{number}", body={"model": name})
    time.sleep(1)
    assert 6 <= counts(mirror)[0] <= 32


def test_what_the_cache_answers_and_what_fails_is_not(world, main, mirror, alias):
    name = alias()
    for _ in range(3):
        world.ask("the same", body={"model": name})
    main.answers(status=400)
    world.ask("refused", body={"model": name})
    mirror.wait_for(1)
    time.sleep(0.5)
    assert counts(mirror) == (1,)


@pytest.mark.parametrize("failure", [{"status": 500}, {"status": 429}, {"body": b"<html>"}, {"cut_after": 5}])
def test_a_mirror_that_fails_is_logged_and_nothing_else_changes(world, main, mirror, alias, failure):
    mirror.answers(**failure)
    response = world.ask(body={"model": alias()})
    assert response.status_code == 200
    assert world.entry(response, "Mirror").outcome == "failed"
    assert world.entry(response).outcome == "completed"
    assert counts(mirror) == (1,)


def test_neither_the_callers_limits_nor_metrics_of_requests_count_it(world, main, mirror, alias):
    issued, name = world.new_key(), alias()
    Limit.objects.create(key=issued.key, measure="requests", window="day", amount=3)
    responses = [world.ask(f"{number}", key=issued.text, body={"model": name}) for number in range(4)]
    assert [response.status_code for response in responses] == [200, 200, 200, 429]
    world.until(lambda: LogEntry.objects.filter(entry_type="Mirror", key_id=issued.key.pk).count() == 3)
    world.until(lambda: set(samples(world, "requests_in_flight").values()) == {0})
    served = [labels for labels in samples(world, "requests_total") if world.row(mirror).name in labels]
    assert served == []


def test_the_limits_of_its_own_provider_count_it(world, main, mirror, alias):
    Limit.objects.create(provider=world.row(mirror), measure="requests", window="day", amount=2)
    name = alias()
    responses = [world.ask(f"{number}", body={"model": name}) for number in range(4)]
    assert {response.status_code for response in responses} == {200}
    outcomes = sorted(world.entry(response, "Mirror").outcome for response in responses)
    assert outcomes == ["completed", "completed", "denied", "denied"]
    assert counts(mirror) == (2,)


@pytest.mark.parametrize(
    ("limit", "body"),
    [
        ({"measure": "cost", "amount": 1}, {}),  # and the mirror's model has no price
        ({"measure": "tokens", "amount": 100_000}, {"background": True}),
    ],
)
def test_what_the_limits_of_its_provider_cannot_count_is_not_mirrored(world, main, mirror, alias, limit, body):
    name = alias()
    ModelPrice.objects.filter(model="shadow").delete()
    Limit.objects.create(provider=world.row(mirror), window="day", **limit)
    world._settled = False
    response = world.ask("x", body={"model": name, **body})
    assert response.status_code == 200
    assert world.entry(response, "Mirror").outcome in ("denied", "failed")
    assert counts(main, mirror) == (1, 0)


def test_a_count_of_tokens_is_not_mirrored(world, mirror):
    world.allow()
    counter = world.provider(format_name="anthropic")
    counter.default = Answer(body={"input_tokens": 7})
    name = world.name("alias")
    target, shadow = TargetDraft(world.row(counter).pk, world.model), MirrorDraft(world.row(mirror).pk, "shadow", 1.0)
    create_alias(name=name, targets=[target], mirror=shadow)
    world._settled = False
    body = {"model": name, "messages": [{"role": "user", "content": "hi"}]}
    response = world.post(body, path="/v1/messages/count_tokens")
    assert (response.status_code, response.json()) == (200, {"input_tokens": 7})
    time.sleep(0.6)
    assert not LogEntry.objects.filter(
        correlation_id=response.headers["X-Svc-Request-ID"], entry_type="Mirror"
    ).exists()
    assert counts(mirror) == (0,)


def test_a_copy_that_waits_is_not_sent_for_a_key_that_is_gone(world, main, mirror, alias):
    update_provider(world.row(mirror), first_byte_timeout_seconds=8)  # else a busy machine opens the mirror's circuit
    name, mirror.default = alias(), Answer(delay=2)
    own = world.key
    world.settle()  # here: each of the threads would open a connection to the database
    with ThreadPoolExecutor(32) as pool:  # as many as are asked at once
        list(pool.map(lambda number: world.ask(f"question {number}", key=own, body={"model": name}), range(32)))
    mirror.wait_for(32)
    key = world.new_key()
    assert world.ask("the last", key=key.text, body={"model": name}).status_code == 200
    delete_keys([key.key])
    world.soon(lambda: world.ask("x", key=key.text, body={"model": name}), 401)
    mirror.default = Answer()
    assert world.ask("one more", body={"model": name}).status_code == 200
    requests = mirror.wait_for(33, 10)
    assert [one.json["messages"][0]["content"] for one in requests[32:]] == ["one more"]


def test_who_may_not_ask_the_mirror_is_not_mirrored(world, main, mirror, alias):
    name, user = alias(), world.new_user()
    key = world.new_key(owner=user).text
    world.allow(user=user, regex=f"{name}|{world.model}")
    assert world.ask(key=key, body={"model": name}).status_code == 200
    linked = world.new_key(provider=world.row(main)).text
    assert world.ask("linked", key=linked, body={"model": name}).status_code == 200
    time.sleep(0.6)
    assert counts(mirror) == (0,)


def test_a_rule_that_takes_the_mirrors_provider_out_of_the_alias_keeps_the_copy_from_it(world, main, mirror, alias):
    name = alias()
    world.allow(effect="deny", regex=name, provider=world.row(mirror))
    assert world.ask(body={"model": name}).status_code == 200
    time.sleep(0.6)
    assert counts(main, mirror) == (1, 0)


def test_a_mirror_of_an_unknown_shape_gets_the_keys_bound_whatever_the_operation_seems_to_be(world, main):
    mirror = world.provider("shadow", format_name="passthrough")
    shadow = MirrorDraft(world.row(mirror).pk, "shadow", 1.0)
    name = create_alias(name=world.name("alias"), targets=[world.target(main)], mirror=shadow).name
    key = world.new_key(max_tokens_per_request=10).text
    assert world.post({"model": name, "input": "Write a novel."}, key=key).status_code == 200
    assert mirror.wait_for(1)[0].json["max_tokens"] == 10
    assert "max_tokens" not in main.seen[0].json


def test_a_mirror_gets_nothing_that_refers_to_what_it_keeps_for_another_user(world, main):
    """The format of the target that answers keeps no containers, so that it is not asked whose this one is."""
    mirror = world.provider("shadow", format_name="openai-responses")
    mirror.default = Answer(body={"id": "resp_1", "object": "response", "status": "completed", "output": []})
    other_user = world.new_user()
    world.allow(user=other_user)
    shadow = MirrorDraft(world.row(mirror).pk, "shadow", 1.0)
    name = create_alias(name=world.name("alias"), targets=[world.target(main)], mirror=shadow).name
    tools = [{"type": "code_interpreter", "container": world.name("container")}]
    body = {"model": name, "input": "Hello!", "tools": tools}
    own = world.post(body, path="/v1/responses")
    assert world.entry(own, "Mirror").outcome == "completed"
    assert mirror.seen[0].json["tools"] == tools
    key = world.new_key(owner=other_user).text
    foreign = world.post(body | {"input": "Again!"}, path="/v1/responses", key=key)
    assert foreign.headers["X-Svc-Dropped"] == "tools.code_interpreter"
    refused = world.entry(foreign, "Mirror")
    assert (refused.status, refused.exception) == (404, "NotFound")
    assert counts(main, mirror) == (2, 1)


def test_the_mirror_is_asked_after_the_last_chunk_of_a_stream(world, main, mirror, alias):
    main.default = Answer(text="one two three four", pace=0.3)
    begun = time.monotonic()
    chunks = arrivals(world.stream(body={"model": alias()}))
    assert chunks[-1][0] >= 0.9
    ended = time.monotonic()
    (request,) = mirror.wait_for(1)
    assert request.arrived > ended > begun + 0.9


def test_the_mirror_waits_until_a_slow_client_has_been_sent_all_of_a_large_answer(world, main, mirror, alias):
    main.default = Answer(text="x" * LARGE)
    with world.send({"model": alias()}) as client:
        main.wait_for(1)
        time.sleep(1.2)
        assert counts(mirror) == (0,)
        size = 0
        while size < LARGE:
            size += len(piece := client.recv(1 << 20))
            assert piece
    mirror.wait_for(1)


def test_what_it_uses_touches_no_limit_of_key_user_or_group(world, main, mirror, alias):
    world.price(1, 1)
    world.price(1, 1, model="shadow", provider=world.row(mirror))
    group, issued, name = world.new_group(world.user), world.new_key(), alias()
    for subject in ({"key": issued.key}, {"user": world.user}, {"group": group}):
        for measure, window, amount in (
            ("tokens", "day", 10_000),
            ("cost", "month", 10_000),
            ("concurrent", "none", 1),
        ):
            Limit.objects.create(measure=measure, window=window, amount=amount, bounds_since=LONG_AGO, **subject)
    usage = {"prompt_tokens": 9_000_000_000, "completion_tokens": 9_000_000_000, "total_tokens": 18_000_000_000}
    mirror.answers(delay=1.5, usage=usage)
    first = world.ask("one", key=issued.text, body={"model": name, "max_tokens": 100})
    mirror.wait_for(1)
    while_it_works = world.ask("two", key=issued.text, body={"model": name, "max_tokens": 100})
    entry = world.entry(first, "Mirror")
    assert entry.cost > 10_000
    later = world.ask("three", key=issued.text, body={"model": name, "max_tokens": 100})
    assert [one.status_code for one in (first, while_it_works, later)] == [200] * 3


def test_usage_statistics_have_no_rows_of_it(world, main, mirror, alias):
    response = world.ask(body={"model": alias()})
    world.entry(response, "Mirror")
    admin = Client(world.gateway.url).as_user(new_admin())
    for by in ("model", "provider", "alias"):
        rows = admin.rows(f"/stats/usage/?by={by}&userId={world.user.pk}")
        assert [row["requests"] for row in rows] == [1], by
    rows = admin.rows(f"/stats/usage/?by=model&userId={world.user.pk}")
    assert [row["model"] for row in rows] == [world.model]


def test_a_slow_mirror_slows_nobody_and_does_not_pile_up(world, main, mirror, alias):
    mirror.default = Answer(delay=3)
    name, seconds = alias(), []
    for number in range(150):
        begun = time.monotonic()
        assert world.ask(f"{number}", body={"model": name}).status_code == 200
        seconds.append(time.monotonic() - begun)
    assert sorted(seconds)[140] < patience(0.5)
    assert mirror.peak_in_flight <= 32
