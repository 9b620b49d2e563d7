"""Each strategy with real providers: who is asked first."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rules.aliases.drafts import TargetDraft
from rules.aliases.services import create_alias
from tests.support.provider import counts
from tests.support.provider_answers import Answer
from tests.support.streaming import opening_first

pytestmark = pytest.mark.either_store


@pytest.fixture
def alias(world):
    """Makes an alias of these providers' models: alias("fastest", one, two) -> its name."""

    def make(strategy, *providers, world=world, **options):
        name = world.name("alias")
        targets = [TargetDraft(provider_id=world.row(one).pk, model=world.model) for one in providers]
        create_alias(name=name, strategy=strategy, targets=targets, **options)
        world._settled = False
        return name

    return make


def ask(world, alias, number=0, *, prompt=None, body=None, headers=None):
    """The name of the provider that serves a request of its own."""
    prompt = prompt or f"{time.monotonic()} {number}"
    response = world.ask(prompt, body={"model": alias, **(body or {})}, headers=headers)
    assert response.status_code == 200, response.text
    return response.headers["X-Svc-Provider"]


@pytest.fixture
def pair(world):
    world.allow()
    return world.provider(), world.provider()


def streams_served_by(world, name: str, provider) -> int:
    """How many of twenty streams this provider is asked for."""
    for number in range(20):
        assert world.stream(f"{number}", body={"model": name}).content
    return counts(provider)[0]


class TestFastest:
    def test_the_fast_one_gets_the_requests_and_the_other_when_it_is_faster(self, world, pair, alias):
        slow, fast = pair
        name = alias("fastest", slow, fast)
        slow.default = Answer(delay=1)
        for number in range(30):
            ask(world, name, number)
        assert counts(fast)[0] >= 25
        slow.default, fast.default = Answer(), Answer(delay=0.6)
        deadline = time.monotonic() + 20
        while ask(world, name) != world.row(slow).name:
            assert time.monotonic() < deadline

    def test_streams_are_measured_by_their_first_token(self, world, pair, alias):
        slow, fast = pair
        name = alias("fastest", slow, fast)
        slow.default = Answer(text="one two", delay=1)
        fast.default = Answer(text="one two three four", pace=0.05)  # takes longer as a whole
        assert streams_served_by(world, name, fast) >= 15

    def test_an_event_that_only_opens_an_answer_is_no_first_token(self, world, pair, alias):
        slow, fast = pair
        name = alias("fastest", slow, fast)
        slow.default = Answer(stream=opening_first("late"), pace=1)
        fast.default = Answer(stream=opening_first("soon"), pace=0.1)
        assert streams_served_by(world, name, fast) >= 15

    def test_a_stream_without_any_text_is_measured_at_its_end(self, world, pair, alias):
        slow, fast = pair
        name = alias("fastest", slow, fast)
        slow.default = Answer(stream=opening_first(""), pace=1)
        fast.default = Answer(stream=opening_first(""), pace=0.1)
        assert streams_served_by(world, name, fast) >= 15

    def test_streams_that_break_before_their_first_token_are_failures(self, world, pair, alias):
        broken, works = pair
        name = alias("fastest", broken, works)
        broken.default = Answer(stream=opening_first("never")[:1], pace=0.3)
        assert streams_served_by(world, name, works) >= 15

    def test_it_serves_from_the_other_while_the_fast_one_is_down(self, world, pair, alias):
        slow, fast = pair
        name = alias("fastest", slow, fast)
        slow.default = Answer(delay=0.1)
        for number in range(10):
            ask(world, name, number)
        fast.default = Answer(status=500)
        assert {ask(world, name, number) for number in range(5)} == {world.row(slow).name}

    def test_a_header_asks_for_it_without_an_alias(self, world, pair):
        slow, fast = pair
        slow.default = Answer(delay=1)
        for number in range(20):
            world.ask(f"{number}", headers={"X-Svc-Strategy": "fastest"})
        assert counts(fast)[0] >= 15


class TestLeastBusy:
    def test_requests_go_where_the_fewest_are_in_flight(self, world, pair, alias):
        name = alias("least-busy", *pair)
        for one in pair:
            one.default = Answer(delay=1.5)
        ask(world, name)
        with ThreadPoolExecutor(12) as pool:
            list(pool.map(lambda number: ask(world, name, number), range(12)))
        assert min(counts(*pair)) >= 4

    def test_a_target_that_cannot_express_a_request_is_not_busy_with_it(self, world, alias):
        world.allow()
        unfit, fit = world.provider(format_name="ollama"), world.provider()
        message = {"role": "assistant", "content": "hi"}
        unfit.default = Answer(body={"model": "m", "message": message, "done": True, "done_reason": "stop"})
        name = alias("least-busy", unfit, fit)
        image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
        for number in range(30):
            messages = [{"role": "user", "content": [{"type": "text", "text": str(number)}, image]}]
            assert world.post({"model": name, "messages": messages}, path="/v1/chat/completions").status_code == 200
        for number in range(30):
            ask(world, name, number)
        assert counts(unfit)[0] > 3

    def test_a_stream_counts_until_it_ends(self, world, pair, alias):
        name = alias("least-busy", *pair)
        for one in pair:
            one.answers(text="one two", silent_after=1)
        with world.stream("held", body={"model": name}) as stream:
            busy = stream.headers["X-Svc-Provider"]
            next(stream.iter_content(1))
            free = pair[0] if busy == world.row(pair[1]).name else pair[1]
            free.reset()
            assert {ask(world, name, number) for number in range(6)} == {world.row(free).name}


