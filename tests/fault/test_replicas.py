"""Two gateways on one PostgreSQL and one Redis behave as one."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest
import requests
from django.utils import timezone

from gateway_project.work.state.shared import FLIGHT_SECONDS
from keys.models import ApiKey
from tests.fault.conftest import UNLIMITED
from tests.support.load import wait_until
from tests.support.management import Client, new_admin
from tests.support.pace import in_one_minute, patience
from tests.support.promises import promise
from tests.support.provider_answers import Answer
from tests.support.running import RunningGateway, Store
from tests.support.streaming import error_in, part
from tests.support.world import World, limited_key

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def replicas(store: Store, tmp_path_factory) -> Iterator[list[RunningGateway]]:
    """Two gateways on machines of their own, as far as they can tell."""
    environ = {
        "GATEWAY_PROCESSES": "2",
        **UNLIMITED,
        "GATEWAY_TOTAL_TIMEOUT": "30",
        "GATEWAY_FIRST_BYTE_TIMEOUT": "30",
        "GATEWAY_REVOCATION_TIMEOUT": "3",  # a worker that is stopped counts for 10 s
    }
    with ExitStack() as resources:
        made = [RunningGateway(store, tmp_path_factory.mktemp(name), **environ) for name in ("one", "two")]
        yield [resources.enter_context(gateway) for gateway in made]


@pytest.fixture
def pair(replicas, orm) -> Iterator[tuple[World, World]]:
    """The first one's world arranges, the second only asks."""
    with ExitStack() as resources:
        yield World(replicas[0], resources), World(replicas[1], resources)


def ask_at(world: World, asked: World, prompt: str, **options) -> requests.Response:
    """Ask one replica what the other's world arranged."""
    options.setdefault("key", asked.key)
    return world.ask(prompt, body={"model": asked.model}, **options)


def in_parallel(count: int, work) -> list:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))


def test_a_rate_limit_is_exact_across_both(pair):
    one, two = pair
    one.allow()
    provider = one.provider()
    key = limited_key(one, 40)
    assert one.ask("warm").status_code == ask_at(two, one, "warm").status_code == 200
    in_one_minute(15)

    def send(number: int) -> int:
        body = {"model": one.model, "messages": [{"role": "user", "content": f"limited {number}"}]}
        url = (one if number % 2 else two).gateway.url
        return requests.post(
            f"{url}/work", json=body, headers={"Authorization": f"Bearer {key}"}, timeout=30
        ).status_code

    codes = in_parallel(100, send)
    assert (codes.count(200), codes.count(429)) == (40, 60)
    assert len([seen for seen in provider.seen if b"limited" in seen.body]) == 40


def test_identical_requests_at_both_make_one_provider_call(pair):
    one, two = pair
    one.allow()
    provider = one.provider()
    assert one.ask("warm").status_code == ask_at(two, one, "warm").status_code == 200
    provider.default.delay = 0.5

    def send(number: int) -> requests.Response:
        body = {"model": one.model, "messages": [{"role": "user", "content": "the same"}]}
        url = (one if number % 2 else two).gateway.url
        return requests.post(f"{url}/work", json=body, headers={"Authorization": f"Bearer {one.key}"}, timeout=30)

    responses = in_parallel(40, send)
    assert {response.status_code for response in responses} == {200}
    assert len({response.content for response in responses}) == 1
    assert len([seen for seen in provider.seen if b"the same" in seen.body]) == 1


def test_what_one_stored_is_a_hit_of_the_other(pair):
    one, two = pair
    one.allow()
    provider = one.provider()
    first = one.ask("stored")
    second = ask_at(two, one, "stored")
    assert [first.headers["X-Svc-Cache"], second.headers["X-Svc-Cache"]] == ["MISS", "HIT"]
    assert second.content == first.content
    with one.stream("streamed") as stream:
        chunks = stream.content
    with ask_at(two, one, "streamed", stream=True) as whole:
        assert whole.headers["X-Svc-Cache"] == "MISS"  # a stream is another answer than a whole one
    with two.stream("streamed", key=one.key, body={"model": one.model}) as replayed:
        assert replayed.headers["X-Svc-Cache"] == "HIT"
        assert replayed.content == chunks
    assert len(provider.seen) == 3


def test_a_revoked_key_is_refused_by_both_within_a_second(pair):
    one, two = pair
    one.allow()
    one.provider()
    for change in ("delete", "lock"):
        issued = one.new_key()
        assert one.ask("known", key=issued.text).status_code == 200
        assert ask_at(two, one, "known", key=issued.text).status_code == 200
        if change == "delete":
            ApiKey.objects.filter(id=issued.key.id).delete()
        else:
            ApiKey.objects.filter(id=issued.key.id).update(locked_time=timezone.now())
        time.sleep(1)
        assert one.ask("known", key=issued.text).status_code == 401, change
        assert ask_at(two, one, "known", key=issued.text).status_code == 401, change


