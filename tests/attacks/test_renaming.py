"""A user with the role that everybody has cannot send other people's requests elsewhere, or break them."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from providers.models import Model, Provider
from tests.support.management import Client
from tests.support.promises import promise

pytestmark = pytest.mark.either_store


@pytest.fixture
def attacker(world):
    return Client(world.gateway.url).as_user(world.new_user())


def take_over(attacker: Client, victim: Model, other: Provider) -> list[int]:
    """The statuses of every way to get at the requests for the victim's name."""
    own = attacker.post(f"/providers/{other.pk}/models/", name="harmless").headers["ModelId"]
    wanted = [victim.name, f"{victim.provider.name}/{victim.name}"]
    path = f"/providers/{victim.provider_id}/models/{victim.pk}/"
    return [
        *(attacker.post(f"/providers/{other.pk}/models/", name=name).status_code for name in wanted),
        *(attacker.patch(f"/providers/{other.pk}/models/{own}/", name=name).status_code for name in wanted),
        attacker.patch(path, name="gone").status_code,
        attacker.delete(path).status_code,
    ]


@promise("A user cannot redirect or break everybody's model by renaming", target="403 or 409, each request served")
def test_requests_for_a_model_go_where_they_went(world, attacker, figure):
    world.allow()
    first, second = world.provider(), world.provider("another")
    victim = world.row(first).models.first()
    statuses = take_over(attacker, victim, world.row(second))
    assert statuses == [409, 409, 409, 409, 403, 403]
    for name in (victim.name, f"{victim.provider.name}/{victim.name}"):
        sent = {"model": name, "messages": [{"role": "user", "content": f"to {name}"}]}
        assert world.post(sent).status_code == 200
    assert len(first.seen) == 2
    assert second.seen == []
    figure(f"{len(statuses)} ways refused")


@promise("Two users cannot take one name at once", target="one of two")
def test_two_users_at_once(world, figure):
    rows = [world.row(world.provider(name)) for name in ("one", "two")]
    clients = [Client(world.gateway.url).as_user(world.new_user()) for _ in rows]
    barrier = threading.Barrier(2)

    def add(client: Client, row: Provider, name: str) -> int:
        barrier.wait()
        return client.post(f"/providers/{row.pk}/models/", name=name).status_code

    with ThreadPoolExecutor(2) as pool:
        for round_number in range(10):
            name = f"both-{round_number}"
            answers = [pool.submit(add, client, row, name) for client, row in zip(clients, rows, strict=True)]
            assert sorted(answer.result() for answer in answers) == [201, 409]
    figure("one of two, 10 times")
