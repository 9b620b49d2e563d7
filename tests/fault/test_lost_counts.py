"""Requests that limits count before or after the log knows of them: their counts agree in the end."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta

import requests
from django.utils import timezone

from accounts.models import User
from licensing.models import Limit
from telemetry.models import LogEntry
from tests.fault.conftest import has_servers
from tests.fault.test_kill import started
from tests.support.load import wait_until
from tests.support.pace import bound
from tests.support.promises import promise
from tests.support.world import LONG_AGO

WORKERS = {"WEB_CONCURRENCY": "2" if has_servers() else "1"}


@promise("The first requests of a new user with new limits do not wait for a recount", target="at most 0.5 s each")
def test_a_new_user_with_a_new_limit_is_served_at_once(start, figure):
    world = start(**WORKERS)
    world.limits_since = None
    time.sleep(1.1)  # Redis vouches for its counts from the second after the start on
    Limit.objects.filter(user=world.user, measure="requests").update(amount=5)
    world.allow()
    world.provider()
    world.settle()
    answers, durations = [], []
    for _ in range(7):
        begun = time.monotonic()
        answers.append(world.ask().status_code)
        durations.append(time.monotonic() - begun)
    assert answers == [200] * 5 + [429] * 2, "the limit holds from the first request on"
    assert max(durations) < bound(0.5)
    figure(f"{max(durations) * 1000:.0f} ms at most")


def test_who_is_killed_while_waiting_for_a_count_is_logged_and_counts_nowhere(start):
    world = start(**WORKERS)
    world.limits_since = None
    User.objects.filter(pk=world.user.pk).update(created_at=timezone.now() - timedelta(days=1))
    world.allow()
    provider = world.provider()
    world.settle()
    with ThreadPoolExecutor(6) as pool:
        for number in range(6):
            pool.submit(ask_and_be_left, world, f"waits-{world.number}-{number}")
        wait_until(lambda: started(world.gateway) == 6, 5, "the starts of all")
        for pid in world.gateway.workers():
            os.kill(pid, signal.SIGKILL)
    assert provider.seen == []
    entries = LogEntry.objects.filter(correlation_id__startswith=f"waits-{world.number}-", entry_type="WorkRequest")
    wait_until(lambda: entries.count() == 6, 20, "the entries of those who waited")
    assert set(entries.values_list("outcome", "exception", "attempts")) == {("aborted", "RateLimited", 0)}
    wait_until(lambda: world.ask().status_code == 200, 20, "a new worker")


def ask_and_be_left(world, name: str) -> None:
    body = {"model": world.model, "messages": [{"role": "user", "content": name}]}
    headers = {"Authorization": f"Bearer {world.key}", "X-Svc-Request-ID": name}
    with suppress(requests.RequestException):
        requests.post(f"{world.gateway.url}/work", json=body, headers=headers, timeout=20)


def test_who_waited_for_anothers_answer_and_finds_no_room_to_ask_is_not_counted(start):
    world = start(GATEWAY_FIRST_BYTE_TIMEOUT="20", GATEWAY_TOTAL_TIMEOUT="20")
    world.allow()
    provider = world.provider()
    issued = world.new_key()
    Limit.objects.create(key=issued.key, measure="tokens", window="day", amount=100, bounds_since=LONG_AGO)
    assert world.ask("warm up", key=issued.text, body={"max_tokens": 1}).status_code == 200
    provider.default.delay = 20
    same = {"messages": [{"role": "user", "content": "the same"}], "max_tokens": 60}
    leader = world.send(same, key=issued.text)
    provider.wait_for(2)
    with ThreadPoolExecutor(1) as pool:
        follower = pool.submit(world.ask, "the same", key=issued.text, body={"max_tokens": 60})
        wait_until(lambda: started(world.gateway) >= 3, 10, "the start of who waits")
        leader.close()  # who leaves pays for what it reserved
        answer = follower.result()
    assert (answer.status_code, answer.json()["exception"]) == (429, "QuotaExceeded")
    entry = world.entry(answer)
    assert (entry.outcome, entry.attempts) == ("denied", 0)
