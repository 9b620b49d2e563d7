"""Stage 4: which provider, and what happens when it fails before it has begun to answer."""

import time

import pytest

from providers.services import update_provider
from tests.support.metrics import samples
from tests.support.provider import counts, refusing_port
from tests.support.provider_answers import Answer

pytestmark = pytest.mark.embedded


def not_selected(response):
    assert (response.status_code, response.json()["exception"]) == (400, "ProviderNotSelected"), response.text
    return response


class TestSelection:
    def test_a_key_that_is_linked_to_a_provider_uses_it_for_any_model_name(self, world):
        world.allow()
        linked, other = world.provider("something"), world.provider()
        key = world.new_key(provider=world.row(linked)).text
        for model in (world.model, "never-heard-of", "a/b"):
            response = world.ask(key=key, body={"model": model})
            assert response.headers["X-Svc-Provider"] == world.row(linked).name
            assert linked.seen[-1].json["model"] == model
        assert other.seen == []

    def test_a_linked_key_takes_its_own_providers_name_off_the_model(self, world):
        world.allow()
        linked = world.provider("something")
        key = world.new_key(provider=world.row(linked)).text
        world.ask(key=key, body={"model": f"{world.row(linked).name}/gpt"})
        assert linked.seen[0].json["model"] == "gpt"

    def test_a_linked_key_may_spell_a_model_of_its_provider_differently(self, world):
        world.allow()
        linked = world.provider()
        response = world.ask(key=world.new_key(provider=world.row(linked)).text, body={"model": world.model.upper()})
        assert (linked.seen[0].json["model"], world.entry(response).model) == (world.model, world.model.upper())

    def test_it_stays_where_the_providers_own_name_for_the_model_begins_so(self, world):
        world.allow()
        name = world.name("router")
        linked = world.provider(f"{name}/auto", name=name)
        for key in (world.new_key(provider=world.row(linked)).text, world.key):
            world.ask(key=key, body={"model": f"{name}/auto"}, headers={"X-Svc-Cache": "bypass"})
        assert [observations.json["model"] for observations in linked.seen] == [f"{name}/auto"] * 2

    def test_a_linked_key_whose_provider_is_disabled_gets_none(self, world):
        world.allow()
        linked, other = world.provider(), world.provider()
        key = world.new_key(provider=world.row(linked)).text
        update_provider(world.row(linked), enabled=False)
        response = not_selected(world.ask(key=key))
        assert other.seen == []
        assert world.entry(response).status == 400

    def test_a_linked_key_cannot_ask_for_another_provider(self, world, pair):
        key = world.new_key(provider=world.row(pair[0])).text
        not_selected(world.ask(key=key, headers={"X-Svc-Provider": world.row(pair[1]).name}))
        assert counts(*pair) == (0, 0)

    def test_the_model_name_finds_its_provider(self, world):
        world.allow()
        mine, other = world.provider("m-1", "m-2"), world.provider("m-3")
        for model in ("m-1", "m-2", "m-3"):
            world.ask(
                body={"model": model}, headers={"X-Svc-Provider": world.row(other if model == "m-3" else mine).name}
            )
        assert ([observations.json["model"] for observations in mine.seen], counts(other)) == (["m-1", "m-2"], (1,))

    def test_a_provider_before_the_model_narrows_it_to_that_one(self, world, pair):
        response = world.ask(body={"model": f"{world.row(pair[1]).name}/{world.model}"})
        assert counts(*pair) == (0, 1)
        assert pair[1].seen[0].json["model"] == world.model
        assert world.entry(response).provider_name == world.row(pair[1]).name

    def test_a_model_with_a_slash_in_its_own_name_is_that_model(self, world):
        world.allow()
        model = f"vendor/{world.model}"
        provider = world.provider(model)
        assert world.ask(body={"model": model}).status_code == 200
        assert world.ask(body={"model": f"{world.row(provider).name}/{model}"}).status_code == 200
        assert [observations.json["model"] for observations in provider.seen] == [
            model
        ]  # and the second is served from the cache

    def test_a_provider_before_a_model_that_it_does_not_offer_selects_nothing(self, world, pair):
        not_selected(world.ask(body={"model": f"{world.row(pair[0]).name}/other"}))
        not_selected(world.ask(body={"model": f"nobody/{world.model}"}))

    def test_the_header_narrows_it_to_the_provider_of_that_name(self, world, pair):
        response = world.ask(headers={"X-Svc-Provider": world.row(pair[1]).name})
        assert response.headers["X-Svc-Provider"] == world.row(pair[1]).name
        assert counts(*pair) == (0, 1)

    def test_a_name_in_the_header_that_nobody_has_selects_nothing(self, world, pair):
        response = not_selected(world.ask(headers={"X-Svc-Provider": "nobody"}))
        assert "nobody" in response.json()["message"]

    def test_a_model_that_nobody_offers_selects_nothing(self, world, pair):
        response = not_selected(world.ask(body={"model": "nobody-has-it"}))
        assert "nobody-has-it" in response.json()["message"]
        entry = world.entry(response)
        assert (entry.outcome, entry.entry_source, entry.provider_id) == ("failed", "Not Set", None)

    def test_a_disabled_provider_is_not_asked_until_it_is_enabled(self, world, provider):
        update_provider(world.row(provider), enabled=False)
        not_selected(world.ask())
        update_provider(world.row(provider), enabled=True)
        world.soon(world.ask, 200)

    def test_a_model_added_later_is_offered_within_a_second(self, world, provider):
        not_selected(world.ask(body={"model": "new-one"}))
        world.row(provider).models.create(name="new-one")
        world.soon(lambda: world.ask(body={"model": "new-one"}), 200)


