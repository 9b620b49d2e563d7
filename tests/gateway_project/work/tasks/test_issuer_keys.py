"""The keys of trusted issuers come from a real server, by one process for all, and seldom."""

import json
import time
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.utils import timezone

from accounts.trusted_issuers import fetching
from accounts.trusted_issuers.models import TrustedIssuer
from accounts.trusted_issuers.services import create_trusted_issuer, update_trusted_issuer
from gateway_project.errors import AuthenticationFailed
from gateway_project.work.snapshot.issuers import load_issuers
from gateway_project.work.snapshot.records import Snapshot
from gateway_project.work.tasks.issuer_keys import REFRESH_SECONDS, RETRY_SECONDS, IssuerKeys
from tests.support.issuers import AUDIENCE, Issuer, IssuerServer

pytestmark = pytest.mark.django_db


@pytest.fixture
def server():
    with IssuerServer() as server:
        yield server


class Process:
    """A process with the snapshot of the database as it is, and its task."""

    def __init__(self) -> None:
        self.snapshot = Snapshot()
        self.task = IssuerKeys(SimpleNamespace(snapshot=self.snapshot))
        self.follow()

    def follow(self) -> None:
        load_issuers(self.snapshot)

    def tick(self) -> None:
        self.task.run_once()
        self.follow()

    def accepts(self, token: str) -> bool:
        try:
            return self.snapshot.issuers.verify(token, time.time()) is not None
        except AuthenticationFailed:
            return False

    def forget_schedule(self) -> None:
        """As if this process had just started."""
        self.task._schedules.clear()


def store(server: Issuer, **options) -> TrustedIssuer:
    return create_trusted_issuer(**{"name": "cluster", "issuer": server.url, "audience": AUDIENCE} | options)


def pass_time(seconds: float) -> None:
    """Move the last fetch into the past."""
    for row in TrustedIssuer.objects.all():
        begun_at = row.fetch_begun_at - timedelta(seconds=seconds)
        TrustedIssuer.objects.filter(pk=row.pk).update(fetch_begun_at=begun_at)


def problem() -> str:
    return TrustedIssuer.objects.get().fetch_problem


def test_keys_are_discovered_and_fetched_at_once(server):
    store(server)
    process = Process()
    assert not process.accepts(server.token())
    process.tick()
    assert process.accepts(server.token())
    assert server.paths == ["/.well-known/openid-configuration", "/keys"]
    row = TrustedIssuer.objects.get()
    assert (list(row.key_ids), row.fetch_problem) == (["first"], "")
    assert row.fetched_at is not None


def test_an_address_that_is_stored_is_taken_without_discovery(server):
    store(server, issuer="https://kubernetes.default.svc", jwks_url=server.jwks_url)
    process = Process()
    process.tick()
    assert server.paths == ["/keys"]
    assert process.accepts(server.token(iss="https://kubernetes.default.svc"))


def test_stored_keys_and_disabled_issuers_are_not_fetched(server):
    store(server, jwks=Issuer().jwks)
    store(server, name="disabled", audience="other", enabled=False)
    Process().tick()
    assert server.paths == []


def test_without_issuers_there_is_nothing_to_do(django_assert_num_queries):
    process = Process()
    with django_assert_num_queries(0):
        process.task.run_once()


def test_one_of_several_processes_fetches(server):
    store(server)
    processes = [Process() for _ in range(4)]
    for process in processes:
        process.tick()
    assert server.fetches == 1
    for process in processes:
        process.follow()
        assert process.accepts(server.token())


@pytest.mark.long
def test_a_flood_of_unknown_keys_causes_at_most_one_fetch(server):
    store(server)
    processes = [Process() for _ in range(3)]
    processes[0].tick()
    pass_time(RETRY_SECONDS + 1)
    for number in range(50):
        for process in processes:
            assert not process.accepts(server.token(headers={"kid": f"unknown-{number}"}))
            process.forget_schedule()
            process.tick()
    assert server.fetches == 2


def test_after_a_rotation_one_unknown_key_fetches_the_new_and_drops_the_old(server):
    store(server)
    process = Process()
    process.tick()
    former = server.token()
    assert process.accepts(former)
    server.rotate("second")
    assert not process.accepts(server.token())
    process.tick()
    assert server.fetches == 1, "less than 30 s after the last fetch"
    pass_time(RETRY_SECONDS + 1)
    assert not process.accepts(server.token())
    process.forget_schedule()
    process.tick()
    assert process.accepts(server.token())
    assert not process.accepts(former)


def test_keys_are_refreshed_from_time_to_time(server):
    store(server)
    process = Process()
    process.tick()
    server.rotate("second")
    pass_time(REFRESH_SECONDS - 10)
    process.forget_schedule()
    process.tick()
    assert server.fetches == 1
    pass_time(20)
    process.forget_schedule()
    process.tick()
    assert process.accepts(server.token())


def test_a_process_that_does_not_fetch_learns_that_another_has(server):
    store(server)
    first, second = Process(), Process()
    first.tick()
    second.follow()
    assert not second.accepts(server.token(headers={"kid": "unknown"}))
    TrustedIssuer.objects.update(fetched_at=timezone.now() + timedelta(seconds=1))
    second.task.run_once()
    assert second.snapshot.issuers.wanted_keys == {}
    assert server.fetches == 1