@contextmanager
def stopped(gateway: RunningGateway) -> Iterator[None]:
    """Inside, no process of the gateway does anything: it leads a group of its own."""
    os.killpg(gateway.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(gateway.process.pid, signal.SIGCONT)


def in_force(admin: Client, path: str) -> dict:
    response = admin.delete(path)
    assert response.status_code == 200, response.text
    return response.json()["inForce"]


@promise("A revocation says on how many workers of all replicas it is in force", target="all, or fewer if one hangs")
def test_a_revocation_counts_and_cuts_at_both(pair, figure):
    one, two = pair
    one.allow()
    provider = one.provider()
    provider.default = Answer(stream=[part("a")] * 150, pace=0.2)
    admin = Client(one.gateway.url).as_user(new_admin())
    count = sum(len(world.gateway.workers()) for world in pair)
    wait_until(lambda: in_force(admin, "/keys/?wait=true")["workers"] == count, 20)  # those that died are forgotten
    with two.stream("cut", key=one.key, body={"model": one.model}) as stream:
        chunks = stream.iter_content(None)
        assert next(chunks)
        proof = in_force(admin, f"/keys/{one.issued.key.pk}/?wait=true&cut=true")
        assert error_in(b"".join(chunks))["exception"] == "CredentialRevoked"
    assert proof == {"workers": count, "acknowledged": count, "seconds": proof["seconds"], "ended": 1}
    figure(f"{count} of {count} workers of 2 replicas after {proof['seconds']:.2f} s")


def test_a_replica_that_hangs_has_not_acknowledged(pair):
    one, two = pair
    one.allow()
    admin = Client(one.gateway.url).as_user(new_admin())
    own, others = (len(world.gateway.workers()) for world in pair)
    wait_until(lambda: in_force(admin, "/keys/?wait=true")["workers"] == own + others, 20)
    key = one.new_key()
    with stopped(two.gateway):
        proof = in_force(admin, f"/keys/{key.key.pk}/?wait=true")
    assert (proof["workers"], proof["acknowledged"]) == (own + others, own)
    assert proof["seconds"] >= 3
    everybody = {"workers": own + others, "acknowledged": own + others}
    wait_until(lambda: everybody.items() <= in_force(admin, "/keys/?wait=true").items(), 20)
    assert ask_at(two, one, "after", key=key.text).status_code == 401


@pytest.mark.killed("in the middle of requests")
@pytest.mark.slow
def test_a_follower_takes_over_when_the_leader_is_killed(pair):
    one, two = pair
    one.allow()
    provider = one.provider()
    assert one.ask("warm").status_code == ask_at(two, one, "warm").status_code == 200
    provider.answers(delay=25).answers(text="second try")
    leader = threading.Thread(target=lost, args=[one, "shared"])
    leader.start()
    provider.wait_for(2)
    answers: list[requests.Response] = []
    followers = [threading.Thread(target=lambda: answers.append(ask_at_fresh(two, one, "shared"))) for _ in range(5)]
    for follower in followers:
        follower.start()
    time.sleep(0.5)
    one.gateway.kill()
    begun = time.monotonic()
    for follower in followers:
        follower.join(FLIGHT_SECONDS + 10)
    assert time.monotonic() - begun < FLIGHT_SECONDS + patience(2)
    assert [answer.status_code for answer in answers] == [200] * 5
    assert {answer.json()["choices"][0]["message"]["content"] for answer in answers} == {"second try"}
    assert len([seen for seen in provider.seen if b"shared" in seen.body]) == 2
    leader.join(5)
    one.gateway.start()


def lost(world: World, prompt: str) -> None:
    """A request whose gateway dies."""
    world.unanswered += 1
    body = {"model": world.model, "messages": [{"role": "user", "content": prompt}]}
    headers = {"Authorization": f"Bearer {world.key}"}
    with pytest.raises(requests.ConnectionError):
        requests.post(f"{world.gateway.url}/work", json=body, headers=headers, timeout=30)


def ask_at_fresh(world: World, asked: World, prompt: str) -> requests.Response:
    """The same as ask_at over a connection of its own, for threads."""
    body = {"model": asked.model, "messages": [{"role": "user", "content": prompt}]}
    headers = {"Authorization": f"Bearer {asked.key}"}
    return requests.post(f"{world.gateway.url}/work", json=body, headers=headers, timeout=40)


def test_a_new_key_is_known_to_both_at_once(pair):
    one, two = pair
    one.provider()
    for _ in range(10):
        user = one.new_user()
        one.allow(user=user)
        key = one.new_key(owner=user).text
        codes = in_parallel(8, lambda number, key=key: ask_at_any(one, two, key, number))
        assert codes == [200] * 8


def ask_at_any(one: World, two: World, key: str, number: int) -> int:
    body = {"model": one.model, "messages": [{"role": "user", "content": "hello"}]}
    url = (one if number % 2 else two).gateway.url
    return requests.post(f"{url}/work", json=body, headers={"Authorization": f"Bearer {key}"}, timeout=30).status_code


def test_both_are_ready(pair):
    for world in pair:
        wait_until(lambda world=world: requests.get(f"{world.gateway.url}/readyz", timeout=5).status_code == 200, 5)


def test_a_stored_response_is_its_users_at_every_replica(pair):
    """The next request comes at once, at another replica; what another user names is refused there too."""
    one, two = pair
    one.allow()
    other = one.new_user()
    one.allow(user=other)
    provider, stranger = one.provider(format_name="openai-responses"), one.new_key(owner=other).text
    identifier = one.name("resp")
    for name in (identifier, "resp_next"):
        provider.answers(body={"id": name, "status": "completed", "error": None, "output": []})
    body = {"model": one.model, "input": "Hello!"}
    assert one.post(body, path="/v1/responses").status_code == 200
    refers = body | {"previous_response_id": identifier}
    assert two.post(refers, key=one.key, path="/v1/responses").status_code == 200
    assert two.post(refers, key=stranger, path="/v1/responses").status_code == 404
    assert len(provider.seen) == 2
