"""GET /metrics of a running gateway."""

import json
import os
import signal
import time

import pytest
import requests
from django.db.models import Sum

from providers.models import Provider
from telemetry.audit.models import AuditEntry
from telemetry.models import UsageHour
from tests.support.management import Client, new_admin, refused
from tests.support.metrics import samples, scraped
from tests.support.promises import promise
from tests.support.provider_answers import Answer

pytestmark = pytest.mark.either_store

TOKEN = "a token of more than thirty-two characters"


def rests_of(world, provider):
    """For how long it rests, by process."""
    return [value for (_, name), value in samples(world, "provider_rest_seconds").items() if name == provider]


class TestWhoMayAsk:
    def test_a_program_on_this_machine(self, world):
        response = scraped(world)
        assert response.status_code == 200
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert response.headers["X-Svc-Request-ID"]

    @pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "127.8.8.8", "[::1]:8000", "[::1]"])
    def test_by_whichever_of_this_machines_names(self, world, host):
        assert scraped(world, headers={"Host": host}).status_code == 200

    @pytest.mark.parametrize("host", ["evil.com", "evil.com:8000", "localhost.evil.com", "127.0.0.1.evil.com", "", "@"])
    def test_no_page_in_a_browser_of_this_machine(self, world, host):
        refused(scraped(world, headers={"Host": host}), 401, "AuthenticationFailed", "GATEWAY_METRICS_TOKEN")

    def test_by_the_names_that_are_allowed_and_by_any_with_the_token(self, own_gateway):
        world = own_gateway(ALLOWED_HOSTS="gateway.example.org", GATEWAY_METRICS_TOKEN=TOKEN)
        for host, authorization, status in (
            ("gateway.example.org:8000", "", 200),
            ("example.org", "", 401),
            ("example.org", f"Bearer {TOKEN}", 200),
        ):
            headers = {"Host": host, "Authorization": authorization}
            assert scraped(world, headers=headers).status_code == status, headers

    @promise("Metrics need their token in production", target="401", suite="attack")
    def test_in_production_nobody_without_the_token(self, own_gateway):
        production = {"GATEWAY_MODE": "production", "SECRET_KEY": "s" * 40}
        world = own_gateway(**production, GATEWAY_METRICS_TOKEN=TOKEN)
        for path in ("/metrics", "/metrics/"):
            assert requests.get(world.gateway.url + path, timeout=10).status_code == 401
        words = refused(scraped(world), 401, "AuthenticationFailed")
        assert words == "Metrics need GATEWAY_METRICS_TOKEN as bearer token."
        assert scraped(world, headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200

    @promise("Metrics need their token in production", target="401", suite="attack")
    def test_in_production_without_a_token_in_the_settings_nobody(self, own_gateway):
        world = own_gateway(GATEWAY_MODE="production", SECRET_KEY="s" * 40)
        for header in ({}, {"Authorization": "Bearer "}, {"Authorization": "Bearer None"}):
            refused(scraped(world, headers=header), 401, "AuthenticationFailed")

    @pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"])
    def test_no_proxy_on_this_machine_for_somebody_else(self, world, header):
        refused(scraped(world, headers={header: "127.0.0.1"}), 401, "AuthenticationFailed", "GATEWAY_METRICS_TOKEN")

    @pytest.mark.parametrize("token", ["", TOKEN, "Bearer ", "é"])
    def test_without_a_token_in_the_settings_there_is_none(self, world, token):
        headers = {"X-Forwarded-For": "203.0.113.7", "Authorization": f"Bearer {token}".encode()}
        refused(scraped(world, headers=headers), 401, "AuthenticationFailed")

    def test_behind_a_trusted_proxy_the_clients_address_counts(self, own_gateway):
        world = own_gateway(GATEWAY_TRUSTED_PROXIES="127.0.0.1", GATEWAY_METRICS_TOKEN=TOKEN)
        for address, authorization, status in (
            ("127.0.0.1", "", 200),
            ("203.0.113.7", "", 401),
            ("127.0.0.1, 203.0.113.7", "", 401),
            ("203.0.113.7", f"Bearer {TOKEN}", 200),
            ("203.0.113.7", f"bearer {TOKEN}", 200),
            ("203.0.113.7", f"Basic {TOKEN}", 401),
            ("203.0.113.7", f"Bearer {TOKEN}x", 401),
            ("203.0.113.7", f"Bearer {TOKEN[:-1]}", 401),
        ):
            headers = {"X-Forwarded-For": address, "Authorization": authorization}
            assert scraped(world, headers=headers).status_code == status, (address, authorization)
        assert TOKEN not in world.gateway.log()

    def test_it_is_read_and_not_written(self, world):
        response = requests.post(f"{world.gateway.url}/metrics", timeout=10)
        refused(response, 405, "MethodNotAllowed")
        assert requests.get(f"{world.gateway.url}/metrics/", timeout=10).status_code == 200


class TestWhatIsTold:
    def test_a_request_is_counted_by_what_became_of_it(self, world, provider):
        name = world.row(provider).name
        assert world.ask().status_code == 200
        assert world.ask().headers["X-Svc-Cache"] == "HIT"
        provider.answers(status=400, body={"error": {"message": "no"}})
        assert world.ask("bad").status_code == 400
        with world.stream("streamed") as response:
            assert response.content
        world.ask(body={"model": "made up by a client"})

        def counted():
            requests_ = samples(world, "requests_total")
            return (
                requests_.get((world.model, "chat", "completed", name, "2xx")),
                requests_.get((world.model, "chat", "failed", name, "4xx")),
            ) == (3, 1)

        world.until(counted)
        assert samples(world, "request_duration_seconds_count")[world.model, "chat", name] == 4
        assert samples(world, "first_byte_seconds_count")[world.model, name] == 1
        tokens = samples(world, "tokens_total")
        assert tokens["output", world.model, name, "provider"] > 0
        assert tokens["output", world.model, name, "cache"] > 0
        assert "made up by a client" not in scraped(world).text

    def test_each_attempt_that_failed_is_counted_though_another_one_made_it_good(self, world):
        world.allow()
        first, second = world.provider(priority=1), world.provider(priority=2)
        first.answers(status=500)
        assert world.ask().status_code == 200
        assert len(second.seen) == 1
        failures = samples(world, "provider_failures_total")
        assert failures["ProviderError", world.model, world.row(first).name] == 1
        assert ("ProviderError", world.model, world.row(second).name) not in failures
        attempts = samples(world, "provider_attempts_total")
        assert [attempts[world.model, world.row(one).name] for one in (first, second)] == [1, 1]

    def test_what_is_in_flight_and_who_rests(self, own_gateway):
        world = own_gateway(GATEWAY_BREAKER_FAILURES="2", GATEWAY_BREAKER_COOLDOWN="60")
        world.allow()
        provider = world.provider()
        name = world.row(provider).name
        assert world.ask().status_code == 200
        assert samples(world, "provider_resting")["0", name] == 0
        provider.default = Answer(delay=1.5)
        sock = world.send({"messages": [{"role": "user", "content": "slow"}]})
        world.until(lambda: samples(world, "requests_in_flight") == {("0",): 1})
        assert b"200 OK" in sock.recv(100)
        world.until(lambda: samples(world, "requests_in_flight") == {("0",): 0})
        provider.default = Answer(status=500)
        for number in range(2):
            world.ask(f"fails {number}")
        assert samples(world, "provider_resting")["0", name] == 1

    def test_for_how_long_a_provider_rests(self, world, provider):
        provider.default = Answer(status=503, headers={"Retry-After": "30"})
        name = world.row(provider).name
        assert world.ask().status_code == 503
        world.until(lambda: 25 < max(rests_of(world, name)) <= 30)

    def test_a_refused_look_at_the_models_is_no_work(self, own_gateway):
        world = own_gateway()
        counted = UsageHour.objects.aggregate(requests=Sum("requests"))["requests"] or 0
        for path in ("/v1/models", "/v1/models/demo"):
            world.entry(world.get(path, key="svc_nobody"), "Message")
        world.entry(world.ask(key="svc_nobody"))  # what is work is counted, after the others
        world.until(lambda: sum(samples(world, "requests_total").values()) >= 1)
        assert sum(samples(world, "requests_total").values()) == 1
        assert samples(world, "requests_in_flight") == {("0",): 0}
        assert UsageHour.objects.aggregate(requests=Sum("requests"))["requests"] == counted + 1

    def test_how_the_process_is(self, world, provider):
        world.entry(world.ask())
        assert samples(world, "store_available") == {("0", "cache"): 1, ("0", "database"): 1}
        assert samples(world, "snapshot_age_seconds")["0",] < 30
        assert samples(world, "snapshot_entries")["providers", "0"] >= 1
        world.until(lambda: samples(world, "journal_backlog_bytes")["0",] == 0)
        assert samples(world, "journal_backlog_seconds")["0",] == 0
        assert samples(world, "process_resident_memory_bytes")["0",] > 10_000_000
        assert 0 < time.time() - samples(world, "process_start_time_seconds")["0",] < 3600
        assert samples(world, "process_open_fds")["0",] > 5

    def test_the_head_of_the_audit_is_the_newest_entry(self, world):
        """The process that makes a change knows it; the others look in their maintenance."""
        name = world.name("head")
        assert Client(world.gateway.url).as_user(new_admin()).post("/groups/", name=name).status_code == 201
        newest = AuditEntry.objects.order_by("-id")[0]
        assert (newest.action, newest.resource, json.loads(newest.after)["name"]) == ("create", "groups", name)
        heads = {digest: number for (digest, _), number in samples(world, "audit_head").items()}
        assert heads.get(newest.hash) == newest.pk, heads

    def test_refusals_by_a_limit_are_counted(self, own_gateway):
        world = own_gateway(GATEWAY_KEY_REQUESTS_PER_MINUTE="1")
        world.allow()
        world.provider()
        world.soon(world.ask, 429, seconds=5)
        assert samples(world, "limit_refusals_total")["RateLimited",] >= 1


@pytest.mark.servers
def test_all_processes_of_a_machine_are_told_of_and_a_killed_ones_numbers_stay(own_gateway):
    world = own_gateway(WEB_CONCURRENCY="3", GATEWAY_KEY_REQUESTS_PER_MINUTE="0")
    world.allow()
    key = world.model, "chat", "completed", world.row(world.provider()).name, "2xx"
    there = Provider.objects.enabled().count()

    def has_settled():
        entries = samples(world, "snapshot_entries")
        return {value for (kind, _), value in entries.items() if kind == "providers"} == {there} and len(entries) == 12

    def ask(number):
        for _ in range(number):
            world.session.close()  # another connection, perhaps another process
            assert world.ask(world.name("prompt")).status_code == 200

    world.until(has_settled, seconds=15)
    ask(30)
    world.until(lambda: samples(world, "requests_total").get(key) == 30, seconds=10)
    assert set(samples(world, "process_threads")) == {("0",), ("1",), ("2",)}
    time.sleep(1.5)  # what the last second counted is lost with a process that is killed
    victims = world.gateway.workers()
    os.kill(victims[0], signal.SIGKILL)
    world.until(lambda: len(set(world.gateway.workers()) - set(victims)) == 1, seconds=20)
    world.until(lambda: set(samples(world, "process_threads")) == {("0",), ("1",), ("2",)}, seconds=20)
    assert samples(world, "requests_total")[key] == 30
    world.until(has_settled, seconds=15)
    ask(10)
    world.until(lambda: samples(world, "requests_total").get(key) == 40, seconds=10)