class TestShares:
    def test_the_lowest_priority_is_asked_first(self, world):
        world.allow()
        third, first, second = (world.provider(priority=priority) for priority in (30, 10, 20))
        for number in range(5):
            world.ask(f"{number}")
        assert counts(first, second, third) == (5, 0, 0)

    def test_weights_are_shares_over_many_prompts(self, world):
        world.allow()
        heavy, light = world.provider(weight=3), world.provider(weight=1)
        for number in range(300):
            world.ask(f"prompt {number}")
        assert sum(counts(heavy, light)) == 300
        assert 185 < counts(heavy)[0] < 265  # 225 are expected, with a standard deviation of 7.5

    def test_the_same_prompt_goes_to_the_same_provider(self, world):
        world.allow()
        providers = [world.provider() for _ in range(4)]
        for _ in range(8):
            world.ask("the same", headers={"X-Svc-Cache": "refresh"})
        assert sorted(counts(*providers)) == [0, 0, 0, 8]


class TestFailOver:
    @pytest.mark.parametrize(
        "failure",
        [
            {"status": 429},
            {"status": 500},
            {"status": 502},
            {"status": 503},
            {"status": 529},
            {"status": 401},
            {"status": 402},  # the gateway's account there is out of credit
            {"body": b"<html>"},
            {"body": {"error": {"message": "sorry"}}},
            {"cut_after": 0, "reset": True},
            {"raw": b""},
        ],
    )
    def test_the_next_candidate_serves_when_the_first_fails(self, world, pair, failure):
        pair[0].answers(**failure)
        pair[1].answers(text="Lisbon")
        response = world.ask()
        assert response.json()["choices"][0]["message"]["content"] == "Lisbon"
        assert response.headers["X-Svc-Provider"] == world.row(pair[1]).name
        assert counts(*pair) == (1, 1)
        entry = world.entry(response)
        assert (entry.attempts, entry.provider_name, entry.outcome) == (2, world.row(pair[1]).name, "completed")
        assert [stage[0] for stage in entry.stages].count("provider") == 2

    def test_the_next_candidate_serves_when_the_first_refuses_the_connection(self, world):
        world.allow()
        world.provider(priority=1, url=f"http://127.0.0.1:{refusing_port()}/v1")
        second = world.provider(priority=2)
        assert world.entry(world.ask()).attempts == 2
        assert counts(second) == (1,)

    def test_the_next_candidate_serves_when_the_first_is_too_slow(self, world):
        world.allow()
        first = world.provider(priority=1, first_byte_timeout_seconds=0.3)
        second = world.provider(priority=2)
        first.answers(silent=True)
        response = world.ask()
        assert response.status_code == 200
        assert counts(first, second) == (1, 1)
        first.seen[0].wait_closed()

    @pytest.mark.parametrize("status", [400, 404, 409, 413, 422])
    def test_a_request_that_a_provider_rejects_is_rejected(self, world, pair, status):
        pair[0].answers(status=status)
        response = world.ask()
        assert (response.status_code, response.json()["exception"]) == (status, "ProviderRejected")
        assert counts(*pair) == (1, 0)
        assert world.entry(response).attempts == 1

    def test_a_stream_falls_over_too_before_its_first_byte(self, world, pair):
        pair[0].answers(stream=[{"error": {"message": "sorry"}}])
        pair[1].answers(text="Lisbon")
        response = world.stream()
        assert response.status_code == 200
        assert b"Lisbon" in response.content
        assert world.entry(response).attempts == 2

    def test_a_stream_that_has_begun_never_begins_anew(self, world, pair):
        pair[0].answers(text="one two three", no_terminal=True)
        response = world.stream()
        assert b"one" in response.content
        assert counts(*pair) == (1, 0)

    def test_the_last_failure_is_told_when_all_fail(self, world, pair):
        pair[0].answers(status=500)
        pair[1].answers(status=529, headers={"Retry-After": "7"})
        response = world.ask()
        assert (response.status_code, response.json()["exception"]) == (503, "ProviderOverloaded")
        assert response.headers["Retry-After"] == "7"
        entry = world.entry(response)
        assert (entry.attempts, entry.outcome, entry.entry_source) == (2, "failed", "Worker")

    def test_each_candidate_gets_its_own_credential_and_its_own_name_of_the_model(self, world):
        world.allow()
        first = world.provider(priority=1, credential="sk-of-the-first")
        second = world.provider(priority=2, credential="sk-of-the-second", auth_method="x-api-key")
        first.answers(status=500)
        world.ask()
        assert first.seen[0].headers["authorization"] == "Bearer sk-of-the-first"
        assert "authorization" not in second.seen[0].headers
        assert second.seen[0].headers["x-api-key"] == "sk-of-the-second"


