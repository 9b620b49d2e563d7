"""A revocation is in force everywhere once it says so, and ends what runs if that is asked for."""

import json
import os
import secrets
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from accounts.models import Group
from telemetry.audit.models import AuditEntry
from tests.support.management import Client, new_admin, refused
from tests.support.pace import bound, patience
from tests.support.promises import promise
from tests.support.provider_answers import Answer
from tests.support.running import RunningGateway, Store
from tests.support.streaming import datas, error_in, part
from tests.support.world import World

SILENT = Answer(stream=[part("Once "), part("upon ")], silent_after=2)  # then nothing until the client leaves
NOTHING = Answer(silent=True)


# What is silent here is silent until somebody ends it.
PATIENT = {f"GATEWAY_{name}_TIMEOUT": "60" for name in ("FIRST_BYTE", "IDLE", "TOTAL", "CLIENT")}


def running_gateway(store: Store, directory: Path, **environ: str) -> RunningGateway:
    """A gateway that shares Redis with no other: whoever shares it counts as a replica."""
    return RunningGateway(store, directory, GATEWAY_REDIS_PREFIX=f"test-{secrets.token_hex(6)}", **PATIENT, **environ)


@pytest.fixture(scope="module")
def gateway(store, tmp_path_factory) -> Iterator[RunningGateway]:
    with running_gateway(store, tmp_path_factory.mktemp("revocation")) as running:
        yield running


@pytest.fixture
def admin(world: World) -> Client:
    return Client(world.gateway.url).as_user(new_admin())


class Running:
    """A request that runs in a thread until it is ended."""

    def __init__(self, world: World, **options) -> None:
        self.body = b""
        self.response: requests.Response | None = None
        self.has_begun = threading.Event()
        self._thread = threading.Thread(target=self._run, args=[world, options], daemon=True)
        self._thread.start()

    def _run(self, world: World, options: dict) -> None:
        path, key = options.pop("path", "/work"), options.pop("key", None) or world.key
        document = {"model": world.model, "messages": [{"role": "user", "content": world.name("prompt")}]} | options
        headers = {"Authorization": f"Bearer {key}"}
        with requests.post(
            f"{world.gateway.url}{path}", json=document, headers=headers, stream=True, timeout=30
        ) as response:
            self.response = response
            for chunk in response.iter_content(None):
                self.body += chunk
                self.has_begun.set()

    def end(self, seconds: float = 10) -> "Running":
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "it has not ended"
        return self

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()


def begun(world: World, **options) -> Running:
    """A stream whose first chunk has arrived."""
    running = Running(world, stream=True, **options)
    assert running.has_begun.wait(10)
    return running


def in_force(response: requests.Response) -> dict:
    assert response.status_code == 200, response.text
    return response.json()["inForce"]


def test_a_deleted_key_is_in_force_once_it_is_answered(world, provider, admin):
    assert world.ask().status_code == 200
    key_id = world.issued.key.pk
    proof = in_force(admin.delete(f"/keys/{key_id}/?wait=true"))
    assert (proof["workers"], proof["acknowledged"]) == (1, 1)
    assert proof["seconds"] >= 0
    assert world.ask().status_code == 401
    (receipt,) = AuditEntry.objects.filter(action="revocation in force", resource="keys", resource_id=key_id)
    assert json.loads(receipt.after) == proof
    assert receipt.message.startswith("In force on 1 of 1 worker after ")


def test_without_wait_the_answer_is_as_before(world, provider, admin):
    assert world.ask().status_code == 200
    assert admin.delete(f"/keys/{world.issued.key.pk}/").json() == {}


def test_a_stream_of_the_key_ends_with_an_error_event_and_is_booked(world, provider, admin):
    provider.default = SILENT
    running, other = begun(world), begun(world, key=world.new_key().text)
    proof = in_force(admin.delete(f"/keys/{world.issued.key.pk}/?wait=true&cut=true"))
    assert proof["ended"] == 1
    assert error_in(running.end().body)["exception"] == "CredentialRevoked"
    entry = world.entry(running.response)
    assert (entry.outcome, entry.exception, entry.attempts) == ("revoked", "CredentialRevoked", 1)
    assert entry.output_tokens > 0
    assert entry.usage_estimated
    assert other.is_alive
    admin.delete(f"/users/{world.user.pk}/?cut=true")
    assert error_in(other.end().body)["exception"] == "CredentialRevoked"


def test_a_request_without_an_answer_gets_the_error(world, provider, admin):
    provider.default = NOTHING
    running = Running(world)
    world.until(lambda: len(provider.seen) == 1)
    in_force(admin.patch(f"/keys/{world.issued.key.pk}/?wait=true&cut=true", locked=True))
    response = running.end().response
    assert (response.status_code, json.loads(running.body)["exception"]) == (401, "CredentialRevoked")
    assert world.entry(response).outcome == "revoked"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_the_error_event_has_the_form_of_the_door(world, provider, admin, path):
    provider.default = SILENT
    running = begun(world, path=path, max_tokens=100)
    in_force(admin.patch(f"/users/{world.user.pk}/?wait=true&cut=true", active=False))
    last = json.loads(datas(running.end().body)[-1])
    assert "credential was revoked" in last["error"]["message"]