class TestProblems:
    """A fetch that fails leaves the keys of the last time, says why, and is tried again."""

    @pytest.fixture(autouse=True)
    def issuer(self, server):
        store(server)
        process = Process()
        process.tick()
        pass_time(REFRESH_SECONDS + 1)
        process.forget_schedule()
        self.process = process

    def expect(self, server, words):
        self.process.tick()
        assert words in problem()
        assert self.process.accepts(server.token())

    def test_a_status(self, server):
        server.status = 500
        self.expect(server, "status 500")

    def test_a_redirect(self, server):
        server.status, server.headers = 307, {"Location": server.url}
        self.expect(server, "status 307")

    def test_a_key_set_of_ten_megabytes(self, server):
        server.body = b'{"keys": [' + b" " * 10 * 1024 * 1024 + b"]}"
        self.expect(server, "longer than 262144 bytes")

    @pytest.mark.parametrize("body", [b"", b"nonsense", b"[]", b'{"keys": 1}', b"\xff", b"[" * 100_000])
    def test_no_key_set(self, server, body):
        server.body = body
        self.expect(server, "keys" if body in (b"[]", b'{"keys": 1}') else "JSON")

    @pytest.mark.long
    def test_a_slow_server(self, server, monkeypatch):
        monkeypatch.setattr(fetching, "FETCH_SECONDS", 1.0)
        server.body, server.piece_bytes, server.pause_seconds = json.dumps(server.jwks).encode(), 1, 0.3
        self.expect(server, "did not complete its answer in time")

    def test_it_is_tried_again_and_its_problem_ends(self, server):
        server.status = 500
        self.process.tick()
        server.status = 200
        self.process.tick()
        assert problem(), "less than 30 s after the failure"
        pass_time(RETRY_SECONDS + 1)
        for schedule in self.process.task._schedules.values():
            schedule.due = 0.0
        self.process.tick()
        assert problem() == ""

    def test_after_a_day_the_keys_count_no_more_until_they_can_be_fetched(self, server, caplog):
        self.fail_after(server, timedelta(hours=23))
        assert self.process.accepts(server.token())
        self.fail_after(server, timedelta(hours=2))
        assert not self.process.accepts(server.token())
        assert "The keys of the trusted issuer cluster could not be fetched for a day" in caplog.text
        assert problem()
        server.status = 200
        pass_time(RETRY_SECONDS + 1)
        self.process.forget_schedule()
        self.process.tick()
        assert self.process.accepts(server.token())

    def fail_after(self, server, age: timedelta) -> None:
        """A fetch that fails when the keys are older by this age."""
        row = TrustedIssuer.objects.get()
        TrustedIssuer.objects.update(fetched_at=row.fetched_at - age)
        server.status = 500
        pass_time(REFRESH_SECONDS + 1)
        self.process.forget_schedule()
        self.process.tick()

    def test_a_key_that_cannot_be_used_is_named(self, server):
        document = server.jwks
        document["keys"].append({"kty": "oct", "kid": "shared", "k": "c2VjcmV0"})
        server.body = json.dumps(document).encode()
        self.expect(server, "'shared' is symmetric")

    def test_an_issuer_that_publishes_no_key_has_none(self, server):
        server.body = b'{"keys": []}'
        self.process.tick()
        assert not self.process.accepts(server.token())


@pytest.mark.parametrize(
    "configuration",
    [
        {},
        {"issuer": "https://another.example.org", "jwks_uri": "{url}/keys"},
        {"issuer": "{url}"},
        {"issuer": "{url}", "jwks_uri": "http://keys.example.org/"},
        {"issuer": "{url}", "jwks_uri": "file:///etc/passwd"},
        {"issuer": "{url}", "jwks_uri": 5},
        [],
    ],
)
def test_a_configuration_that_is_not_the_issuers_is_not_followed(server, configuration, monkeypatch):
    store(server)
    text = json.dumps(configuration).replace("{url}", server.url)
    monkeypatch.setattr(server, "answer", lambda path: text.encode())
    process = Process()
    process.tick()
    assert problem()
    assert server.fetches == 0


def test_a_remote_configuration_does_not_lead_to_this_machine(server, monkeypatch):
    issuer = "https://login.example.org"
    store(server, issuer=issuer)
    document = {"issuer": issuer, "jwks_uri": server.jwks_url}
    monkeypatch.setattr(fetching, "fetch_document", lambda url, bounds: json.dumps(document).encode())
    Process().tick()
    assert "is not an https address" in problem()


def test_a_row_that_cannot_be_read_keeps_no_other_from_being_loaded(server):
    broken = store(server)
    store(server, name="good", audience="other")
    TrustedIssuer.objects.filter(pk=broken.pk).update(algorithms={"a": 1}, subjects=[1], fetched_jwks="x")
    process = Process()
    assert [issuer.name for issuer in process.snapshot.issuers.issuers] == ["good"]


def test_a_disabled_issuer_is_forgotten(server):
    row = store(server)
    process = Process()
    process.tick()
    update_trusted_issuer(row, enabled=False)
    process.follow()
    assert process.snapshot.issuers is None