class TestCheapest:
    def test_the_least_cost_for_this_request_comes_first(self, world, pair, alias):
        cheap_input, cheap_output = pair
        world.price(1, 20, provider=world.row(cheap_input))
        world.price(10, 2, provider=world.row(cheap_output))
        name = alias("cheapest", *pair)
        assert ask(world, name, body={"max_tokens": 2000}) == world.row(cheap_output).name
        assert ask(world, name, prompt="word " * 3000, body={"max_tokens": 10}) == world.row(cheap_input).name

    def test_a_target_without_a_price_comes_last(self, world, pair, alias):
        world.price(10, 20, provider=world.row(pair[0]))
        name = alias("cheapest", *pair)
        assert {ask(world, name, number) for number in range(10)} == {world.row(pair[0]).name}


class TestHeader:
    """X-Svc-Strategy asks for another strategy than the alias's."""

    def test_cheapest(self, world, pair, alias):
        world.price(10, 20, provider=world.row(pair[0]))
        world.price(1, 2, provider=world.row(pair[1]))
        name, headers = alias("weighted", *pair), {"X-Svc-Strategy": "cheapest"}
        assert {ask(world, name, number, headers=headers) for number in range(12)} == {world.row(pair[1]).name}
        assert len({ask(world, name, number) for number in range(20)}) == 2

    def test_sticky(self, world, pair, alias):
        name = alias("weighted", *pair)
        for _ in range(3):
            headers = {"X-Svc-Strategy": "sticky", "X-Svc-Session": world.name("session")}
            assert len({ask(world, name, number, headers=headers) for number in range(12)}) == 1
        del headers["X-Svc-Strategy"]
        assert len({ask(world, name, number, headers=headers) for number in range(20)}) == 2

    def test_least_busy(self, world, pair, alias):
        name, headers = alias("weighted", *pair), {"X-Svc-Strategy": "least-busy"}
        for one in pair:
            one.answers(text="one two", silent_after=1)
        with world.stream("held", body={"model": name}, headers=headers) as stream:
            busy = stream.headers["X-Svc-Provider"]
            next(stream.iter_content(1))
            free = pair[0] if busy == world.row(pair[1]).name else pair[1]
            free.reset()
            assert {ask(world, name, number, headers=headers) for number in range(10)} == {world.row(free).name}


class TestSticky:
    def test_a_session_stays_falls_over_and_returns(self, world, pair, alias):
        name = alias("sticky", *pair)
        session = {"X-Svc-Session": world.name("session")}
        home = ask(world, name, headers=session)
        first, other = pair if world.row(pair[0]).name == home else pair[::-1]
        assert {ask(world, name, number, headers=session) for number in range(10)} == {home}
        first.default = Answer(status=500)
        assert {ask(world, name, number, headers=session) for number in range(6)} == {world.row(other).name}
        first.default = Answer()
        time.sleep(1.1)  # the breaker's cool-down
        assert ask(world, name, headers=session) == home

    @pytest.mark.parametrize("field", ["user", "prompt_cache_key"])
    def test_a_field_names_the_session(self, world, pair, alias, field):
        name = alias("sticky", *pair)
        for value in range(16):
            body = {field: f"{value}"}
            assert len({ask(world, name, number, body=body) for number in range(3)}) == 1
        assert min(counts(*pair)) > 0

    def test_a_conversation_stays(self, world, pair, alias):
        name = alias("sticky", *pair)
        turns = [{"role": "user", "content": world.name("begin")}]
        providers = set()
        for number in range(8):
            response = world.ask(body={"model": name, "messages": turns})
            providers.add(response.headers["X-Svc-Provider"])
            turns = [*turns, {"role": "assistant", "content": "Yes."}, {"role": "user", "content": f"{number}"}]
        assert len(providers) == 1

    def test_sessions_are_spread(self, world, pair, alias):
        name = alias("sticky", *pair)
        for number in range(40):
            ask(world, name, headers={"X-Svc-Session": f"{number}"})
        assert min(counts(*pair)) >= 8


@pytest.mark.servers
def test_two_workers_agree_within_seconds(own_gateway, alias):
    world = own_gateway(WEB_CONCURRENCY="2")
    world.allow()
    slow, fast = world.provider(), world.provider()
    name = alias("fastest", slow, fast, world=world)
    slow.default = Answer(delay=0.3)
    for number in range(10):
        ask(world, name, number)
    time.sleep(1.5)
    before = counts(slow)[0]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: ask(world, name, number), range(100)))
    assert counts(slow)[0] - before <= 4, "a worker measures a slow target now and then"
