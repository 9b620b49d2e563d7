"""Work for an alias: which target is asked first, and after which failures the next one is."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from licensing.models import Limit
from providers.services import add_credential
from rules.aliases.services import update_alias
from tests.support.aliases import ask, asked, target, targets
from tests.support.provider_answers import Answer

pytestmark = pytest.mark.embedded

TOO_LONG = {
    "error": {"message": "This model's maximum context length is 10 tokens.", "code": "context_length_exceeded"}
}
FILTERED = {"error": {"message": "Not allowed.", "code": "content_filter"}}


class TestTiers:
    def test_weights_share_a_tier_and_the_next_tier_waits(self, world, trio):
        alias = world.alias(
            target(world, trio[0], weight=3), target(world, trio[1], weight=1), target(world, trio[2], tier=1)
        )
        for number in range(160):
            ask(world, alias, f"{number}")
        first, second, third = asked(*trio)
        assert (first + second, third) == (160, 0)
        assert 96 < first < 144  # 120 are expected, with a standard deviation of 5.5

    def test_a_target_of_weight_0_serves_only_when_the_others_cannot(self, world, trio):
        alias = world.alias(target(world, trio[0]), target(world, trio[1], weight=0), target(world, trio[2], tier=1))
        for number in range(20):
            ask(world, alias, f"{number}")
        trio[0].default = Answer(status=500)
        ask(world, alias, "fails")
        assert asked(*trio) == (21, 1, 0)

    def test_the_same_request_goes_to_the_same_target_and_shares_its_flight(self, world, trio):
        alias = world.alias(*targets(world, *trio, tiers=False))
        for one in trio:
            one.default = Answer(text="slow", delay=0.5)
        assert world.key  # made here: each thread would need a connection of its own for it
        with ThreadPoolExecutor(8) as pool:
            responses = list(pool.map(lambda _: ask(world, alias, "the same"), range(8)))
        assert {response.status_code for response in responses} == {200}
        assert sorted(asked(*trio)) == [0, 0, 1]
        assert Counter(response.headers["X-Svc-Attempts"] for response in responses) == {"0": 7, "1": 1}
        assert len({response.headers["X-Svc-Model"] for response in responses}) == 1

    def test_names_share_no_cached_answer(self, world, trio):
        one, two = world.alias(*targets(world, trio[0])), world.alias(*targets(world, trio[0]))
        for name in (one.name, two.name, f"{world.model}-a"):
            assert ask(world, name, "same").headers["X-Svc-Cache"] == "MISS"
            assert ask(world, name, "same").headers["X-Svc-Cache"] == "HIT"
        update_alias(one, targets=targets(world, trio[1]))
        world.settle()
        assert ask(world, one, "same").headers["X-Svc-Cache"] == "MISS"


class TestCauses:
    """Which failures go on to the next target."""

    FAILURES = {
        "error": {"status": 500},
        "rate_limited": {"status": 429},
        "context_length": {"status": 400, "body": TOO_LONG},
        "content_filter": {"status": 400, "body": FILTERED},
    }

    @pytest.mark.parametrize("cause", FAILURES)
    @pytest.mark.parametrize("failure", FAILURES)
    def test_the_causes_of_an_alias_and_no_others_go_to_the_next_tier(self, world, trio, cause, failure):
        alias = world.alias(*targets(world, *trio[:2]), fallback_on=[cause])
        trio[0].answers(**self.FAILURES[failure])
        response = ask(world, alias)
        assert asked(*trio) == (1, int(cause == failure), 0)
        assert (response.status_code == 200) is (cause == failure)
        assert response.headers["X-Svc-Attempts"] == ("2" if cause == failure else "1")

    def test_a_rejected_request_goes_nowhere_else(self, world, trio):
        causes = ["error", "rate_limited", "context_length", "content_filter", "budget"]
        alias = world.alias(*targets(world, *trio), fallback_on=causes)
        trio[0].answers(status=400)
        assert ask(world, alias).status_code == 400
        assert asked(*trio) == (1, 0, 0)

    def test_without_an_alias_a_long_conversation_goes_nowhere_else(self, world):
        world.allow()
        first, second = world.provider(priority=1), world.provider(priority=2)
        first.answers(status=400, body=TOO_LONG)
        assert world.ask().status_code == 400
        assert asked(first, second) == (1, 0)

    @pytest.mark.parametrize("stream", [False, True])
    def test_an_answer_that_a_filter_stopped_before_the_first_byte_goes_to_the_next(self, world, trio, stream):
        alias = world.alias(*targets(world, *trio[:2]), fallback_on=["content_filter"])
        trio[0].default = Answer(text="", finish_reason="content_filter", pace=0.1)
        trio[1].default = Answer(text="Lisbon")
        response = ask(world, alias, body={"stream": stream})
        assert b"Lisbon" in response.content
        assert asked(*trio) == (1, 1, 0)
        last = world.alias(*targets(world, trio[0]), fallback_on=["content_filter"])
        assert b"content_filter" in ask(world, last, body={"stream": stream}).content

    def test_a_stream_that_has_begun_stays(self, world, trio):
        alias = world.alias(*targets(world, *trio[:2]), fallback_on=["content_filter", "error"])
        trio[0].default = Answer(text="one two three", finish_reason="content_filter", pace=0.1)
        assert b"one" in ask(world, alias, body={"stream": True}).content
        assert asked(*trio) == (1, 0, 0)

    @pytest.mark.parametrize("causes", [["error", "rate_limited"], ["budget"]])
    def test_a_full_limit_of_the_provider_is_a_cause_of_its_own(self, world, trio, causes):
        alias = world.alias(*targets(world, *trio[:2]), fallback_on=causes)
        Limit.objects.create(provider=world.row(trio[0]), measure="requests", window="day", amount=1)
        world.settle()
        assert ask(world, alias, "one").status_code == 200
        falls = "budget" in causes
        for prompt in ("two", "three"):  # the second of them knows it beforehand
            assert ask(world, alias, prompt).status_code == (200 if falls else 429)
        assert asked(*trio) == (1, 2 * falls, 0)

    @pytest.mark.parametrize("causes", [["error"], ["rate_limited"]])
    def test_a_rest_is_a_cause_as_the_answer_that_began_it(self, world, trio, causes):
        alias = world.alias(*targets(world, *trio[:2]), fallback_on=causes)
        trio[0].default = Answer(status=429, headers={"Retry-After": "30"})
        falls = causes == ["rate_limited"]
        for number in range(4):
            response = ask(world, alias, f"{number}")
            assert response.status_code == (200 if falls else 429)
        assert asked(*trio) == (1, 4 * falls, 0)

    def test_an_open_breaker_is_no_cause_where_errors_are_none(self, world, trio):
        alias = world.alias(*targets(world, *trio[:2]), fallback_on=["rate_limited"])
        trio[0].default = Answer(status=500)
        for number in range(7):
            assert ask(world, alias, f"{number}").status_code == 502
        assert asked(*trio) == (7, 0, 0)

    def test_within_a_tier_a_target_that_rests_is_not_chosen(self, world, trio):
        alias = world.alias(*targets(world, *trio[:2], tiers=False), fallback_on=["error"])
        for one in trio[:2]:
            one.default = Answer(status=429, headers={"Retry-After": "30"})
        assert ask(world, alias, "begins a rest").status_code == 429
        rested, other = (trio[0], trio[1]) if trio[0].seen else (trio[1], trio[0])
        other.default = Answer()
        for number in range(10):
            assert ask(world, alias, f"{number}").status_code == 200
        assert asked(rested, other) == (1, 10)


class TestContextLengths:
    """After a conversation that is too long, the model with the most room is asked, and never a smaller one."""

    SIZES = (8_000, 4_000, 128_000, 32_000)

    def sized(self, world, *sizes):
        """Providers of models with these context lengths (None: unknown), and an alias with each in a tier."""
        world.allow()
        providers = [world.provider(f"{world.model}-{number}") for number in range(len(sizes))]
        for provider, size in zip(providers, sizes, strict=True):
            world.row(provider).models.update(context_length=size)
        return providers, world.alias(*targets(world, *providers), fallback_on=["context_length"])

    def too_long(self, provider):
        provider.default = Answer(status=400, body=TOO_LONG)

    def test_the_largest_is_asked_next(self, world):
        providers, alias = self.sized(world, *self.SIZES)
        self.too_long(providers[0])
        response = ask(world, alias)
        assert response.headers["X-Svc-Model"] == f"{world.model}-2"
        assert asked(*providers) == (1, 0, 1, 0)

    def test_where_that_is_too_small_no_smaller_one_is_asked(self, world):
        providers, alias = self.sized(world, *self.SIZES)
        self.too_long(providers[0])
        self.too_long(providers[2])
        assert ask(world, alias).status_code == 400
        assert asked(*providers) == (1, 0, 1, 0)

    def test_those_of_unknown_size_come_last(self, world):
        providers, alias = self.sized(world, 8_000, None, 4_000, 32_000)
        for one in providers:
            self.too_long(one)
        assert ask(world, alias).status_code == 400
        assert asked(*providers) == (1, 1, 0, 1)

    @pytest.mark.parametrize("size", [None, 8_000])
    def test_the_same_model_is_not_asked_with_another_credential(self, world, size):
        providers, alias = self.sized(world, size, None)
        for one in providers:
            self.too_long(one)
            add_credential(provider=world.row(one), name="another", credential="sk-another")
        world.settle()
        assert ask(world, alias).status_code == 400
        assert asked(*providers) == (1, 1)
