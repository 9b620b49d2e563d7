"""Few passwords are checked at once, few more wait, and nobody waits long."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.hashers import Argon2PasswordHasher

from accounts import services, sessions
from accounts.guessing import hashing
from accounts.guessing.hashing import HashingQueue
from accounts.models import User
from accounts.services import users
from accounts.sessions import log_in
from gateway_project.errors import AuthenticationFailed, RateLimited, ServiceUnavailable
from tests.support.promises import promise

pytestmark = [pytest.mark.embedded, pytest.mark.long]


@pytest.fixture(autouse=True)
def gateway_hashers(settings):
    """Those of the gateway, which other tests do without."""
    settings.PASSWORD_HASHERS = ["accounts.guessing.hashing.SingleThreadHasher"]


@pytest.fixture
def gate(monkeypatch):
    """Every check waits until this is set."""
    gate = threading.Event()
    monkeypatch.setattr(hashing, "check_password", lambda password, encoded: gate.wait(20) and password == encoded)
    yield gate
    gate.set()


def test_beyond_its_places_a_check_is_refused_at_once(gate):
    queue = HashingQueue(threads=1, waiting=1)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(queue.is_correct, "a", "a")
        while queue._places._value != 1:
            pass
        queue._places.acquire()  # one more waits
        with pytest.raises(ServiceUnavailable) as refusal:
            queue.is_correct("b", "b")
        assert refusal.value.headers["Retry-After"] == "1"
        gate.set()
        assert running.result() is True


def test_one_that_does_not_begin_in_time_is_refused_and_leaves_its_place(gate, monkeypatch):
    monkeypatch.setattr(hashing, "WAIT_SECONDS", 0.05)
    queue = HashingQueue(threads=1, waiting=1)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(queue.is_correct, "a", "b")
        while queue._places._value != 1:
            pass
        for _ in range(3):
            with pytest.raises(ServiceUnavailable, match="Too many logins"):
                queue.is_correct("b", "b")
        gate.set()
        assert running.result() is False
    monkeypatch.setattr(hashing, "WAIT_SECONDS", 10)
    assert queue.is_correct("c", "c") is True


def test_setting_a_password_waits_for_its_turn_but_takes_no_place_of_logins(db, monkeypatch):
    monkeypatch.setattr(users, "hashing_queue", full := HashingQueue(threads=1, waiting=0))
    full._places.acquire()
    ann = services.create_user(username="ann", password="a good one 5!")
    services.update_user(ann, password="another good one 6!")
    full._turn.acquire()
    monkeypatch.setattr(hashing, "PATIENT_SECONDS", 0.05)
    with pytest.raises(ServiceUnavailable, match="Try again"):
        services.create_user(username="bob", password="a good one 5!")
    with pytest.raises(ServiceUnavailable, match="Try again"):
        services.update_user(ann, password="yet another good one 7!")


@promise("Whoever changes passwords without end keeps nobody from logging in", target="no 503", suite="attack")
def test_password_changes_of_a_user_leave_the_places_to_logins(gate):
    queue = HashingQueue(threads=1, waiting=2)
    with ThreadPoolExecutor(12) as pool:
        first = pool.submit(queue.is_correct, "a", "a", owner=1)
        while queue._turn._value:
            pass
        for _ in range(10):
            with pytest.raises(ServiceUnavailable, match="Another password of this user") as refusal:
                queue.is_correct("a", "a", owner=1)
            assert refusal.value.headers["Retry-After"] == "1"
        others = [pool.submit(queue.is_correct, "b", "b", owner=number) for number in range(2, 8)]
        logins = [pool.submit(queue.is_correct, "c", "c") for _ in range(3)]
        gate.set()
        assert {check.result() for check in (first, *others, *logins)} == {True}
    assert queue.is_correct("a", "a", owner=1) is True


@pytest.fixture
def full_queue(monkeypatch):
    """A queue in which no place is free, so that nobody has a password checked."""
    full = HashingQueue(threads=1, waiting=0)
    full._places.acquire()
    monkeypatch.setattr(sessions, "hashing_queue", full)
    return full


@promise("Who is throttled takes no place among those who wait for a hash", target="429 before 503", suite="attack")
def test_the_throttle_comes_before_the_queue(db, settings, monkeypatch):
    settings.GATEWAY_LOGIN_FAILURES = 2
    services.create_user(username="ann", password="a good one 5!")
    for _ in range(2):
        with pytest.raises(AuthenticationFailed):
            log_in(username="ann", password="wrong", address="127.0.0.11")
    hashes = []
    monkeypatch.setattr(hashing, "check_password", lambda password, encoded: hashes.append(encoded))
    for _ in range(3):
        with pytest.raises(RateLimited):
            log_in(username="ann", password="a good one 5!", address="127.0.0.11")
    assert hashes == []


@promise("Who is throttled takes no place among those who wait for a hash", target="429 before 503", suite="attack")
def test_who_is_throttled_does_not_wait_behind_others(db, settings, full_queue):
    settings.GATEWAY_LOGIN_FAILURES = 1
    services.create_user(username="ann", password="a good one 5!")
    with pytest.raises(ServiceUnavailable):  # no guess: it does not count
        log_in(username="ann", password="wrong", address="127.0.0.10")
    full_queue._places.release()
    with pytest.raises(AuthenticationFailed):
        log_in(username="ann", password="wrong", address="127.0.0.10")
    full_queue._places.acquire()
    with pytest.raises(RateLimited):
        log_in(username="ann", password="a good one 5!", address="127.0.0.10")


def test_a_hash_has_one_lane_so_that_its_thread_alone_computes_it():
    assert "p=1$" in hashing.hashing_queue.hash("x")


def test_a_login_renews_a_hash_with_several_lanes(db):
    ann = services.create_user(username="ann", password="a good one 5!")
    former = Argon2PasswordHasher().encode("a good one 5!", "salt-of-ann")
    User.objects.filter(pk=ann.pk).update(password=former)
    log_in(username="ann", password="a good one 5!", address="127.0.0.9")
    renewed = User.objects.get(pk=ann.pk).password
    assert [hashing.has_several_lanes(encoded) for encoded in (former, renewed)] == [True, False]
    log_in(username="ann", password="a good one 5!", address="127.0.0.9")
