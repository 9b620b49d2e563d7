"""Limits on tokens, cost, concurrent requests and quotas, of keys, users, groups and providers, end to end."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest

from licensing.models import Limit
from licensing.services import change_limit, delete_limit, set_limit
from tests.support.limiting import USED, bypass, items, left, limited, refused
from tests.support.pace import in_one_minute
from tests.support.promises import promise
from tests.support.provider_answers import Answer

AS_THE_LIMIT_SAYS = promise(
    "Work without a price is refused, counted or ignored as its limit says",
    target="429; the price of the limit; 200",
    suite="attack",
)


class TestTokens:
    @pytest.fixture
    def provider(self, provider):
        provider.default = Answer(usage=USED)
        return provider

    @pytest.mark.parametrize("subject", ["key", "user", "group"])
    def test_what_was_used_counts_and_not_what_was_reserved(self, world, provider, subject):
        key = limited(world, "tokens", "minute", 100, subject)
        responses = [bypass(world, key, max_tokens=30) for _ in range(4)]
        assert [response.status_code for response in responses] == [200, 200, 200, 429]
        policy = next(name for name in items(responses[0].headers["RateLimit"]) if name.endswith("tokens"))
        assert [left(response, policy) for response in responses[:3]] == [70, 40, 10]
        refused(responses[3], "RateLimited", "(100 tokens per minute)", f"token limit of {subject} ", "It resets at")
        assert bypass(world, key, max_tokens=5).status_code == 200
        assert len(provider.seen) == 4

    def test_requests_that_come_together_cannot_overspend(self, world, provider):
        provider.default.delay = 1.0
        key = limited(world, "tokens", "minute", 200)
        with ThreadPoolExecutor(12) as pool:
            codes = list(pool.map(lambda n: bypass(world, key, str(n), max_tokens=38).status_code, range(12)))
        # Each may come to 40 (2 of them for its prompt): five find room, whatever they come to.
        assert (codes.count(200), codes.count(429)) == (5, 7)
        assert bypass(world, key, max_tokens=38).status_code == 200

    def test_a_request_that_does_not_say_how_much_it_wants_gets_what_there_is(self, world, provider):
        provider.default.delay = 1.0
        key = limited(world, "tokens", "minute", 100)
        with ThreadPoolExecutor(4) as pool:
            codes = list(pool.map(lambda n: bypass(world, key, str(n)).status_code, range(4)))
        assert (codes.count(200), codes.count(429)) == (1, 3)
        assert [bypass(world, key).status_code for _ in range(4)] == [200, 200, 200, 429]

    @pytest.mark.parametrize("expected", [{"n": -5}, {"n": 0}, {"best_of": -1}, {"n": -(10**30)}])
    def test_fewer_answers_than_one_take_nothing_back(self, world, provider, expected):
        provider.default.delay = 1.0
        key = limited(world, "tokens", "minute", 100)
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(bypass, world, key, max_tokens=90, **expected)
            provider.wait_for(1)
            assert bypass(world, key, max_tokens=50).status_code == 429
            assert first.result().status_code == 200

    def test_a_request_that_never_fits_is_told_what_would(self, world, provider):
        key = limited(world, "tokens", "minute", 100)
        refused(
            bypass(world, key, max_tokens=200),
            "RateLimited",
            "may use up to 204 tokens, more than",
            "100 tokens",
            "max_tokens",
        )
        assert provider.seen == []

    def test_clients_are_told_not_to_repeat_what_never_fits(self, world, provider):
        key = limited(world, "tokens", "minute", 100)
        body = {"model": world.model, "messages": [{"role": "user", "content": "Hi"}]}
        first = world.post(body | {"max_tokens": 20}, key=key, path="/v1/chat/completions")
        later, never = (
            world.post(body | {"max_tokens": most}, key=key, path="/v1/chat/completions") for most in (90, 200)
        )
        assert [response.status_code for response in (first, later, never)] == [200, 429, 429]
        assert [response.headers.get("x-should-retry") for response in (later, never)] == [None, "false"]

    def test_a_refusal_tells_what_is_left_of_all_limits(self, world, provider):
        key = limited(world, "tokens", "day", 1000)
        provider.default = Answer(usage={"prompt_tokens": 4, "completion_tokens": 8})
        assert bypass(world, key).status_code == 200
        response = bypass(world, key, max_tokens=990)
        refused(response, "QuotaExceeded", "too little left for this request")
        assert (left(response, "key-tokens-day"), left(response, "key")) == (988, 599)

    def test_a_stored_answer_costs_no_tokens_and_is_refused_once_they_are_used_up(self, world, provider):
        key = limited(world, "tokens", "minute", 65)
        body = {"max_tokens": 30}
        assert [world.ask("stored", key=key, body=body).headers["X-Svc-Cache"] for _ in range(3)] == ["MISS"] + [
            "HIT"
        ] * 2
        assert world.ask("other", key=key, body=body).status_code == 200
        assert world.ask("third", key=key, body=body).status_code == 429
        hit = world.ask("stored", key=key, body=body)
        assert (hit.headers["X-Svc-Cache"], left(hit, "key-tokens")) == ("HIT", 5)
        assert world.ask("fourth", key=key, body={"max_tokens": 1}).status_code == 200
        assert world.ask("stored", key=key, body=body).status_code == 429

    def test_who_waits_for_the_same_answer_reserves_nothing(self, world, provider):
        provider.default.delay = 0.5
        key = limited(world, "tokens", "minute", 40)
        with ThreadPoolExecutor(8) as pool:
            codes = list(pool.map(lambda n: world.ask("same", key=key, body={"max_tokens": 30}).status_code, range(8)))
        assert codes == [200] * 8
        assert len(provider.seen) == 1

    def test_a_stream_that_is_left_counts_what_was_produced(self, world, provider):
        provider.default = Answer(text="word " * 40, pace=0.05, usage=USED)
        key = limited(world, "tokens", "minute", 1000)
        with world.stream(key=key, body={"max_tokens": 900}, headers={"X-Svc-Cache": "bypass"}) as response:
            next(response.iter_content(1))
            assert left(response, "key-tokens") < 100
        entry = world.entry(response)
        assert entry.outcome == "client_closed"
        assert (
            left(bypass(world, key, max_tokens=1), "key-tokens") == 1000 - 30 - entry.input_tokens - entry.output_tokens
        )

    def test_who_leaves_before_the_first_byte_pays_what_was_reserved(self, world, provider):
        provider.default = Answer(usage=USED)
        provider.answers(silent=True)
        key, name = limited(world, "tokens", "minute", 1000), f"leaves-{world.number}"
        message = {"messages": [{"role": "user", "content": "x" * 800}], "max_tokens": 500}
        sock = world.send(message, f"X-Svc-Request-ID: {name}", key=key)
        provider.wait_for(1)
        sock.close()
        entry = world.entry(name)
        assert (entry.input_tokens, entry.output_tokens, entry.usage_estimated) == (101, 500, True)
        assert left(bypass(world, key, max_tokens=1), "key-tokens") == 1000 - 601 - 30

    @pytest.mark.parametrize("script", [{"status": 500}, {"status": 400}, {"cut_after": 0}], ids=str)
    def test_what_failed_gives_back_what_was_reserved(self, world, provider, script):
        key = limited(world, "tokens", "minute", 100)
        provider.answers(**script)
        assert bypass(world, key, max_tokens=90).status_code >= 400
        assert left(bypass(world, key, max_tokens=90), "key-tokens") == 70

    @pytest.mark.parametrize("tokens", [10**30, -(10**30), -1, 2.5, "many", 2**63])
    def test_what_no_counter_could_have_counted_is_estimated_and_never_gives_tokens_back(self, world, provider, tokens):
        provider.default = Answer(usage={"prompt_tokens": tokens, "completion_tokens": tokens})
        key = limited(world, "tokens", "minute", 100)
        results = [bypass(world, key, max_tokens=10) for _ in range(3)]
        assert {response.status_code for response in results} == {200}, results[0].text
        amounts = [100, *(left(response, "key-tokens") for response in results)]
        assert all(0 <= after < before for before, after in pairwise(amounts)), amounts


class TestCost:
    def test_money_is_counted_to_the_last_billionth(self, world, provider):
        world.price(Decimal("0.15"), Decimal("0.60"))
        provider.default = Answer(usage=USED)
        key = limited(world, "cost", "day", "0.000041")
        responses = [bypass(world, key, max_tokens=20) for _ in range(4)]
        # Each costs 10 * 0.15 + 20 * 0.60 = 13.5 millionths, and may cost 12.3 before it is known.
        assert [response.status_code for response in responses] == [200, 200, 200, 429]
        assert [left(response, "key-cost-day") for response in responses[:3]] == [27, 14, 0]
        refused(responses[3], "QuotaExceeded", "0.000041", "daily cost limit of key ")

    @AS_THE_LIMIT_SAYS
    @promise("A model without a price is not free under a cost limit", target="refused", suite="attack")
    def test_a_model_without_a_price_is_refused(self, world, provider):
        key = limited(world, "cost", "day", 1)
        response = bypass(world, key, max_tokens=20)
        refused(response, "QuotaExceeded", "has no price", "daily cost limit of key ", world.model)
        assert provider.seen == []

    @promise("A model without a price is not free under a cost limit", target="refused", suite="attack")
    @pytest.mark.parametrize(("unpriced", "status"), [("refuse", 429), ("count", 200)])
    def test_nor_is_one_that_a_linked_key_invents(self, world, provider, unpriced, status):
        world.price(1, 1)
        issued = world.new_key(provider=world.row(provider))
        price = {"unpriced_price": 1} if unpriced == "count" else {}
        Limit.objects.create(key=issued.key, measure="cost", window="day", amount=1, unpriced=unpriced, **price)
        response = bypass(world, issued.text, model="invented", max_tokens=20)
        assert response.status_code == status
        assert len(provider.seen) == (status == 200)
        if status == 429:
            refused(response, "QuotaExceeded", "has no price", "invented")
        else:
            assert left(response, "key-cost-day") < 10**9

    @AS_THE_LIMIT_SAYS
    def test_it_is_served_where_the_limit_ignores_prices(self, world, provider):
        key = limited(world, "cost", "day", "0.000001", unpriced="ignore")
        assert [bypass(world, key, max_tokens=20).status_code for _ in range(3)] == [200] * 3

    @AS_THE_LIMIT_SAYS
    def test_it_counts_at_the_limits_own_price(self, world, provider):
        provider.default = Answer(usage={"prompt_tokens": 100, "completion_tokens": 100})
        key = limited(world, "cost", "day", "0.0005", unpriced="count", unpriced_price=1)
        assert [left(bypass(world, key, max_tokens=100), "key-cost-day") for _ in range(2)] == [300, 100]
        refused(bypass(world, key, max_tokens=100), "QuotaExceeded", "daily cost limit of key ")

    def test_another_provider_with_a_price_serves_instead(self, world, provider):
        other = world.provider(priority=200)
        world.price(1, 1, provider=world.row(other))
        key = limited(world, "cost", "day", 1)
        assert bypass(world, key, max_tokens=20).status_code == 200
        assert (len(provider.seen), len(other.seen)) == (0, 1)
        other.answers(status=500)
        assert bypass(world, key, max_tokens=20).status_code == 502
        assert provider.seen == []

    def test_one_without_a_price_does_not_stand_in_for_one_that_fails(self, world, provider):
        """The circuit of the only provider that can serve opens; the client still learns that it fails."""
        other = world.provider(priority=200)
        world.price(1, 1, provider=world.row(other))
        key = limited(world, "cost", "day", 1)
        other.default = Answer(status=500)
        assert {bypass(world, key, max_tokens=20).status_code for _ in range(20)} == {502}
        other.default = Answer()
        assert bypass(world, key, max_tokens=20).status_code == 200
        assert provider.seen == []


class TestConcurrency:
    @pytest.mark.parametrize("subject", ["key", "user", "group"])
    def test_so_many_run_at_once_and_each_end_makes_room(self, world, provider, subject):
        key = limited(world, "concurrent", "none", 3, subject)
        for kind in ("whole", "stream"):
            provider.default = Answer(text="one two three", delay=0.6)
            with ThreadPoolExecutor(8) as pool:
                ask = lambda n, kind=kind: bypass(world, key, f"{kind} {n}", stream=kind == "stream").status_code  # noqa: E731
                codes = list(pool.map(ask, range(8)))
            assert (codes.count(200), codes.count(429)) == (3, 5)
        response = bypass(world, key)
        assert response.status_code == 200
        policy = next(name for name in items(response.headers["RateLimit"]) if name.endswith("concurrent"))
        assert items(response.headers["RateLimit-Policy"])[policy] == {"q": 3, "qu": "concurrent-requests"}
        assert items(response.headers["RateLimit"])[policy] == {"r": 3}, "its own place is free again"
        with bypass(world, key, stream=True) as response:
            assert items(response.headers["RateLimit"])[policy] == {"r": 2}

    def test_a_client_that_leaves_makes_room(self, world, provider):
        key = limited(world, "concurrent", "none", 1)
        provider.answers(delay=6)
        sock = world.send({"model": world.model}, key=key)
        provider.wait_for(1)
        refused(bypass(world, key), "RateLimited", "(1 concurrent request)", "when one of its requests has finished")
        sock.close()
        world.soon(lambda: bypass(world, key), 200, seconds=3)

    def test_stored_answers_do_not_stay(self, world, provider):
        key = limited(world, "concurrent", "none", 1)
        codes = [world.ask("same", key=key).status_code for _ in range(5)]
        assert codes == [200] * 5


class TestQuotas:
    @pytest.mark.parametrize("window", ["day", "month"])
    @pytest.mark.parametrize("subject", ["key", "user", "group"])
    def test_requests_are_counted_stored_answers_among_them(self, world, provider, window, subject):
        key = limited(world, "requests", window, 3, subject)
        responses = [world.ask("same", key=key) for _ in range(3)] + [world.ask("other", key=key)]
        assert [response.status_code for response in responses] == [200, 200, 200, 429]
        adjective = {"day": "daily", "month": "monthly"}[window]
        refused(responses[3], "QuotaExceeded", f"The {adjective} request limit of {subject} ", "(3 requests)")
        resets = datetime.now(UTC) + timedelta(seconds=int(responses[3].headers["Retry-After"]))
        assert (resets + timedelta(seconds=5)).strftime("%H:%M") == "00:00"
        assert window == "day" or (resets + timedelta(seconds=5)).day == 1
        headers = items(responses[3].headers["RateLimit"])
        assert [headers[policy]["r"] for policy in headers if policy.endswith(window)] == [0]

    def test_a_new_quota_counts_what_was_used_before_it_was_set(self, world, provider):
        provider.default = Answer(usage=USED)
        issued = world.new_key()
        entries = [world.entry(world.ask(str(number), key=issued.text)) for number in range(4)]
        assert len(entries) == 4
        for measure, amount in (("requests", 6), ("tokens", 1000)):
            Limit.objects.create(measure=measure, window="month", amount=amount, key=issued.key)
        world.settle()
        response = world.ask("4", key=issued.text, body={"max_tokens": 10})
        assert (left(response, "key-month"), left(response, "key-tokens-month")) == (1, 1000 - 5 * 30)
        assert [world.ask("4", key=issued.text).status_code for _ in range(2)] == [200, 429]

    def test_a_quota_that_was_away_knows_what_happened_meanwhile(self, world, provider):
        key = world.new_key()
        quota = {"measure": "requests", "window": "month", "amount": Decimal(20), "key": key.key}
        row = set_limit(**quota)
        world.settle()
        response = world.ask(key=key.text)
        assert left(response, "key-month") == 19
        assert world.entry(response).outcome == "completed"
        delete_limit(row)
        for _ in range(2):
            world.settle()
            assert "key-month" not in items(world.ask(key=key.text).headers["RateLimit-Policy"])
        row = set_limit(**quota)
        world.settle()
        assert left(world.ask(key=key.text), "key-month") == 16
        change_limit(row, amount=Decimal(0))
        world.settle()
        assert world.ask(key=key.text).status_code == 200
        change_limit(row, amount=Decimal(20))
        world.settle()
        assert left(world.ask(key=key.text), "key-month") == 14

    def test_a_request_that_is_under_way_when_a_quota_is_set_counts_too(self, world, provider):
        provider.default = Answer(usage=USED)
        provider.answers(delay=1.0, usage=USED)
        key = world.new_key()
        assert world.get("/v1/models", key=key.text).status_code == 200
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(bypass, world, key.text, "first")
            provider.wait_for(1)
            for measure in ("requests", "tokens"):
                set_limit(measure=measure, window="month", amount=Decimal(1000), key=key.key)
            world.settle()
            second = bypass(world, key.text, "second", max_tokens=20)
            assert first.result().status_code == second.status_code == 200
        third = bypass(world, key.text, "third", max_tokens=20)
        assert (left(third, "key-month"), left(third, "key-tokens-month")) == (997, 1000 - 3 * 30)


def test_all_that_apply_are_told_and_the_first_that_refuses_is_said(world, provider):
    issued = world.new_key()
    Limit.objects.create(measure="requests", window="minute", amount=50, key=issued.key)
    Limit.objects.create(measure="requests", window="minute", amount=2, user=world.user)
    Limit.objects.create(measure="tokens", window="minute", amount=5000, user=world.user)
    Limit.objects.create(measure="concurrent", window="none", amount=9, user=world.user)
    in_one_minute(10)
    response = world.ask("1", key=issued.text)
    headers = items(response.headers["RateLimit-Policy"])
    assert headers == {
        "key": {"q": 50, "w": 60},
        "user": {"q": 2, "w": 60},
        "user-tokens": {"q": 5000, "qu": "tokens", "w": 60},
        "user-concurrent": {"q": 9, "qu": "concurrent-requests"},
    }
    assert items(response.headers["RateLimit"]).keys() == headers.keys()
    assert world.ask("2", key=issued.text).status_code == 200
    response = world.ask("3", key=issued.text)
    refused(response, "RateLimited", f"limit of user {world.user.username} (2 requests per minute)")
    Limit.objects.filter(user=world.user, window="minute", measure="requests").update(amount=0)
    assert left(world.soon(lambda: world.ask("3", key=issued.text), 200), "key") == 47, "a refused request was counted"


def test_a_login_has_the_limits_of_its_user(world, provider):
    from tests.support.management import token_of

    Limit.objects.create(measure="requests", window="minute", amount=1, user=world.user)
    in_one_minute(10)
    assert [world.ask(key=token_of(world.user)).status_code for _ in range(2)] == [200, 429]


def test_defaults_are_settings(own_gateway):
    world = own_gateway(
        GATEWAY_KEY_REQUESTS_PER_MINUTE="0",
        GATEWAY_KEY_LIMITS="concurrent=4, tokens/minute=900",
        GATEWAY_USER_LIMITS="requests/day=3",
    )
    world.allow()
    world.provider()
    policies = items(world.ask().headers["RateLimit-Policy"])
    assert policies.keys() == {"key-concurrent", "key-tokens", "user-day"}
    assert [world.ask().status_code for _ in range(3)] == [200, 200, 429]


def test_a_changed_limit_holds_within_a_second(world, provider):
    key = limited(world, "requests", "minute", 1)
    assert [world.ask(key=key).status_code for _ in range(2)] == [200, 429]
    Limit.objects.filter(key__name__startswith="key-").update(amount=5)
    world.soon(lambda: world.ask(key=key), 200)
