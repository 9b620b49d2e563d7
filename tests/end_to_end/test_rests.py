"""A provider that asks for a rest gets it, and one that was too busy pauses while another can serve."""

import time
from email.utils import formatdate

import pytest

from providers.services import update_provider
from tests.support.management import refused
from tests.support.provider import counts
from tests.support.provider_answers import Answer

pytestmark = pytest.mark.embedded


class TestPauses:
    """A provider that answers 429 without Retry-After is left alone for a moment while another one can serve."""

    def statuses(self, world, count):
        return [world.ask(f"{time.monotonic()} {number}").status_code for number in range(count)]

    def test_it_is_asked_once_and_then_after_one_and_two_seconds(self, world, pair):
        pair[0].default = Answer(status=429)
        begun = time.monotonic()
        while time.monotonic() < begun + 2.5:
            assert self.statuses(world, 1) == [200]
            time.sleep(0.01)  # its key may send 600 a minute
        first, second, *later = [seen.arrived - pair[0].seen[0].arrived for seen in pair[0].seen]
        assert (first, later) == (0, [])
        assert second >= 1

    def test_it_serves_again_once_it_answers(self, world, pair):
        pair[0].answers(status=429)
        self.statuses(world, 5)
        assert counts(*pair) == (1, 5)
        time.sleep(1.1)
        self.statuses(world, 5)
        assert counts(*pair) == (6, 5)

    def test_where_no_other_can_serve_it_is_asked(self, world, provider):
        provider.answers(status=429)
        assert self.statuses(world, 2) == [429, 200]

    def test_where_all_are_limited_a_request_asks_one_of_them(self, world, pair):
        for one in pair:
            one.default = Answer(status=429)
        begun = time.monotonic()
        assert set(self.statuses(world, 20)) == {429}
        probes = 1 + int(time.monotonic() - begun)  # when a pause is over, the next request asks both again
        assert 20 <= sum(counts(*pair)) <= 20 + probes

    def test_one_that_pauses_is_asked_when_the_other_has_failed(self, world, pair):
        pair[1].answers(status=429)
        pair[0].answers(status=500)
        assert self.statuses(world, 1) == [429]
        pair[0].answers(status=500)
        assert self.statuses(world, 1) == [200]
        assert counts(*pair) == (2, 2)

    def test_another_model_of_the_provider_goes_on(self, world):
        world.allow()
        large, small = world.name("large"), world.name("small")
        provider = world.provider(large, small)
        alias = world.alias(world.target(provider, large), world.target(provider, small, tier=1)).name
        provider.answers(status=429)
        models = [world.ask(f"{number}", body={"model": alias}).headers["X-Svc-Model"] for number in range(3)]
        assert models == [small] * 3
        assert counts(provider) == (4,)


class TestRests:
    """A provider that answers 429 or 503 with Retry-After is not asked until then."""

    def statuses(self, world, count=20):
        return [world.ask(f"{time.monotonic()} {number}") for number in range(count)]

    @pytest.mark.parametrize("status", [429, 503, 529])
    def test_a_provider_that_stands_alone_is_asked_once(self, world, provider, status):
        provider.default = Answer(status=status, headers={"Retry-After": "30"})
        code = 429 if status == 429 else 503
        responses = self.statuses(world)
        assert counts(provider) == (1,)
        for response in responses:
            refused(response, code, "ProviderOverloaded")
            assert 20 <= int(response.headers["Retry-After"]) <= 30
        entry = world.entry(responses[-1])
        assert (entry.attempts, entry.candidates[0][1]) == (0, "resting")

    @pytest.mark.parametrize("status", [429, 503])
    def test_the_other_candidate_serves_meanwhile(self, world, pair, status):
        pair[0].default = Answer(status=status, headers={"Retry-After": formatdate(time.time() + 30, usegmt=True)})
        responses = self.statuses(world)
        assert {response.status_code for response in responses} == {200}
        assert counts(*pair) == (1, 20)

    def test_it_is_asked_again_when_the_rest_is_over(self, world, provider):
        provider.answers(status=429, headers={"Retry-After": "1"})
        assert world.ask("one").status_code == world.ask("two").status_code == 429
        time.sleep(1.1)
        assert world.ask("three").status_code == 200
        assert counts(provider) == (2,)

    def test_who_is_ready_first_says_when_to_come_back(self, world, pair):
        pair[0].default = Answer(status=503, headers={"Retry-After": "300"})
        pair[1].default = Answer(status=429, headers={"Retry-After": "30"})
        world.ask("begins both rests")
        response = world.ask("refused")
        refused(response, 429, "ProviderOverloaded")
        assert 20 <= int(response.headers["Retry-After"]) <= 30
        assert counts(*pair) == (1, 1)

    def test_a_provider_whose_breaker_is_open_is_better_than_one_that_rests(self, world, pair):
        pair[0].default = Answer(status=429, headers={"Retry-After": "30"})
        pair[1].default = Answer(status=500)
        self.statuses(world, 7)
        assert counts(*pair) == (1, 7)

    def test_a_cached_answer_is_served_while_its_provider_rests(self, world, provider):
        assert world.ask("cached").status_code == 200
        provider.default = Answer(status=503, headers={"Retry-After": "30"})
        assert world.ask("other").status_code == 503
        assert world.ask("cached").headers["X-Svc-Cache"] == "HIT"

    def test_another_credential_ends_the_rest(self, world, provider):
        provider.answers(status=429, headers={"Retry-After": "300"})
        assert world.ask("one").status_code == world.ask("two").status_code == 429
        update_provider(world.row(provider), credential="sk-of-another-account")
        world.settle()
        assert world.ask("three").status_code == 200
