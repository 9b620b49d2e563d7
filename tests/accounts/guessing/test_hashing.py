"""Few passwords are checked at once, few more wait, and nobody waits long."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.hashers import Argon2PasswordHasher

from accounts import services
from accounts.guessing import hashing
from accounts.guessing.hashing import HashingQueue
from accounts.models import User
from accounts.sessions import log_in
from gateway_project.errors import ServiceUnavailable

pytestmark = pytest.mark.embedded


@pytest.fixture(autouse=True)
def gateway_hashers(settings):
    """Those of the gateway, which other tests do without."""
    settings.PASSWORD_HASHERS = ["accounts.guessing.hashing.OneLaneHasher"]


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
    assert queue.is_correct("c", "c") is True


def test_setting_a_password_waits_in_the_same_queue(db, monkeypatch):
    monkeypatch.setattr(services, "hashing_queue", full := HashingQueue(threads=1, waiting=0))
    full._places.acquire()
    with pytest.raises(ServiceUnavailable, match="Try again"):
        services.create_user(username="ann", password="a good one 5!")
    full._places.release()
    ann = services.create_user(username="ann", password="a good one 5!")
    full._places.acquire()
    with pytest.raises(ServiceUnavailable, match="Try again"):
        services.update_user(ann, password="another good one 6!")


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
