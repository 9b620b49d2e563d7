"""kill -9: whatever dies, the log has one true entry for each request."""

import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from providers.models import Provider
from telemetry.journal.files import START, read_records
from telemetry.models import LogEntry
from tests.fault.conftest import has_servers
from tests.support.load import Load, Sent, check_books, wait_until
from tests.support.pace import patience
from tests.support.promises import promise

# A request may be killed between its count and its first record, or between its settlement and its last one.
pytestmark = pytest.mark.killed("in the middle of requests")

NONE = "0 lost, 0 twice"
WORKER = promise("kill -9 of a worker under load leaves one true entry for each request", target=NONE)
EVERYTHING = promise("kill -9 of everything under load leaves one true entry for each request", target=NONE)
BOTH_KINDS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


def slow_provider(world, seconds: float):
    world.allow()
    provider = world.provider()
    provider.default.delay = seconds
    assert world.key
    time.sleep(patience(0.5))  # every worker has looked at the database by then
    world.settle()  # a single one certainly has
    return provider


def kill_a_worker(gateway) -> None:
    pid = random.choice(gateway.workers())
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: pid not in gateway.workers(), 10, "the end of a killed worker")


def serving_again(load: Load) -> None:
    before = load.served()
    load.wait(lambda: load.served() > before + 5, 30)


@WORKER
@pytest.mark.skipif(has_servers(), reason="with servers the test of two workers says this and more")
def test_killed_workers_leave_one_entry_for_each_request(start, figure):
    world = start()
    provider = slow_provider(world, 0.05)
    with Load(world, clients=4) as load, Load(world, clients=4, stream=True) as streams:
        for _ in range(3):
            serving_again(load)
            serving_again(streams)
            kill_a_worker(world.gateway)
        serving_again(load)
    sent = load.sent + streams.sent
    result = check_books(sent, provider)
    assert list(result.values()).count("aborted") >= 3
    assert_failures_were_kills(sent, result)
    figure(books(result))


@pytest.mark.parametrize("stream", [pytest.param(False, marks=pytest.mark.slow), True], ids=["whole", "stream"])
def test_those_who_wait_for_anothers_answer_are_logged_too(start, stream):
    world = start(WEB_CONCURRENCY="1", GATEWAY_FIRST_BYTE_TIMEOUT="30", GATEWAY_TOTAL_TIMEOUT="30")
    provider = slow_provider(world, 20)
    body = {"model": world.model, "messages": [], "stream": stream}
    head = {"Authorization": f"Bearer {world.key}"}
    with ThreadPoolExecutor(5) as pool:
        for number in range(5):
            sent = {"json": body, "headers": head | {"X-Svc-Request-ID": f"same-{number}"}, "timeout": 20}
            pool.submit(requests.post, f"{world.gateway.url}/work", **sent)
            world.unanswered += 1
        wait_until(lambda: started(world.gateway) == 5, 10, "the starts of all")
        provider.wait_for(1)
        kill_a_worker(world.gateway)
    entries = LogEntry.objects.filter(correlation_id__startswith="same-", entry_type="WorkRequest")
    wait_until(lambda: entries.count() == 5, 20, "the entries of those who waited")
    assert sorted(entries.values_list("outcome", "attempts", "entry_source")) == [
        *[("aborted", 0, "Not Set")] * 4,
        ("aborted", 1, "Worker"),
    ]


def started(gateway) -> int:
    """How many requests its journals say have begun."""
    segments = [path.read_bytes() for path in (gateway.directory / "journal").glob("*/*.segment")]
    return sum(record.kind == START for data in segments for record in read_records(data, 0, len(data)))


def assert_failures_were_kills(sent: list[Sent], result: dict[str, str]) -> None:
    """What a client did not get was aborted, finished in the moment of the kill, or never accepted."""
    for one in sent:
        if not one.served:
            assert one.error, f"{one.request_id} got {one.status}: {one.text[:200]}"
            assert result.get(one.request_id, "aborted") in ("aborted", "completed", "client_closed")


