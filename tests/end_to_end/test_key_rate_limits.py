"""The requests per minute of a key: exact, counted before rules and body, and told in headers."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from licensing.models import Limit
from tests.support.pace import in_one_minute
from tests.support.world import limited_key

pytestmark = pytest.mark.either_store


class TestLimits:
    def test_the_headers_tell_what_is_left(self, world, provider):
        in_one_minute(6)
        key = limited_key(world, 3)
        rest = []
        for _ in range(3):
            response = world.ask(key=key)
            assert response.headers["RateLimit-Policy"] == '"key";q=3;w=60'
            amount, reset = response.headers["RateLimit"].removeprefix('"key";').split(";")
            rest.append(int(amount.removeprefix("r=")))
            assert 0 < int(reset.removeprefix("t=")) <= 60
        assert rest == [2, 1, 0]

    def test_a_request_over_the_limit_is_told_when_to_come_back(self, world, provider):
        in_one_minute(6)
        key = limited_key(world, 2)
        world.ask(key=key)
        world.ask(key=key)
        response = world.ask("new", key=key)
        assert (response.status_code, response.json()["exception"]) == (429, "RateLimited")
        assert 0 < int(response.headers["Retry-After"]) <= 60
        assert '"key";r=0' in response.headers["RateLimit"]
        assert len(provider.seen) == 1
        entry = world.entry(response)
        assert (entry.outcome, entry.status, entry.severity) == ("denied", 429, "warning")
        assert entry.entry_source == "Not Set"

    def test_it_is_exact_under_many_requests_at_once(self, world, provider):
        in_one_minute(6)
        key = limited_key(world, 10)
        with ThreadPoolExecutor(30) as pool:
            statuses = list(pool.map(lambda number: world.ask(f"{number}", key=key).status_code, range(30)))
        assert (statuses.count(200), statuses.count(429)) == (10, 20)
        assert len(provider.seen) == 10

    def test_each_key_has_its_own(self, world, provider):
        in_one_minute(6)
        one, other = limited_key(world, 1), limited_key(world, 1)
        assert [world.ask(key=key).status_code for key in (one, one, other, other)] == [200, 429, 200, 429]

    def test_zero_is_unlimited(self, world, provider):
        response = world.ask(key=limited_key(world, 0))
        assert response.status_code == 200
        assert "RateLimit" not in response.headers

    def test_a_key_has_600_unless_told(self, world, provider):
        assert world.ask().headers["RateLimit-Policy"] == '"key";q=600;w=60'

    @pytest.mark.parametrize("kind", ["body", "rule", "media type", "provider"])
    def test_requests_that_fail_count_too_and_the_limit_is_said_first(self, world, kind):
        world.provider()
        in_one_minute(6)
        if kind == "provider":
            world.allow()
        key = limited_key(world, 2)
        ask = {
            "body": lambda: world.post(b"{", key=key),
            "rule": lambda: world.ask(key=key),
            "media type": lambda: world.post(b"{", key=key, headers={"Content-Type": "text/plain"}),
            "provider": lambda: world.ask(key=key, body={"model": "nobody-has-it"}),
        }[kind]
        code = {"body": 400, "rule": 403, "media type": 415, "provider": 400}[kind]
        assert [ask().status_code for _ in range(4)] == [code, code, 429, 429]

    def test_a_changed_limit_counts_within_a_second(self, world, provider):
        in_one_minute(6)
        issued = world.new_key()
        assert world.ask(key=issued.text).status_code == 200
        limit = Limit.objects.create(key=issued.key, measure="requests", window="minute", amount=1)
        world.soon(lambda: world.ask(key=issued.text), 429)
        limit.delete()
        world.soon(lambda: world.ask(key=issued.text), 200)
