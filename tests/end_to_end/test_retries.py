"""Stage 6: a request is sent once more where no other provider can serve it."""

import http.client
import json
import threading
import time
from collections import Counter

import pytest

from providers.services import add_credential
from tests.support.management import refused
from tests.support.pace import patience
from tests.support.provider import counts, refusing_port
from tests.support.provider_answers import Answer
from tests.support.thoroughness import first_of

pytestmark = pytest.mark.embedded

CLIENTS = 1000
IDEMPOTENT = {"Idempotency-Key": "5a1d"}


@pytest.fixture(scope="module")
def _gateway(store, tmp_path_factory):
    from tests.support.running import RunningGateway

    with RunningGateway(store, tmp_path_factory.mktemp("retrying"), GATEWAY_RETRY_PERCENT="100") as running:
        yield running


@pytest.fixture
def world(_gateway, orm):
    from contextlib import ExitStack

    from tests.support.world import World

    with ExitStack() as resources:
        yield World(_gateway, resources)


class TestOneRetry:
    """With a budget that never ends."""

    def test_an_overloaded_provider_that_stands_alone_is_asked_twice(self, world, provider):
        provider.answers(status=503).answers(text="Lisbon")
        begun = time.monotonic()
        response = world.ask()
        assert response.json()["choices"][0]["message"]["content"] == "Lisbon"
        assert time.monotonic() - begun >= 0.1
        entry = world.entry(response)
        assert (entry.attempts, entry.outcome, entry.candidates[0][1]) == (2, "completed", "answered")

    def test_a_stream_too(self, world, provider):
        provider.answers(status=529).answers(text="Lisbon")
        assert b"Lisbon" in world.stream().content
        assert counts(provider) == (2,)

    def test_no_more_than_twice(self, world, provider):
        provider.default = Answer(status=503)
        response = world.ask()
        refused(response, 503, "ProviderOverloaded")
        assert counts(provider) == (2,)
        assert world.entry(response).attempts == 2

    def test_a_refused_connection_is_tried_again(self, world):
        world.allow()
        world.provider(url=f"http://127.0.0.1:{refusing_port()}/v1")
        assert world.entry(world.ask()).attempts == 2

    def test_another_provider_comes_first(self, world, pair):
        pair[0].default = Answer(status=503)
        assert world.ask().status_code == 200
        assert counts(*pair) == (1, 1)

    def test_the_last_one_is_asked_again_when_all_have_failed(self, world, pair):
        pair[0].default = Answer(status=503)
        pair[1].answers(status=503).answers(text="Lisbon")
        assert world.ask().status_code == 200
        assert counts(*pair) == (1, 2)

    def test_the_first_one_is_asked_again_while_the_other_pauses(self, world, pair):
        pair[0].answers(status=500)
        pair[1].default = Answer(status=429)
        world.ask("begins the pause")
        pair[0].answers(status=503).answers(text="Lisbon")
        assert world.ask("now").json()["choices"][0]["message"]["content"] == "Lisbon"
        assert counts(*pair) == (3, 1)

    def test_the_first_one_is_asked_again_while_the_other_rests(self, world, pair):
        pair[0].answers(status=500)
        pair[1].answers(status=429, headers={"Retry-After": "30"})
        world.ask("begins the rest")
        pair[0].answers(status=503).answers(text="Lisbon")
        assert world.ask("now").json()["choices"][0]["message"]["content"] == "Lisbon"
        assert counts(*pair) == (3, 1)

    @pytest.mark.parametrize("status", [500, 502, 504])
    def test_what_may_have_been_worked_on_is_not_sent_again(self, world, provider, status):
        provider.answers(status=status)
        assert world.ask().status_code >= 500
        assert counts(provider) == (1,)

    @pytest.mark.parametrize("failure", [{"status": 500}, {"body": b"<html>"}, {"cut_after": 0, "reset": True}])
    def test_unless_the_client_says_that_it_does_not_matter(self, world, provider, failure):
        provider.answers(**failure)
        assert world.ask(headers=IDEMPOTENT).status_code == 200
        assert counts(provider) == (2,)

    def test_a_provider_that_is_too_slow_is_asked_again_if_the_client_says_so(self, world):
        world.allow()
        provider = world.provider(first_byte_timeout_seconds=0.3)
        provider.answers(silent=True)
        assert world.ask(headers=IDEMPOTENT).status_code == 200
        assert counts(provider) == (2,)

    @pytest.mark.parametrize(
        "failure",
        [
            {"status": 429},
            {"status": 401},
            {"status": 402},
            {"status": 400},
            {"status": 503, "headers": {"Retry-After": "1"}},
        ],
    )
    def test_what_would_fail_again_is_not_sent_again(self, world, provider, failure):
        provider.answers(**failure)
        assert world.ask(headers=IDEMPOTENT).status_code >= 400
        assert counts(provider) == (1,)

    def test_not_after_the_time_that_the_client_allows(self, world, provider):
        provider.answers(status=503, delay=0.4)
        response = world.ask(headers={"X-Svc-Timeout": "0.45"})
        assert response.status_code in (503, 504)
        assert counts(provider) == (1,)

    def test_a_provider_whose_breaker_is_open_is_not_asked_twice(self, world, provider):
        provider.default = Answer(status=503)
        for number in range(6):
            world.ask(f"{number}")
        before = counts(provider)[0]
        world.ask("once")
        assert counts(provider)[0] == before + 1

    def test_a_client_that_leaves_while_it_waits_ends_the_request(self, world, provider):
        provider.default = Answer(status=503)
        with world.send({}) as sock:
            provider.wait_for(1)
            sock.close()
        time.sleep(0.8)
        assert len(provider.seen) <= 2


