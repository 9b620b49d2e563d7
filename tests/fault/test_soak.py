"""Hours of use in little time: every lifetime is a minute at most, and what grows is seen.

SOAK=1800 make faults     runs it for 30 minutes; without SOAK it is left out
"""

import itertools
import os
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from statistics import median

import pytest
import requests
from django.utils import timezone

from tests.support.footprint import Footprint, largest
from tests.support.load import Load, check_books, wait_until
from tests.support.management import PASSWORD, body, new_admin
from tests.support.promises import promise
from tests.support.provider_answers import Answer
from tests.support.world import World

SECONDS = int(os.environ.get("SOAK") or 0)
SAMPLE_SECONDS, KEY_SECONDS = 1.0, 30
# A quarter of the time is for what is filled once: the cache, pools, the allocator.
WARM_UP = 0.25
GROWTH = Footprint(threads=2, files=8, memory_mib=24)
SHORT = {
    "GATEWAY_CACHE_TTL": "20",
    "GATEWAY_CACHE_MAX_BYTES": str(4 * 1024 * 1024),
    "GATEWAY_ACCESS_TOKEN_SECONDS": "10",
    "GATEWAY_REFRESH_TOKEN_SECONDS": "60",
    "GATEWAY_HOUSEKEEPING_INTERVAL": "5",
    "GATEWAY_JOURNAL_SEGMENT_BYTES": "262144",
    "GATEWAY_LOG_PAYLOAD_MAX_BYTES": "1024",
    "GATEWAY_LOGIN_FAILURES": "1000000",
}

pytestmark = [
    pytest.mark.either_store,
    pytest.mark.slow,
    pytest.mark.skipif(not SECONDS, reason="SOAK says for how many seconds it runs; make faults SOAK=1800"),
    pytest.mark.timeout(SECONDS + 600),
]


class Repeated:
    """Calls a function again and again in a thread of its own, until the block ends."""

    def __init__(self, function: Callable[[], object], seconds: float) -> None:
        self.function, self.seconds = function, seconds
        self.failures: list[BaseException] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Repeated":
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._is_over.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._is_over.wait(self.seconds):
            try:
                self.function()
            except Exception as error:  # shown at the end
                self.failures.append(error)


def visit(world: World, name: str) -> Callable[[], None]:
    """A login whose tokens expire, reads and writes with it, refreshes and its end."""

    def once() -> None:
        with requests.Session() as session:
            session.headers["Content-Type"] = "application/json"
            attributes = {"userName": name, "password": PASSWORD, "grantType": "password"}
            answer = session.post(f"{world.gateway.url}/auth/login", json=body(**attributes), timeout=30)
            assert answer.status_code == 200, answer.text
            session.headers["Authorization"] = f"Bearer {answer.cookies['SvcUserCookie']}"
            for path in ("/logs/?page[size]=5", "/cache/", "/keys/", "/stats/"):
                read = session.get(f"{world.gateway.url}{path}", timeout=30)
                assert read.status_code == 200, read.text

    return once


def short_lived_key(world: World) -> Callable[[], None]:
    """A key that is used and expires; the next one replaces it."""

    def once() -> None:
        key = world.new_key(expiry=timezone.now() + timedelta(seconds=KEY_SECONDS)).text
        headers = {"Authorization": f"Bearer {key}"}
        document = {"model": world.model, "messages": [{"role": "user", "content": "a short-lived key"}]}
        answer = requests.post(f"{world.gateway.url}/work", json=document, headers=headers, timeout=30)
        assert answer.status_code == 200, answer.text

    return once


def repeat_a_prompt(world: World) -> Callable[[], None]:
    """A hit, until the entry of the cache expires."""
    numbers = itertools.count()

    def once() -> None:
        answer = requests.post(
            f"{world.gateway.url}/work",
            json={"model": world.model, "messages": [{"role": "user", "content": f"repeated {next(numbers) % 5}"}]},
            headers={"Authorization": f"Bearer {world.key}"},
            timeout=30,
        )
        assert answer.status_code == 200, answer.text

    return once


@promise("A soak in which every lifetime is a minute at most lets nothing grow", target=f"0 failed, growth ≤ {GROWTH}")
def test_nothing_grows(start, figure):
    world = start(**SHORT)
    world.allow()
    provider = world.provider()
    provider.default = Answer(delay=0.02)
    admin = new_admin(username=world.name("admin"))
    assert world.ask("before").status_code == 200
    others = [visit(world, admin.username), short_lived_key(world), repeat_a_prompt(world)]
    samples: list[Footprint] = []
    with (
        Load(world, 3, pause=0.05) as whole,
        Load(world, 3, stream=True, pause=0.05, keep_alive=False) as streams,
        Load(world, 1, stream=True, pause=0.1, timeout=0.01) as impatient,
        Repeated(others[0], 2) as visits,
        Repeated(others[1], 1) as keys,
        Repeated(others[2], 0.1) as hits,
        Repeated(lambda: samples.append(largest(world.gateway.workers())), SAMPLE_SECONDS) as sampler,
    ):
        time.sleep(SECONDS)
    failures = [failure for one in (visits, keys, hits, sampler) for failure in one.failures]
    assert failures == []
    sent = [*whole.sent, *streams.sent]
    assert [one for one in sent if not one.served] == []
    check_books([*sent, *impatient.sent], provider)
    growth = grown(samples)
    figure(f"{SECONDS} s, {len(sent)} requests, growth {growth}")
    assert all(now <= most for now, most in zip(growth, GROWTH, strict=True)), growth
    wait_until(lambda: "Traceback" not in world.gateway.log(), 1, "a log without a traceback")


def grown(samples: list[Footprint]) -> Footprint:
    """By how much the median of the last quarter is above that of the first one after the warm-up."""
    first, quarter = int(len(samples) * WARM_UP), len(samples) // 4
    before, after = samples[first : first + quarter], samples[-quarter:]
    return Footprint(
        *(
            int(median(late) - median(early))
            for early, late in zip(zip(*before, strict=True), zip(*after, strict=True), strict=True)
        )
    )
