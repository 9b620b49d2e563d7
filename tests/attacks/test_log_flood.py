"""Whoever has no credential cannot fill the disk with entries or the server's output with lines."""

import http.client
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from django.utils import timezone

from telemetry.models import AuditEntry, LogEntry
from tests.support.promises import promise
from tests.support.running import manage
from tests.support.thoroughness import first_of, number_of

REQUESTS, CONNECTIONS, SECONDS = number_of(12_000), 2, 10
REFUSED = {"exception": "AuthenticationFailed", "user_id": None}


def flood(port: int, count: int, statuses: list[int]) -> None:
    """Bad keys over one connection, as fast as they are answered."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for number in range(count):
        headers = {"Authorization": f"Bearer sk-unknown-{number}", "Content-Type": "application/json"}
        connection.request("POST", "/work", b"{}", headers)
        response = connection.getresponse()
        response.read()
        statuses.append(response.status)
    connection.close()


def refusals_counted(world) -> int:
    """How many requests the metrics say were denied."""
    text = requests.get(f"{world.gateway.url}/metrics", timeout=20).text
    lines = [
        line for line in text.splitlines() if line.startswith("gateway_requests_total{") and 'outcome="denied"' in line
    ]
    return sum(int(float(line.rpartition(" ")[2])) for line in lines)


@pytest.mark.thorough
@promise("Unknown credentials cannot fill the log", target="at most 20 entries for 12,000 bad keys in 10 s")
@pytest.mark.either_store
def test_a_flood_of_bad_keys_leaves_few_entries_and_lines(own_gateway, tmp_path, figure):
    world = own_gateway(GATEWAY_REFUSAL_ENTRIES="5")
    since = timezone.now()
    lines, statuses = len(world.gateway.log().splitlines()), []
    share = [REQUESTS // CONNECTIONS] * CONNECTIONS
    threads = [threading.Thread(target=flood, args=[world.gateway.port, count, statuses]) for count in share]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - begun
    assert statuses == [401] * REQUESTS
    counted = refusals_counted(world)
    assert world.gateway.stop() == 0  # the counts are written now, or a minute after the first refusal

    rows = LogEntry.objects.filter(**REFUSED, timestamp__gte=since)
    own = rows.filter(entry_type="WorkRequest").count()
    summaries = list(rows.filter(entry_type="Message"))
    assert own + sum(int(row.message.split()[0].replace(",", "")) for row in summaries) == REQUESTS == counted
    assert {row.address for row in summaries} == {"127.0.0.1"}
    minutes = int(took // 60) + 1
    assert rows.count() <= 20 * minutes
    assert len(world.gateway.log().splitlines()) - lines <= 2
    assert "the difference between log and usage is 0" in manage(world.gateway.store, tmp_path, "verify_usage")
    figure(f"{rows.count()} entries for {REQUESTS:,} in {took:.0f} s")


@promise("A full gateway cannot be made to fill the log", target="at most 11 entries for 200 requests without a key")
@pytest.mark.either_store
def test_requests_that_a_full_gateway_refuses_leave_few_entries(own_gateway):
    threads = 8
    world = own_gateway(GATEWAY_THREADS=str(threads), GATEWAY_REFUSAL_ENTRIES="5")
    provider = world.provider(first_byte_timeout_seconds=30)
    provider.default.delay = 6
    world.allow()
    world.settle()
    assert world.key  # made here: the threads have no connection to the database
    since, url = timezone.now(), f"{world.gateway.url}/work"
    with ThreadPoolExecutor(threads) as pool, requests.Session() as session:
        slow = [pool.submit(world.ask, f"{number}") for number in range(threads)]
        provider.wait_for(threads)
        refused = [session.post(url, json={}, timeout=20) for _ in range(200)]
        assert {response.status_code for response in refused} == {503}
        assert {future.result().status_code for future in slow} == {200}
    assert world.gateway.stop() == 0
    rows = LogEntry.objects.filter(timestamp__gte=since, exception="ServiceUnavailable", user_id=None)
    own = rows.filter(entry_type="WorkRequest").count()
    summaries = [int(row.message.split()[0]) for row in rows if " more request" in row.message]
    assert own + sum(summaries) == 200
    assert rows.count() <= 11


@promise("Malformed requests cannot fill the server's output", target="1 line a minute")
@pytest.mark.embedded
def test_malformed_requests_print_a_line_a_minute(own_gateway):
    world = own_gateway()
    for _ in range(200):
        with socket.create_connection(("127.0.0.1", world.gateway.port), timeout=10) as sock:
            sock.sendall(b"NONSENSE\r\n\r\n")
            assert sock.recv(100).startswith(b"HTTP/1.1 400")
    assert world.gateway.log().count("malformed request") == 1


@promise("Failed logins cannot fill the audit", target="at most 21 entries of 60, which all are counted")
@pytest.mark.either_store
def test_a_flood_of_failed_logins_leaves_few_entries_and_all_numbers(own_gateway):
    world = own_gateway(
        GATEWAY_REFUSAL_ENTRIES="5", GATEWAY_TRUSTED_PROXIES="127.0.0.1", GATEWAY_LOGIN_FAILURES_PER_ACCOUNT="1000"
    )
    name, since = world.user.username, timezone.now()
    lines = len(world.gateway.log().splitlines())
    with requests.Session() as session:
        for number in range(60):
            attributes = {"grantType": "password", "userName": f"nobody-{number}" if number % 2 else name}
            body = {"data": {"attributes": attributes | {"password": "a wrong password"}}}
            headers = {"X-Forwarded-For": f"192.0.2.{number % 40}", "Content-Type": "application/vnd.api+json"}
            response = session.post(f"{world.gateway.url}/auth/login", json=body, headers=headers, timeout=30)
            assert response.status_code == 401, response.text
    assert world.gateway.stop() == 0  # the counts are written now, or after a minute

    for rows, payload in (
        (AuditEntry.objects.filter(timestamp__gte=since, action="login"), "after"),
        (LogEntry.objects.filter(timestamp__gte=since, entry_type="Message", status=401), "payload"),
    ):
        events = [json.loads(getattr(row, payload)) for row in rows]
        counts = [event["after"] if payload == "payload" else event for event in events]
        sums = [one for one in counts if one]
        assert sum(one["failedLogins"] for one in sums) + rows.count() - len(sums) == 60
        assert rows.count() <= 21
        assert sums[0]["users"][name] > 0 < sums[0]["unknownNames"]
        assert "192.0.2.39" in sums[0]["addresses"]
        assert rows.filter(message=f"The password for {name} was wrong.").count() == 5
    assert len(world.gateway.log().splitlines()) - lines <= 21 + 5


SIGN_ON = {
    "GATEWAY_OIDC_ISSUER": "https://login.invalid",
    "GATEWAY_OIDC_CLIENT_ID": "gateway",
    "GATEWAY_OIDC_CLIENT_SECRET": "a secret of the provider",
}
MANY_FIELDS = {f"field{number}": "" for number in range(1001)}  # more than Django reads
NONSENSE = [
    ("/auth/sso/sso/backchannel-logout", {"logout_token": "nonsense"}, 400, "logout token"),
    ("/admin/login/", {"username": "nobody"}, 403, "Forbidden"),
    ("/auth/sso/sso/backchannel-logout", MANY_FIELDS, 400, "GET/POST parameters"),
]


@promise("Anonymous nonsense cannot fill the server's output", target="1 line a minute of each kind")
@pytest.mark.embedded
@pytest.mark.parametrize(("path", "form", "status", "words"), first_of(*NONSENSE))
def test_anonymous_requests_print_a_line_a_minute(own_gateway, path, form, status, words):
    world = own_gateway(**SIGN_ON)
    before = len(world.gateway.log().splitlines())
    with requests.Session() as session:
        statuses = {session.post(f"{world.gateway.url}{path}", form, timeout=20).status_code for _ in range(200)}
    assert statuses == {status}
    lines = world.gateway.log().splitlines()[before:]
    assert sum(words in line for line in lines) == 1, lines[:3]
    assert len(lines) == 1