class TestCredentials:
    """A retry is sent with another credential of the provider, if it has one."""

    @pytest.fixture
    def provider(self, world):
        world.allow()
        scripted = world.provider()
        for number in range(2):
            add_credential(provider=world.row(scripted), name=f"account {number}", credential=f"sk-further-{number}")
        world.settle()
        return scripted

    def accounts(self, provider):
        return [seen.headers["authorization"] for seen in provider.seen]

    @pytest.mark.parametrize("status", [500, 502, 504])
    def test_what_may_have_been_worked_on_is_not_sent_again(self, world, provider, status):
        provider.default = Answer(status=status)
        response = world.ask()
        assert response.status_code == 502
        assert counts(provider) == (1,)
        assert world.entry(response).attempts == 1

    @pytest.mark.parametrize(("status", "headers"), [(500, IDEMPOTENT), (503, {})])
    def test_what_may_be_sent_again_is_sent_once_more_with_another_one(self, world, provider, status, headers):
        provider.answers(status=status).answers(text="Lisbon")
        response = world.ask(headers=headers)
        assert response.json()["choices"][0]["message"]["content"] == "Lisbon"
        first, second = self.accounts(provider)
        assert first != second
        assert world.entry(response).attempts == 2
        provider.default = Answer(status=status)
        assert world.ask("fails", headers=headers).status_code >= 500
        assert counts(provider) == (4,)

    def test_a_limited_one_does_not_use_up_the_retry(self, world, provider):
        provider.answers(status=429).answers(status=503).answers(text="Lisbon")
        assert world.ask().status_code == 200
        assert len(set(self.accounts(provider))) == 3

    def test_the_same_one_is_asked_again_where_the_others_rest(self, world, provider):
        resting = {"status": 429, "headers": {"Retry-After": "30"}}
        provider.answers(**resting).answers(**resting)
        assert world.ask("begins two rests").status_code == 200
        provider.answers(status=503).answers(text="Lisbon")
        assert world.ask("now").status_code == 200
        assert len(set(self.accounts(provider)[2:])) == 1


@pytest.mark.parametrize(
    ("status", "credentials", "least"), first_of((503, 3, 1.05), (503, 1, 1.05), (500, 3, 1.0)), ids=str
)
def test_a_thousand_clients_of_a_failing_provider_cause_no_storm(own_gateway, status, credentials, least):
    """One request each, at the same time, with breakers that never open: at most 1.1 calls a request."""
    world = own_gateway(
        GATEWAY_THREADS="1100",
        GATEWAY_BREAKER_FAILURES="1000000",
        GATEWAY_RETRY_PERCENT="10",
        GATEWAY_KEY_REQUESTS_PER_MINUTE="100000",
    )
    world.allow()
    provider = world.provider(first_byte_timeout_seconds=60, total_timeout_seconds=60)
    for number in range(1, credentials):
        add_credential(provider=world.row(provider), name=f"account {number}", credential=f"sk-further-{number}")
    provider.default = Answer(status=status)
    key, statuses, barrier = world.new_key().text, [], threading.Barrier(CLIENTS)
    world.ask("settles")

    def client(number: int) -> None:
        barrier.wait()
        statuses.append(one_request(world, key, number))

    threads = [threading.Thread(target=client, args=[number]) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    requests, calls = CLIENTS + 1, len(provider.seen)
    assert Counter(statuses) == {503 if status == 503 else 502: CLIENTS}
    assert requests * least <= calls <= requests * 1.1


def one_request(world, key, number):
    connection = http.client.HTTPConnection("127.0.0.1", world.gateway.port, timeout=patience(20))
    body = {"model": world.model, "messages": [{"role": "user", "content": f"{number}"}]}
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connection.request("POST", "/work", json.dumps(body), headers)
    status = connection.getresponse().status
    connection.close()
    return status
