"""Active uses: so many users at one moment as the licence allows, and no user is refused while there is room."""

import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
import requests

from licensing.models import DailyPeak, Licence
from licensing.services import install_licence
from tests.support.licences import Vendor
from tests.support.management import Client, new_admin, refused
from tests.support.running import RunningGateway, fresh_store
from tests.support.thoroughness import first_of
from tests.support.world import World, keys_of_users

pytestmark = [pytest.mark.long, pytest.mark.either_store]

VENDOR = Vendor()


@pytest.fixture(scope="module")
def own_store(tmp_path_factory):
    """A store of its own: a licence is one for all that share a store."""
    with fresh_store(tmp_path_factory.mktemp("store")) as store:
        yield store


@pytest.fixture
def world(own_store, tmp_path, settings, django_db_blocker):
    """A gateway with nobody at work."""
    settings.GATEWAY_LICENCE_PUBLIC_KEY = VENDOR.public_key
    environ = {
        "GATEWAY_LICENCE_PUBLIC_KEY": VENDOR.public_key,
        "GATEWAY_ACTIVE_USE_SECONDS": "1",
        "GATEWAY_REDIS_PREFIX": f"test-{secrets.token_hex(6)}",
    }
    with django_db_blocker.unblock(), own_store.used_by_orm(), ExitStack() as resources:
        Licence.objects.all().delete()
        world = World(resources.enter_context(RunningGateway(own_store, tmp_path, **environ)), resources)
        world.allow(everyone="user")
        yield world


@pytest.fixture
def provider(world):
    return world.provider()


def licence_for(world, uses: int, seconds: int = 60) -> None:
    """The running gateway serves under a licence for so many users."""
    install_licence(VENDOR.licence(max_active_uses=uses, active_use_life_time=seconds))
    world.settle()


def admin(world) -> Client:
    return Client(world.gateway.url).as_user(new_admin(username=world.name("admin")))


def stats(world) -> dict:
    response = admin(world).get("/stats/?days=1")
    assert response.status_code == 200, response.text
    return response.json()["data"]["stats"]


def test_a_user_too_many_is_told_when_to_come_back(world, provider):
    licence_for(world, 2)
    first, second, third = keys_of_users(world, 3)
    assert [world.ask(key=key).status_code for key in (first, second, first)] == [200] * 3
    response = world.ask(key=third)
    refused(response, 429, "ActiveUseLimitReached", "2 active uses")
    assert 0 < int(response.headers["Retry-After"]) <= 61
    assert [world.ask(key=key).status_code for key in (second, first)] == [200] * 2
    assert stats(world)["currentUses"] == 2


def test_it_is_users_who_are_counted_and_not_keys_or_requests(world, provider):
    licence_for(world, 1)
    owner = world.new_user()
    keys = [world.new_key(owner=owner).text for _ in range(3)]
    assert [world.ask(f"{key} again", key=key).status_code for key in keys * 2] == [200] * 6
    assert stats(world)["currentUses"] == 1


def test_a_use_lapses_with_its_lifetime_and_the_next_user_has_it(world, provider):
    licence_for(world, 1, seconds=1)
    first, second = keys_of_users(world, 2)
    assert world.ask(key=first).status_code == 200
    refused(world.ask(key=second), 429, "ActiveUseLimitReached")
    world.soon(lambda: world.ask(key=second), 200, seconds=5)
    refused(world.ask(key=first), 429, "ActiveUseLimitReached")


@pytest.mark.parametrize("stream", first_of(True, False))
def test_work_in_flight_keeps_its_use_however_long_it_takes(world, provider, stream):
    licence_for(world, 1, seconds=1)
    first, second = keys_of_users(world, 2)
    provider.answers(delay=1.9)
    with ThreadPoolExecutor() as pool:
        ask = world.stream if stream else world.ask
        long = pool.submit(lambda: ask("takes long", key=first, headers={"X-Svc-Cache": "bypass"}).content)
        provider.wait_for(1)
        begun = time.monotonic()
        refusals = 0
        while not long.done():
            response = requests.post(
                f"{world.gateway.url}/work",
                json={"model": world.model, "messages": [{"role": "user", "content": "Hello!"}]},
                headers={"Authorization": f"Bearer {second}"},
                timeout=30,
            )
            assert response.status_code == 429 or long.done(), "it was let in while the other was at work"
            refusals += response.status_code == 429
            time.sleep(0.05)
        assert long.result()
    assert time.monotonic() - begun > 1.2
    assert refusals > 3
    world.soon(lambda: world.ask(key=second), 200, seconds=5)


def test_a_stored_answer_is_a_use_too(world, provider):
    first, second = keys_of_users(world, 2)
    assert world.ask("the same", key=first).status_code == 200
    world.until(lambda: stats(world)["currentUses"] == 0, 15)
    licence_for(world, 1)
    assert world.ask("the same", key=second).headers["X-Svc-Cache"] == "HIT"
    refused(world.ask("the same", key=first), 429, "ActiveUseLimitReached")


def test_who_is_denied_is_not_at_work(world, provider):
    licence_for(world, 1)
    first, second = keys_of_users(world, 2)
    refused(world.ask(key=first, body={"model": "nobody has it"}), 400, "ProviderNotSelected")
    refused(world.post(b"{", key=first), 400, "ValidationError")
    assert stats(world)["currentUses"] == 0
    assert world.ask(key=second).status_code == 200


def test_a_request_whose_client_leaves_is_over(world, provider):
    licence_for(world, 1, seconds=1)
    first, second = keys_of_users(world, 2)
    provider.answers(delay=1.9)
    connection = world.send({}, key=first)
    provider.wait_for(1)
    connection.close()
    world.soon(lambda: world.ask(key=second), 200, seconds=6)


def test_another_licence_counts_within_a_second(world, provider):
    licence_for(world, 1)
    first, second = keys_of_users(world, 2)
    assert world.ask(key=first).status_code == 200
    refused(world.ask(key=second), 429, "ActiveUseLimitReached")
    install_licence(VENDOR.licence(max_active_uses=2))
    world.soon(lambda: world.ask(key=second), 200)
    install_licence(VENDOR.licence(max_active_uses=0))
    (third,) = keys_of_users(world, 1)
    world.soon(lambda: world.ask(key=third), 200)


def test_without_a_limit_uses_are_counted_all_the_same(world, provider):
    assert [world.ask(key=key).status_code for key in keys_of_users(world, 5)] == [200] * 5
    result = stats(world)
    assert result["currentUses"] == 5
    assert result["peakDailyUses"][-1]["peakUse"] >= 5


def test_the_most_uses_of_a_day_are_written_down_after_they_lapsed(world, provider):
    keys = keys_of_users(world, 8)
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda key: ask_alone(world, key), keys)) == {200}
    world.until(lambda: stats(world)["currentUses"] == 0, 15)
    world.until(lambda: DailyPeak.objects.filter(peak_use__gte=8).exists(), 20)
    assert stats(world)["peakDailyUses"][-1]["peakUse"] >= 8


def ask_alone(world, key: str) -> int:
    """The status of a request over a connection of its own, for threads."""
    body = {"model": world.model, "messages": [{"role": "user", "content": "Hello!"}]}
    headers = {"Authorization": f"Bearer {key}"}
    return requests.post(f"{world.gateway.url}/work", json=body, headers=headers, timeout=30).status_code
