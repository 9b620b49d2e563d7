"""Limits of providers: one that is full is passed over while another has room."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from licensing.models import Limit
from providers.models import Provider
from tests.support.limiting import USED, bypass, items, left, refused
from tests.support.pace import in_one_minute
from tests.support.provider_answers import Answer


def rank(world, *providers):
    for place, provider in enumerate(providers):
        Provider.objects.filter(id=world.row(provider).id).update(priority=place)


@pytest.fixture
def two(world):
    world.allow()
    pair = world.provider(), world.provider()
    rank(world, *pair)
    return pair


def limit(world, provider, measure, window, amount):
    Limit.objects.create(measure=measure, window=window, amount=amount, provider=world.row(provider))
    world.settle()
    in_one_minute(10)


def test_one_at_its_limit_is_passed_over_while_another_has_room(world, two):
    first, second = two
    limit(world, first, "requests", "minute", 2)
    assert [bypass(world, prompt=str(n)).status_code for n in range(5)] == [200] * 5
    assert (len(first.seen), len(second.seen)) == (2, 3)


def test_when_none_has_room_the_client_is_told(world, two):
    for provider in two:
        limit(world, provider, "requests", "minute", 1)
    responses = [bypass(world, prompt=str(n)) for n in range(3)]
    assert [response.status_code for response in responses] == [200, 200, 429]
    refused(responses[2], "RateLimited", "(1 request per minute)", "limit of provider ")
    assert items(responses[2].headers["RateLimit"])["provider"]["r"] == 0


def test_a_client_waits_for_what_ends_first_the_limit_of_one_or_the_rest_of_another(world, two):
    first, second = two
    limit(world, second, "requests", "day", 1)
    name = world.row(second).name
    assert bypass(world, model=f"{name}/{world.model}").status_code == 200
    first.answers(status=429, headers={"Retry-After": "3"})
    assert bypass(world).status_code == 429
    response = bypass(world)
    refused(response, "RateLimited", "daily request limit of provider", "Another provider may be asked again in ")
    assert int(response.headers["Retry-After"]) <= 3
    assert world.entry(response).outcome == "denied"
    of_its_own = bypass(world, model=f"{name}/{world.model}")
    refused(of_its_own, "QuotaExceeded")
    assert int(of_its_own.headers["Retry-After"]) > 3
    world.soon(lambda: bypass(world), 200, seconds=5)
    assert (len(first.seen), len(second.seen)) == (2, 1)


def test_what_the_next_one_serves_is_stored_as_its_own(world, two):
    first, second = two
    limit(world, first, "requests", "minute", 1)
    assert world.ask("takes it").status_code == 200
    statuses = [world.ask("again").headers["X-Svc-Cache"] for _ in range(4)]
    assert statuses[0] == "MISS"
    assert statuses[-1] == "HIT"
    assert len(second.seen) <= 2


def test_stored_answers_are_served_by_a_provider_without_room(world, two):
    first, _ = two
    limit(world, first, "requests", "minute", 1)
    assert [world.ask("same").headers["X-Svc-Cache"] for _ in range(3)] == ["MISS", "HIT", "HIT"]


def test_concurrent_requests_go_to_the_next_one(world, two):
    first, second = two
    for provider in two:
        provider.default = Answer(delay=0.6)
    limit(world, first, "concurrent", "none", 2)
    with ThreadPoolExecutor(5) as pool:
        codes = list(pool.map(lambda n: bypass(world, prompt=str(n)).status_code, range(5)))
    assert codes == [200] * 5
    assert (first.peak_in_flight, len(first.seen), len(second.seen)) == (2, 2, 3)


def test_a_provider_that_is_asked_because_another_failed_keeps_to_its_limits(world, two):
    first, second = two
    first.default = Answer(status=503)
    limit(world, second, "requests", "minute", 2)
    codes = [bypass(world, prompt=str(n)).status_code for n in range(4)]
    assert codes == [200, 200, 503, 503]
    assert (len(first.seen), len(second.seen)) == (4, 2)


def test_the_log_tells_of_requests_that_another_one_served_in_the_end(world, two):
    """Rebuilt is the count of a limit that is new as is that of a Redis that was flushed."""
    first, second = two
    first.default = Answer(status=503)
    assert [world.entry(bypass(world, prompt=str(n))).outcome for n in range(3)] == ["completed"] * 3
    limit(world, first, "requests", "day", 4)
    limit(world, second, "requests", "day", 5)
    assert [bypass(world, prompt=str(n)).status_code for n in range(3)] == [200, 200, 429]
    assert (len(first.seen), len(second.seen)) == (4, 5)


def test_only_the_callers_limits_and_those_of_who_answered_are_told(world, two):
    first, second = two
    third = world.provider()
    rank(world, *two, third)
    first.default = Answer(status=500)
    limit(world, first, "requests", "minute", 40)
    limit(world, second, "requests", "minute", 1)
    limit(world, third, "tokens", "minute", 9000)
    assert bypass(world, prompt="fills the second").status_code == 200
    response = bypass(world, prompt="for the third")
    assert response.headers["X-Svc-Provider"] == world.row(third).name
    assert items(response.headers["RateLimit"]).keys() == {"key", "provider-tokens"}
    Limit.objects.filter(provider=world.row(third)).update(amount=1)
    world.settle()
    response = bypass(world, prompt="for nobody", max_tokens=10)
    assert (response.status_code, items(response.headers["RateLimit"]).keys()) == (502, {"key"})


def test_what_it_used_is_counted_where_it_was_used(world, two):
    first, second = two
    first.answers(status=503)
    for provider in two:
        provider.default.usage = USED
        limit(world, provider, "tokens", "minute", 100)
    assert bypass(world, prompt="a", max_tokens=80).status_code == 200
    assert bypass(world, prompt="b", max_tokens=80).status_code == 200
    assert (len(first.seen), len(second.seen)) == (2, 1)
    response = bypass(world, prompt="c", max_tokens=20)
    assert left(response, "provider-tokens") == 40


def test_what_it_was_at_work_on_without_an_answer_is_used_of_it_too(world, two):
    first, _ = two
    limit(world, first, "tokens", "minute", 1_000)
    first.answers(silent=True)
    headers = {"X-Svc-Timeout": "0.5", "X-Svc-Cache": "bypass"}
    late = world.ask("x" * 4_000, body={"max_tokens": 200}, headers=headers)
    entry = world.entry(late)
    assert (late.status_code, entry.input_tokens, entry.output_tokens) == (504, 501, 200)
    first.answers(usage=USED)
    assert left(bypass(world, max_tokens=20), "provider-tokens") == 269
