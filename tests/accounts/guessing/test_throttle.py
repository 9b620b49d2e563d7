"""Whoever guesses passwords waits, and nobody else."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from accounts.guessing.slowdown import delay_seconds
from accounts.sessions import log_in
from gateway_project.errors import AuthenticationFailed, RateLimited
from tests.support.logins import by_password
from tests.support.management import PASSWORD, new_user, refused
from tests.support.servers import own_redis

pytestmark = pytest.mark.either_store


def share_cache(settings, url):
    cache = {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": url,
        "OPTIONS": {"SERIALIZER": "django_redis.serializers.json.JSONSerializer"},
    }
    settings.REDIS_URL, settings.CACHES = url, {**settings.CACHES, "default": cache}


def replace_each(redis, put):
    for name in redis.keys("*login*"):
        redis.delete(name)
        put(name)


class TestThrottling:
    @pytest.fixture(autouse=True)
    def _few(self, settings):
        settings.GATEWAY_LOGIN_FAILURES, settings.GATEWAY_LOGIN_FAILURES_PER_ADDRESS = 3, 8

    def test_after_so_many_failures_even_the_right_password_waits(self, nobody, ann):
        for _ in range(3):
            refused(by_password(nobody, password="wrong"), 401, "AuthenticationFailed")
        response = by_password(nobody)
        refused(response, 429, "RateLimited")
        assert 800 < int(response.headers["Retry-After"]) <= 900

    def test_a_name_is_one_account_however_it_is_written(self, nobody, ann):
        for name in ("ann", "ANN", "ａｎｎ"):
            by_password(nobody, username=name, password="wrong")
        refused(by_password(nobody), 429, "RateLimited")

    def test_unknown_names_are_throttled_alike(self, nobody, ann):
        for _ in range(3):
            refused(by_password(nobody, username="nosuch"), 401, "AuthenticationFailed")
        refused(by_password(nobody, username="nosuch"), 429, "RateLimited")

    def test_others_are_not_kept_out(self, nobody, ann):
        new_user(username="Bob")
        for _ in range(10):
            by_password(nobody, password="wrong")
        assert by_password(nobody, username="Bob").status_code == 200
        assert log_in(username="Ann", password=PASSWORD, address="192.0.2.7")

    def test_an_address_that_tries_many_names_is_slowed_and_other_accounts_stay_open(self, nobody, ann):
        by_password(nobody, username="touched", password="wrong")
        for number in range(7):
            refused(by_password(nobody, username=f"guess{number}"), 401, "AuthenticationFailed")
        response = by_password(nobody, username="touched")
        refused(response, 429, "RateLimited", "Try again in 5 s.")
        assert response.headers["Retry-After"] == "5"
        assert by_password(nobody).status_code == 200, "nobody guessed at this account from here"
        assert log_in(username="Ann", password=PASSWORD, address="192.0.2.7")

    def test_a_slowed_address_has_one_untouched_account_a_second(self, nobody, ann):
        for number in range(8):
            by_password(nobody, username=f"guess{number}")
        start = time.monotonic()
        codes = [by_password(nobody, username=f"more{number}").status_code for number in range(20)]
        seconds = time.monotonic() - start
        # Implies refusals unless the machine takes almost a second for each login.
        assert 1 <= codes.count(401) <= 3 + seconds, "at once only one a second"
        assert set(codes) <= {401, 429}

    def test_a_good_login_clears_the_accounts_failures_and_costs_none(self, nobody, ann):
        for _ in range(3):  # six of the eight failures that an address has
            by_password(nobody, password="wrong")
            by_password(nobody, password="wrong")
            assert by_password(nobody).status_code == 200
        for _ in range(20):
            assert by_password(nobody).status_code == 200

    def test_guesses_at_the_same_moment_do_not_all_pass_for_the_first(self, nobody, ann):
        with ThreadPoolExecutor(12) as pool:
            codes = list(pool.map(lambda _: by_password(nobody, password="wrong").status_code, range(24)))
        assert sorted(codes) == [401] * 3 + [429] * 21

    def test_a_form_error_is_no_guess(self, nobody, ann):
        for _ in range(5):
            by_password(nobody, password="")
        assert by_password(nobody).status_code == 200

    def test_without_the_shared_cache_each_process_counts(self, nobody, ann, settings):
        from django.core.cache import caches

        share_cache(settings, "redis://127.0.0.1:1/0")
        for _ in range(3):
            refused(by_password(nobody, password="wrong"), 401, "AuthenticationFailed")
        refused(by_password(nobody), 429, "RateLimited")
        caches["login-counts"].clear()
        assert by_password(nobody).status_code == 200

    @pytest.mark.servers
    @pytest.mark.parametrize(
        "spoil",
        [
            lambda redis: redis.config_set("maxmemory", 1),
            lambda redis: redis.config_set("min-replicas-to-write", 1),
            lambda redis: replace_each(redis, lambda name: redis.rpush(name, "x")),
            lambda redis: replace_each(redis, lambda name: redis.set(name, "null")),
            lambda redis: replace_each(redis, lambda name: redis.set(name, '"zzz"')),
            lambda redis: replace_each(redis, lambda name: redis.set(name, "nonsense{")),
            lambda redis: replace_each(redis, lambda name: redis.set(name, "NaN")),
        ],
        ids=["full", "no writes", "list", "null", "text", "nonsense", "no number"],
    )
    def test_a_shared_cache_that_takes_nothing_or_holds_nonsense_does_not_stop_logins(
        self, nobody, ann, settings, spoil
    ):
        with own_redis("--maxmemory-policy", "noeviction") as server, server.client() as redis:
            share_cache(settings, server.url)
            refused(by_password(nobody, password="wrong"), 401, "AuthenticationFailed")
            spoil(redis)
            assert by_password(nobody).status_code == 200
            for _ in range(3):
                refused(by_password(nobody, password="wrong"), 401, "AuthenticationFailed")
            refused(by_password(nobody), 429, "RateLimited")

    def test_an_ipv6_network_of_64_bits_is_one_address(self, nobody, ann):
        def attempt(address, password="wrong"):
            return log_in(username="ann", password=password, address=address)

        for number in range(3):
            with pytest.raises(AuthenticationFailed):
                attempt(f"2001:db8::{number}:1")
        with pytest.raises(RateLimited):
            attempt("2001:db8::ffff", PASSWORD)
        assert attempt("2001:db8:0:1::1", PASSWORD)

    def test_clients_of_ipv4_are_apart_also_where_the_server_listens_on_ipv6(self, nobody, ann):
        """There the kernel writes them as ::ffff:ADDRESS: all of them one network of 64 bits."""
        for _ in range(3):
            with pytest.raises(AuthenticationFailed):
                log_in(username="ann", password="wrong", address="::ffff:203.0.113.7")
        with pytest.raises(RateLimited):
            log_in(username="ann", password=PASSWORD, address="203.0.113.7")
        assert log_in(username="ann", password=PASSWORD, address="::ffff:203.0.113.8")


class TestGuessesFromManyAddresses:
    @pytest.fixture(autouse=True)
    def _few(self, settings, nobody, ann):
        settings.GATEWAY_LOGIN_FAILURES_PER_ACCOUNT = 4

    def guess(self, place, password="wrong"):
        return log_in(username="ann", password=password, address=f"192.0.2.{place}")

    def fail(self, times):
        for place in range(times):
            with pytest.raises(AuthenticationFailed):
                self.guess(place)

    def test_are_slowed_and_the_owner_gets_in_after_the_delay_whoever_else_guesses(self, monkeypatch):
        now = time.time()
        self.fail(4)
        with pytest.raises(RateLimited) as refusal:
            self.guess(99, PASSWORD)
        assert refusal.value.retry_after == 5
        monkeypatch.setattr("accounts.guessing.slowdown.time.time", lambda: now + 10)
        for place in range(50, 60):
            with pytest.raises(RateLimited):
                self.guess(place)
        assert self.guess(99, PASSWORD)

    def test_a_turn_is_used_once(self, monkeypatch):
        now = time.time()
        self.fail(4)
        with pytest.raises(RateLimited):
            self.guess(99)
        monkeypatch.setattr("accounts.guessing.slowdown.time.time", lambda: now + 10)
        with pytest.raises(AuthenticationFailed):
            self.guess(99)
        with pytest.raises(RateLimited):
            self.guess(99, PASSWORD)

    def test_who_comes_too_early_keeps_the_turn(self, monkeypatch):
        now = time.time()
        self.fail(4)
        for later in (0, 2, 4):
            monkeypatch.setattr("accounts.guessing.slowdown.time.time", lambda later=later: now + later)
            with pytest.raises(RateLimited):
                self.guess(99, PASSWORD)
        monkeypatch.setattr("accounts.guessing.slowdown.time.time", lambda: now + 7)
        assert self.guess(99, PASSWORD)

    def test_the_owner_is_not_slowed_where_they_have_logged_in_before(self):
        assert self.guess(77, PASSWORD)
        self.fail(4)
        with pytest.raises(RateLimited):
            self.guess(99, PASSWORD)
        assert self.guess(77, PASSWORD)

    def test_the_delay_grows_and_has_an_end(self):
        assert [delay_seconds(excess) for excess in (1, 5, 6, 11, 21, 31, 10_000)] == [5, 5, 10, 20, 80, 300, 300]
