"""Whoever makes up names does not push out what is counted of others, where a process counts alone."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.core.cache import caches

from accounts.guessing.slowdown import seconds_until_turn
from accounts.guessing.stores import ProcessStore, current_stores
from accounts.guessing.throttle import CODES_A_DAY, code_guess, throttle_guess
from gateway_project.errors import AuthenticationFailed, RateLimited, ServiceUnavailable
from tests.support.promises import promise

pytestmark = pytest.mark.either_store

CAPACITY = 80
ATTACKER = "203.0.113.66"


@pytest.fixture(autouse=True)
def _own_stores(settings, request):
    """Without Redis, and with little room, so that few names fill it."""
    settings.REDIS_URL = ""
    small = {"BACKEND": "accounts.guessing.stores.ProcessStore", "OPTIONS": {"MAX_ENTRIES": CAPACITY}}
    names = ("login-counts", "login-times")
    settings.CACHES = settings.CACHES | {name: small | {"LOCATION": f"{request.node.nodeid} {name}"} for name in names}


def attempt(username: str, address: str, error: Exception | None = None) -> str:
    """A wrong password, or a check that ends with another error; the error that the client gets."""
    try:
        with throttle_guess(username, address):
            raise error or AuthenticationFailed("wrong")
    except (AuthenticationFailed, RateLimited, ServiceUnavailable) as refusal:
        return type(refusal).__name__


def number_of_counts() -> int:
    store = caches["login-counts"]
    assert isinstance(store, ProcessStore)
    return len(store._table.numbers)


def use_up(username: str) -> None:
    for number in range(20):
        assert attempt(username, f"198.51.100.{number}") == "AuthenticationFailed"
    assert attempt(username, "198.51.100.99") == "RateLimited"


@promise("Logins with random names make no count forgotten", target="the 21st guess: 429", suite="attack")
def test_random_names_of_one_address_push_out_no_count(settings):
    settings.GATEWAY_LOGIN_FAILURES_PER_ADDRESS = 10
    use_up("target")
    for number in range(20 * CAPACITY):
        attempt(f"random-{number}", ATTACKER)
    assert attempt("target", "198.51.100.98") == "RateLimited"
    codes = [attempt(f"more-{number}", ATTACKER) for number in range(10)]
    assert codes.count("RateLimited") > 5, "nor is the attacker's own address forgotten"


@promise("Logins with random names make no count forgotten", target="the 21st guess: 429", suite="attack")
def test_random_names_from_as_many_addresses_push_out_no_count():
    """Each is checked, and so has counts of its own."""
    use_up("target")
    for number in range(5 * CAPACITY):
        assert attempt(f"random-{number}", f"2001:db8:0:{number:x}::1") == "AuthenticationFailed"
    assert attempt("target", "198.51.100.98") == "RateLimited"
    assert number_of_counts() <= CAPACITY


@promise("Logins with random names make no count forgotten", target="the 21st guess: 429", suite="attack")
def test_random_names_push_out_no_count_of_codes():
    for _ in range(CODES_A_DAY):
        with pytest.raises(AuthenticationFailed), code_guess("target"):
            raise AuthenticationFailed("wrong")
    for number in range(5 * CAPACITY):
        attempt(f"random-{number}", f"2001:db8:0:{number:x}::1")
    with pytest.raises(RateLimited), code_guess("target"):
        pytest.fail("the code was checked")


def test_a_refused_name_of_an_address_at_its_limit_has_no_count(settings):
    settings.GATEWAY_LOGIN_FAILURES_PER_ADDRESS = 5
    for number in range(6):  # one more a second is checked
        attempt(f"random-{number}", ATTACKER)
    before = number_of_counts()
    assert {attempt(f"more-{number}", ATTACKER) for number in range(5)} == {"RateLimited"}
    assert number_of_counts() == before


def test_a_login_whose_password_was_not_checked_leaves_no_count():
    assert attempt("ann", ATTACKER, ServiceUnavailable("full", retry_after=1)) == "ServiceUnavailable"
    assert number_of_counts() == 0


def test_a_turn_outlasts_as_many_others_as_there_is_room_for(monkeypatch):
    times, now = current_stores().times, 1_000_000.0
    monkeypatch.setattr("accounts.guessing.slowdown.time.time", lambda: now)
    assert seconds_until_turn(times, 5, "owner") == 5
    for number in range(CAPACITY // 2):
        now += 0.1
        seconds_until_turn(times, 5, f"random-{number}")
    now += 5
    assert seconds_until_turn(times, 5, "owner") == 0


class TestProcessStore:
    @pytest.fixture
    def store(self):
        return caches["login-counts"]

    def test_adds_only_what_is_missing_and_counts_on(self, store):
        assert store.add("a", 3, 60)
        assert not store.add("a", 9, 60)
        assert (store.incr("a"), store.decr("a"), store.get("a")) == (4, 3, 3)
        assert store.get("b") is None
        with pytest.raises(ValueError, match="not found"):
            store.incr("b")

    def test_what_comes_down_to_nothing_is_gone(self, store):
        store.add("a", 1, 60)
        assert store.decr("a") == 0
        assert (store.get("a"), number_of_counts()) == (None, 0)

    def test_a_number_ends_at_its_time(self, store, monkeypatch):
        now = 100.0
        monkeypatch.setattr("accounts.guessing.stores.time.monotonic", lambda: now)
        store.add("a", 1, 60)
        assert (store.ttl("a"), store.ttl("b")) == (60, 0)
        now = 159.0
        assert store.incr("a") == 2
        assert store.ttl("a") == 1
        now = 160.0
        assert (store.get("a"), store.ttl("a"), store.delete("a")) == (None, 0, False)
        assert store.add("a", 1, 60)

    def test_what_has_ended_makes_room_first_then_the_lowest(self, store, monkeypatch):
        now = 100.0
        monkeypatch.setattr("accounts.guessing.stores.time.monotonic", lambda: now)
        store.add("high but over", 1000, 10)
        for number in range(1, CAPACITY):
            store.add(f"{number}", number, 60)
        now = 120.0
        store.add("new", 1, 60)
        assert store.get("high but over") is None
        numbers = [number for number in range(1, CAPACITY) if store.get(f"{number}")]
        assert numbers == list(range(CAPACITY - len(numbers), CAPACITY))
        assert len(numbers) == CAPACITY * 7 // 8

    def test_counts_at_the_same_moment_are_all_counted(self, store):
        store.add("a", 0, 60)
        with ThreadPoolExecutor(8) as pool:
            assert sorted(pool.map(lambda _: caches["login-counts"].incr("a"), range(400))) == list(range(1, 401))
