"""Who guesses passwords is slowed, and locks nobody out: neither from one address nor from many."""

import itertools
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from tests.support.management import PASSWORD, body
from tests.support.promises import promise
from tests.support.thoroughness import first_of

pytestmark = pytest.mark.either_store

ATTACKER = "203.0.113.66"


def log_in(world, username, password, address):
    """One login as a proxy forwards it."""
    sent = body(grantType="password", userName=username, password=password)
    headers = {"X-Forwarded-For": address}
    return requests.post(f"{world.gateway.url}/auth/login", json=sent, headers=headers, timeout=30)


@pytest.fixture
def world(own_gateway):
    return own_gateway(GATEWAY_TRUSTED_PROXIES="127.0.0.1")


@pytest.mark.timeout(400)  # each guess costs a hash, and a busy machine has little time for them
@promise("100 wrong passwords for random names lock nobody out of the address", target="the owner's login: 200")
@pytest.mark.slow
def test_wrong_passwords_for_random_names_from_one_address(world, figure):
    admin = world.new_user(roles=["admin", "user"])
    codes, numbers = Counter(), itertools.count()
    with ThreadPoolExecutor(4) as pool:
        while codes[401] < 100 or not codes[429]:
            guesses = [pool.submit(log_in, world, f"random-{next(numbers)}", "wrong", ATTACKER) for _ in range(40)]
            codes.update(guess.result().status_code for guess in guesses)
    response = world.soon(lambda: log_in(world, admin.username, PASSWORD, ATTACKER), 200, seconds=8)
    figure(f"{response.status_code} after {codes[401]} wrong ones, {codes[429]} slowed")


@promise("Guesses at one account from many addresses are slowed", target="≤ 20 of 50 checked, the owner gets in")
def test_guesses_from_five_addresses_at_one_account(world, figure):
    owner = world.new_user()
    assert log_in(world, owner.username, PASSWORD, "198.51.100.9").status_code == 200
    codes = Counter(
        log_in(world, owner.username, f"guess-{number}", f"203.0.113.{number % 5}").status_code for number in range(50)
    )
    assert codes == {401: 20, 429: 30}
    assert log_in(world, owner.username, PASSWORD, "198.51.100.9").status_code == 200, "from where they were before"
    elsewhere = log_in(world, owner.username, PASSWORD, "198.51.100.10")
    assert (elsewhere.status_code, elsewhere.headers["Retry-After"]) == (429, "5")
    world.soon(lambda: log_in(world, owner.username, PASSWORD, "198.51.100.10"), 200, seconds=8)
    figure(f"{codes[401]} of 50 checked")


@promise("Common passwords and those like the name are refused", target="400")
@pytest.mark.parametrize("password", first_of("iloveyou1", "password", "resembling-name"))
def test_a_password_that_is_guessed_first_is_refused(world, password):
    from tests.support.management import Client, new_admin

    admin = Client(world.gateway.url).as_user(new_admin(username=world.name("boss")))
    response = admin.post("/users/", userName="resembling-name-1", password=password)
    assert response.status_code == 400
    assert response.json()["message"].startswith("password: ")