def test_the_client_of_a_shared_stream_is_cut_and_those_who_follow_it_go_on(world, provider, admin):
    provider.default = Answer(stream=[part("a")] * 40 + [part("", "stop"), "data: [DONE]\n\n"], pace=0.1)
    messages = [{"role": "user", "content": "the same"}]
    leader = begun(world, messages=messages)
    follower = begun(world, messages=messages, key=world.new_key().text)
    world.until(lambda: len(provider.seen) == 1)
    proof = in_force(admin.delete(f"/keys/{world.issued.key.pk}/?wait=true&cut=true"))
    assert proof["ended"] == 1
    assert error_in(leader.end().body)["exception"] == "CredentialRevoked"
    assert datas(follower.end().body)[-1] == b"[DONE]"
    assert world.entry(leader.response).outcome == "revoked"
    assert world.entry(follower.response).outcome == "completed"
    assert len(provider.seen) == 1


def test_a_change_of_a_group_ends_what_its_members_run_for_admins_only(world, provider, admin):
    provider.default = SILENT
    member, leader = world.user, world.new_user()
    group = world.new_group(member, leader)
    group.admins.add(leader)
    running = begun(world)
    group_admin = Client(world.gateway.url).as_user(leader)
    refused(group_admin.delete(f"/groups/{group.pk}/members/{member.pk}/?cut=true"), 403, "PermissionDenied", "cut")
    proof = in_force(admin.delete(f"/groups/{group.pk}/members/{member.pk}/?wait=true&cut=true"))
    assert proof["ended"] == 1
    assert error_in(running.end().body)["exception"] == "CredentialRevoked"
    again = begun(world)
    group.members.add(member)
    assert in_force(admin.delete(f"/groups/{group.pk}/?wait=true&cut=true"))["ended"] == 1
    assert error_in(again.end().body)["exception"] == "CredentialRevoked"


def test_so_does_one_of_the_group_above_which_is_moved(world, provider, admin):
    provider.default = SILENT
    parent, child, other = world.new_group(), world.new_group(world.user), world.new_user()
    world.allow(user=other)
    bystander = begun(world, key=world.new_key(owner=other).text)
    Group.objects.filter(pk=child.pk).update(parent=parent)
    running = begun(world)
    Group.objects.filter(pk=parent.pk).update(parent=world.new_group())
    assert in_force(admin.patch(f"/groups/{parent.pk}/?wait=true&cut=true", parentId=None))["ended"] == 1
    assert error_in(running.end().body)["exception"] == "CredentialRevoked"
    assert bystander.is_alive


def test_a_body_that_is_arriving_is_not_waited_for(world, provider, admin):
    assert world.ask().status_code == 200
    sock = world.connect("Content-Type: application/json\r\nContent-Length: 1000", b'{"model": ')
    world.until(lambda: world.entries() >= 1)
    in_force(admin.delete(f"/keys/{world.issued.key.pk}/?wait=true&cut=true"))
    assert b"401" in sock.recv(4096).split(b"\r\n")[0]


@pytest.mark.servers
@pytest.mark.long
class TestTwoWorkers:
    """With PostgreSQL and Redis."""

    @pytest.fixture(scope="class")
    @classmethod
    def gateway(cls, store, tmp_path_factory) -> Iterator[RunningGateway]:
        environ = {"WEB_CONCURRENCY": "2", "GATEWAY_REVOCATION_TIMEOUT": "3"}
        with running_gateway(store, tmp_path_factory.mktemp("two-workers"), **environ) as running:
            yield running

    @promise("A deleted key is refused by every worker", target="≤ 1 s, then 0 requests are served", suite="attack")
    def test_once_it_is_in_force_no_request_of_the_key_succeeds(self, world, provider, admin, figure):
        headers = {"Authorization": f"Bearer {world.key}"}
        document = {"model": world.model, "messages": [{"role": "user", "content": "Hello!"}]}

        def ask(number: int) -> int:
            return requests.post(
                f"{world.gateway.url}/work", json=document, headers=headers, timeout=patience(20)
            ).status_code

        world.settle()
        with ThreadPoolExecutor(20) as pool:
            assert Counter(pool.map(ask, range(100))) == {200: 100}  # both workers know the key
            proof = in_force(admin.delete(f"/keys/{world.issued.key.pk}/?wait=true"))
            assert (proof["workers"], proof["acknowledged"]) == (2, 2)
            assert Counter(pool.map(ask, range(200))) == {401: 200}
        assert proof["seconds"] <= bound(1)
        figure(f"2 of 2 workers after {proof['seconds']:.2f} s, 0 of 200 requests served")

    def test_streams_in_every_worker_end_within_a_second(self, world, provider, admin):
        provider.default = SILENT
        world.settle()
        streams = [begun(world) for _ in range(12)]
        proof = in_force(admin.delete(f"/keys/{world.issued.key.pk}/?wait=true&cut=true"))
        assert proof == {"workers": 2, "acknowledged": 2, "seconds": proof["seconds"], "ended": 12}
        for stream in streams:
            assert error_in(stream.end(5).body)["exception"] == "CredentialRevoked"
        for stream in streams:
            entry = world.entry(stream.response)
            assert (entry.outcome, entry.output_tokens > 0) == ("revoked", True)

    def test_a_worker_that_is_stopped_has_not_acknowledged(self, world, provider, admin):
        admin.session.headers["Connection"] = "close"  # the stopped worker keeps those that it has
        world.until(lambda: in_force(admin.delete("/keys/?wait=true"))["acknowledged"] == 2)
        stopped, _ = world.gateway.workers()
        os.kill(stopped, signal.SIGSTOP)
        try:
            proof = in_force(admin.delete(f"/keys/{world.issued.key.pk}/?wait=true"))
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert (proof["workers"], proof["acknowledged"]) == (2, 1)
        assert proof["seconds"] >= 3
        assert f":{stopped}." in world.gateway.log()
        world.until(lambda: in_force(admin.delete(f"/keys/?wait=true&user={world.user.pk}"))["acknowledged"] == 2)