class TestBreaker:
    def fail(self, world, times=5):
        for number in range(times):
            world.ask(f"{time.monotonic()} {number}")

    @pytest.mark.parametrize("status", [500, 402])
    def test_a_provider_that_keeps_failing_rests_and_is_probed_after_its_cool_down(self, world, pair, status):
        pair[0].default = Answer(status=status)
        self.fail(world, 8)
        assert counts(*pair) == (5, 8)
        pair[0].default = Answer(text="back")
        time.sleep(1.1)
        assert world.ask("now?").headers["X-Svc-Provider"] == world.row(pair[0]).name
        assert world.ask("and now?").headers["X-Svc-Provider"] == world.row(pair[0]).name

    def test_a_probe_that_fails_is_another_rest(self, world, pair):
        pair[0].default = Answer(status=503)
        self.fail(world)
        time.sleep(1.1)
        self.fail(world, 4)
        assert counts(*pair) == (6, 9)

    def test_a_success_in_between_begins_the_count_anew(self, world, pair):
        for _ in range(2):
            for _ in range(4):
                pair[0].answers(status=500)
            pair[0].answers(text="fine")
        self.fail(world, 10)
        assert counts(*pair) == (10, 8)

    def test_a_provider_that_limits_us_works_and_its_breaker_stays_closed(self, world, provider):
        provider.default = Answer(status=429)
        for number in range(7):
            assert world.ask(f"{number}").status_code == 429
        assert counts(provider) == (7,)
        assert samples(world, "provider_resting")["0", world.row(provider).name] == 0

    def test_a_provider_that_names_the_end_of_its_overload_has_not_failed(self, world, provider):
        """After so many failures the breaker would rest; the rest that was asked for ends sooner."""
        for _ in range(6):
            provider.answers(status=503, headers={"Retry-After-Ms": "1"})
            assert world.ask().status_code == 503
            time.sleep(1.05)
        name = world.row(provider).name
        assert samples(world, "provider_resting")["0", name] == 0

    @pytest.mark.parametrize("status", [403, 500])
    def test_models_that_only_a_linked_key_names_open_no_breaker(self, world, pair, status):
        key = world.new_key(provider=world.row(pair[0])).text
        for number in range(6):
            pair[0].answers(status=status)
            assert world.ask(key=key, body={"model": f"invented-{number}"}).status_code == 502
        assert samples(world, "provider_resting")["0", world.row(pair[0]).name] == 0
        assert world.ask("listed").headers["X-Svc-Provider"] == world.row(pair[0]).name

    def test_a_provider_that_stands_alone_is_asked_however_often_it_failed(self, world, provider):
        provider.default = Answer(status=500)
        self.fail(world, 7)
        assert counts(provider) == (7,)
        provider.default = Answer()
        assert world.ask().status_code == 200