def test_what_a_killed_worker_had_asked_is_told_up_to_the_last_provider(start):
    world = start(WEB_CONCURRENCY="1", GATEWAY_FIRST_BYTE_TIMEOUT="30", GATEWAY_TOTAL_TIMEOUT="30")
    last = slow_provider(world, 20)
    first = world.provider()
    first.default.status = 503
    Provider.objects.filter(id=world.row(last).id).update(priority=200)
    world.settle()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(world.ask)
        last.wait_for(1)
        kill_a_worker(world.gateway)
    entries = LogEntry.objects.filter(outcome="aborted", provider_id=world.row(last).id)
    wait_until(lambda: entries.count() == 1, 20, "the entry of the request")
    entry = entries.get()
    assert (entry.attempts, entry.asked_before) == (2, [world.row(first).id])


@EVERYTHING
def test_a_killed_server_tells_at_its_next_start(start, figure):
    world = start()
    provider = slow_provider(world, 0.3)
    with Load(world, clients=8) as load:
        load.wait(lambda: load.served() >= 8 and len(provider.seen) > 8)
        load.stop()
        world.gateway.kill()
    seen = {one.json["messages"][0]["content"] for one in provider.seen}
    assert len(seen) > 8
    world.gateway.start()
    result = check_books(load.sent, provider)
    aborted = {request_id for request_id, outcome in result.items() if outcome == "aborted"}
    assert aborted
    assert aborted == {one.request_id for one in load.sent if not one.served and one.request_id in result}
    assert world.ask("after").status_code == 200
    figure(books(result))


@WORKER
@pytest.mark.servers
def test_the_other_worker_serves_on_and_adopts(start, figure):
    world = start(WEB_CONCURRENCY="2")
    provider = slow_provider(world, 0.05)
    gateway = world.gateway
    fresh = {"clients": 4, "keep_alive": False}
    with Load(world, **fresh) as load, Load(world, stream=True, **fresh) as streams:
        for _ in range(3):
            wait_until(lambda: len(gateway.workers()) == 2 and all(map(is_up, gateway.workers())), 20, "two workers")
            serving_again(load)
            serving_again(streams)
            kill_a_worker(gateway)
            begun = time.monotonic()
            served = load.served()
            load.wait(lambda served=served: load.served() > served, patience(2))
            assert time.monotonic() - begun < patience(2)
        serving_again(load)
    sent = load.sent + streams.sent
    result = check_books(sent, provider)
    assert "aborted" in result.values()
    assert_failures_were_kills(sent, result)
    wait_until(lambda: len(journals(gateway)) <= 2, 15, lambda: f"the end of dead journals: {journals(gateway)}")
    figure(books(result))


@WORKER
@EVERYTHING
@pytest.mark.servers
@pytest.mark.slow
@pytest.mark.timeout(300)
@BOTH_KINDS
def test_thirty_kills(start, stream, figure):
    world = start(WEB_CONCURRENCY="2")
    provider = slow_provider(world, 0.05)
    with Load(world, clients=12, stream=stream) as load:
        for number in range(30):
            serving_again(load)
            if number % 10 == 9:
                world.gateway.kill()
                world.gateway.start()
            else:
                kill_a_worker(world.gateway)
        serving_again(load)
    result = check_books(load.sent, provider, 60)
    assert list(result.values()).count("aborted") >= 30
    assert_failures_were_kills(load.sent, result)
    figure(books(result))


def books(result: dict[str, str]) -> str:
    """What check_books() has shown."""
    return f"{len(result)} entries, {list(result.values()).count('aborted')} aborted, 0 lost, 0 twice"


def is_up(pid: int) -> bool:
    """Whether a worker has started the threads that it starts last."""
    return len(os.listdir(f"/proc/{pid}/task")) >= 5


def journals(gateway) -> dict[str, list[str]]:
    """The journals' folders, each with its files."""
    return {path.name: os.listdir(path) for path in (gateway.directory / "journal").iterdir()}
