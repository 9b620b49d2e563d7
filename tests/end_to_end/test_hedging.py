"""A second target is asked when the first is slower than usual."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from decimal import Decimal

import pytest

from licensing.models import Limit
from rules.aliases.drafts import TargetDraft
from rules.aliases.services import create_alias
from tests.support.limiting import limited
from tests.support.pace import patience
from tests.support.promises import promise
from tests.support.provider import counts
from tests.support.provider_answers import Answer
from tests.support.running import RunningGateway
from tests.support.streaming import arrivals, opening_first, text
from tests.support.world import World

pytestmark = pytest.mark.either_store


@pytest.fixture(scope="module")
def hedging_gateway(store, tmp_path_factory):
    """Hedges come out of the budget of retries, which never ends here."""
    environ = {"GATEWAY_RETRY_PERCENT": "100", "GATEWAY_HEARTBEAT": "1"}
    with RunningGateway(store, tmp_path_factory.mktemp("hedging"), **environ) as running:
        yield running


@pytest.fixture
def world(hedging_gateway, orm):
    with ExitStack() as resources:
        yield World(hedging_gateway, resources)


@pytest.fixture
def first(world):
    world.allow()
    return world.provider(first_byte_timeout_seconds=5, idle_timeout_seconds=10)


@pytest.fixture
def second(world):
    return world.provider(idle_timeout_seconds=10)


@pytest.fixture
def alias(world, first, second):
    """An alias that asks `first` and hedges with `second`; it knows how fast the first is."""
    name = make_alias(world, first, second)
    learn(world, name)
    first.reset()
    second.reset()
    return name


def make_alias(world, first, second, *, hedge=True):
    name = world.name("alias")
    targets = [TargetDraft(world.row(one).pk, world.model, tier=tier) for tier, one in enumerate((first, second))]
    create_alias(name=name, targets=targets, hedge=hedge)
    world._settled = False
    return name


def learn(world, name, *, stream=False, times=25):
    """Requests to the first target, which is fast."""
    for number in range(times):
        response = (world.stream if stream else world.ask)(f"{time.monotonic()} {number}", body={"model": name})
        assert response.content


def text_of(response):
    return response.json()["choices"][0]["message"]["content"]


def attempts_of(entry):
    """Provider and cause of each attempt."""
    return [(attempt[1], attempt[5]) for attempt in entry.provider_calls]


def test_the_second_serves_when_the_first_is_slow_and_the_first_is_cancelled(world, first, second, alias):
    world.price(1000, 2000)
    world.settle()
    first.default, second.default = Answer(text="late", delay=4), Answer(text="soon")
    begun = time.monotonic()
    response = world.ask(body={"model": alias})
    assert text_of(response) == "soon"
    assert time.monotonic() - begun < patience(1.5)
    assert response.headers["X-Svc-Provider"] == world.row(second).name
    assert response.headers["X-Svc-Attempts"] == "2"
    first.seen[0].wait_closed(2)
    entry = world.entry(response)
    assert (entry.outcome, entry.attempts, entry.failed_attempts) == ("completed", 2, None)
    assert attempts_of(entry) == [(world.row(first).name, "interrupted"), (world.row(second).name, "")]
    loser, winner = (Decimal(attempt[9]) for attempt in entry.provider_calls)
    assert loser > 0
    assert winner > 0
    assert (entry.cost, entry.cost_status) == (loser + winner, "estimated")
    outcomes = {name: result for name, result, _ in entry.candidates}
    assert outcomes == {world.row(first).name: "interrupted", world.row(second).name: "answered"}


@pytest.mark.parametrize("subject", ["key", "user", "group"])
@promise("A strict limit is never exceeded", target="the largest use has to fit", suite="attack")
def test_under_a_strict_limit_one_answer_is_bought(world, first, second, alias, subject):
    first.default, second.default = Answer(text="late", delay=1), Answer(text="soon")
    key = limited(world, "tokens", "day", 1000, subject, is_strict=True)
    response = world.ask(body={"model": alias, "max_tokens": 10}, key=key, headers={"X-Svc-Cache": "bypass"})
    assert text_of(response) == "late"
    assert (len(first.seen), second.seen) == (1, [])


@pytest.mark.parametrize("price", [None, {"currency": "EUR"}], ids=["none", "another currency"])
def test_a_loser_whose_cost_cannot_be_added_leaves_an_estimate(world, first, second, alias, price):
    world.price(1000, 2000, provider=world.row(second))
    if price is not None:
        world.price(1000, 2000, provider=world.row(first), **price)
    world.settle()
    first.default, second.default = Answer(text="late", delay=4), Answer(text="soon")
    entry = world.entry(world.ask(body={"model": alias}))
    loser, winner = entry.provider_calls
    assert (loser[9] is None) is (price is None)
    assert (winner[11], entry.cost_status, entry.cost) == ("known", "estimated", Decimal(winner[9]))


def test_a_stream_is_hedged_up_to_its_first_byte(world, first, second, alias):
    learn(world, alias, stream=True)
    first.default = Answer(text="late late", delay=4)
    second.default = Answer(text="soon and whole", pace=0.05)
    response = world.stream(body={"model": alias})
    assert b"soon" in (content := response.content)
    assert b"whole" in content
    assert b"late" not in content
    entry = world.entry(response)
    assert (entry.outcome, entry.provider_name, entry.attempts) == ("completed", world.row(second).name, 2)


@pytest.mark.parametrize(
    "silence",
    [
        {"silent_after": 0},
        {"stream": opening_first("late"), "pace": 4},
        {"stream": [": keep-alive\n\n"] * 20, "pace": 0.2},
        {"stream": opening_first("late")[:1], "silent_after": 1},
    ],
    ids=["nothing", "opening", "keep-alives", "opening-and-nothing"],
)
def test_a_stream_without_a_text_has_not_begun(world, first, second, alias, silence):
    """The second answers after the moment at which the first would get its heartbeat."""
    learn(world, alias, stream=True)
    first.default = Answer(**silence)
    second.default = Answer(stream=opening_first("soon"), pace=1.5)
    response = world.stream(body={"model": alias})
    assert text(response.content) == "soon"
    entry = world.entry(response)
    assert (entry.outcome, entry.provider_name, entry.attempts) == ("completed", world.row(second).name, 2)


def test_a_stream_that_opens_at_once_is_hedged_by_its_first_text(world, first, second):
    """What is usual is the time to the first text, not to the event that opens an answer."""
    alias = make_alias(world, first, second)
    first.default = Answer(stream=opening_first("soon"), pace=0.3)
    learn(world, alias, stream=True)
    assert counts(first, second) == (25, 0)
    first.default = Answer(stream=opening_first("usual"), pace=0.25)
    assert text(world.stream(body={"model": alias}).content) == "usual"
    assert counts(second) == (0,)


@pytest.mark.parametrize("failing", [0, 1])
def test_the_other_keeps_its_client_with_heartbeats_once_one_has_failed(world, first, second, alias, failing):
    learn(world, alias, stream=True)
    pair = (first, second)
    pair[failing].default = Answer(status=400, delay=0.8 * (1 - failing))
    pair[1 - failing].default = Answer(stream=opening_first("late"), pace=3)
    chunks = arrivals(world.stream(body={"model": alias}))
    assert text(b"".join(chunk for _, chunk in chunks)) == "late"
    assert any(b"late" not in chunk for _, chunk in chunks)


def test_the_first_serves_when_it_is_still_faster_and_the_second_is_cancelled(world, first, second, alias):
    first.default, second.default = Answer(text="first", delay=0.8), Answer(text="second", delay=4)
    response = world.ask(body={"model": alias})
    assert text_of(response) == "first"
    second.wait_for(1)[0].wait_closed(2)
    entry = world.entry(response)
    assert attempts_of(entry) == [(world.row(second).name, "interrupted"), (world.row(first).name, "")]
    assert entry.provider_name == world.row(first).name


def test_the_second_serves_when_the_first_fails_later(world, first, second, alias):
    first.default, second.default = Answer(status=500, delay=0.8), Answer(text="second", delay=1.2)
    response = world.ask(body={"model": alias})
    assert text_of(response) == "second"
    assert counts(first, second) == (1, 1)
    assert world.entry(response).failed_attempts == 1


def test_when_both_fail_nobody_is_asked_twice(world, first, second, alias):
    first.default, second.default = Answer(status=500, delay=0.8), Answer(status=500)
    response = world.ask(body={"model": alias})
    assert response.status_code == 502
    assert counts(first, second) == (1, 1)
    entry = world.entry(response)
    assert (entry.outcome, entry.attempts, entry.failed_attempts) == ("failed", 2, 2)


def test_when_the_second_fails_the_first_still_serves(world, first, second, alias):
    first.default, second.default = Answer(text="first", delay=0.8), Answer(status=500)
    response = world.ask(body={"model": alias})
    assert text_of(response) == "first"
    assert counts(first, second) == (1, 1)


def test_a_client_that_leaves_ends_both(world, first, second, alias):
    first.default = second.default = Answer(silent=True)
    with world.send({"model": alias}) as client:
        first.wait_for(1)
        second.wait_for(1)
        client.close()
    first.seen[0].wait_closed(2)
    second.seen[0].wait_closed(2)


def test_the_time_that_the_client_allows_holds_for_both(world, first, second, alias):
    first.default = second.default = Answer(silent=True)
    begun = time.monotonic()
    response = world.ask(body={"model": alias}, headers={"X-Svc-Timeout": "1"})
    assert response.status_code == 504
    assert time.monotonic() - begun < patience(2)


def test_the_winners_answer_is_not_cached_as_the_losers(world, first, second, alias):
    first.default, second.default = Answer(text="late", delay=2), Answer(text="soon")
    assert text_of(world.ask("once", body={"model": alias})) == "soon"
    first.default = Answer(text="first")
    again = world.ask("once", body={"model": alias})
    assert (text_of(again), again.headers["X-Svc-Cache"]) == ("first", "MISS")


def test_nobody_is_hedged_who_is_as_fast_as_usual(world, first, second, alias):
    learn(world, alias, times=20)
    assert counts(first)[0] == 20
    assert counts(second)[0] <= 2


def test_without_hedge_without_measurements_and_with_limits_there_is_none(world, first, second):
    first.default = Answer(delay=0.7)
    off = make_alias(world, first, second, hedge=False)
    unmeasured = make_alias(world, first, second)
    for name in (off, unmeasured):
        assert world.ask(name, body={"model": name}).headers["X-Svc-Provider"] == world.row(first).name
    assert counts(second) == (0,)
    first.default = Answer()
    learn(world, unmeasured)
    Limit.objects.create(provider=world.row(second), measure="requests", window="day", amount=1000)
    world._settled = False
    first.default = Answer(delay=0.7)
    assert world.ask("limited", body={"model": unmeasured}).headers["X-Svc-Provider"] == world.row(first).name
    assert counts(second)[0] <= 1


def test_many_at_once(world, first, second, alias):
    first.default, second.default = Answer(text="late", delay=1.5), Answer(text="soon", delay=0.1)
    with ThreadPoolExecutor(30) as pool:
        responses = list(pool.map(lambda number: world.ask(f"{number}", body={"model": alias}), range(60)))
    assert {response.status_code for response in responses} == {200}
    hedged = [response for response in responses if response.headers["X-Svc-Provider"] == world.row(second).name]
    assert len(hedged) >= 20
    first.wait_idle()
    second.wait_idle()
    for response in responses:
        entry = world.entry(response)
        assert (entry.outcome, entry.attempts) == ("completed", len(entry.provider_calls))
