"""Hours of use in little time: every lifetime is a minute at most, and what grows is seen.

`make faults` runs it for 30 minutes, `SOAK=120 make faults` for two; `SOAK= make faults` and `make test` leave it out.

What is kept for days takes half a minute (tests/support/fault/short_days.py). Log entries, those of unknown credentials
and the audit are removed by whole days and months, and the books compare this hour: for them there are rows from 40
days ago.
"""

import itertools
import os
import re
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from statistics import median

import pytest
import requests
from django.db import connection
from django.utils import timezone

from telemetry.models import CacheEntry, LogEntry
from tests.fault.conftest import UNLIMITED
from tests.support.fault.short_days import HALF_A_MINUTE, SHORT_DAYS
from tests.support.fault.visits import visit_api, visit_console
from tests.support.footprint import Footprint, largest
from tests.support.load import Load, check_books, wait_until
from tests.support.management import new_admin
from tests.support.promises import promise
from tests.support.provider_answers import Answer
from tests.support.running import QUICK, ROOT
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
    "GATEWAY_LOG_DAYS": "1",
    "GATEWAY_REFUSAL_DAYS": "1",
    "GATEWAY_REVOCATION_TIMEOUT": "10",
    "DJANGO_SETTINGS_MODULE": "tests.support.fault.short_days",
}
# Settings of lifetimes that are longer than a minute, and why.
LONGER = {
    "GATEWAY_LOG_DAYS": "the books need the entries of the soak; older ones are deleted in it",
    "GATEWAY_REFUSAL_DAYS": "as GATEWAY_LOG_DAYS",
    "GATEWAY_AUDIT_DAYS": "only whole months are removed",
}
LIFETIME = re.compile(r"(default lifetime|longest lifetime|lifetime|seconds|days|minutes|hours)\b")
UNIT_SECONDS = {"DAYS": 86_400, "MINUTES": 60, "HOURS": 3600}
OLD_ROWS, OLD = 20, timedelta(days=40)

pytestmark = pytest.mark.either_store


class Repeated:
    """Calls a function again and again in a thread of its own, until the block ends."""

    def __init__(self, function: Callable[[], object], seconds: float) -> None:
        self.function, self.seconds = function, seconds
        self.failures: list[BaseException] = []
        self.count = 0
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
                self.count += 1
            except Exception as error:  # shown at the end
                self.failures.append(error)


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


def old_entries(world: World) -> Callable[[], None]:
    """Entries from long ago, which retention deletes."""

    def once() -> None:
        values = {"timestamp": timezone.now() - OLD, "payload": "{}"}
        refused = {"status": 401, "exception": "AuthenticationFailed"}
        rows = [values | {"status": 200, "user_id": world.user.pk}] * OLD_ROWS + [values | refused] * OLD_ROWS
        LogEntry.objects.bulk_create(LogEntry(entry_type="Mirror", correlation_id="old", **row) for row in rows)
        connection.close()

    return once


@pytest.mark.slow
@pytest.mark.skipif(not SECONDS, reason="SOAK says for how many seconds it runs; `make faults` sets it to 1800")
@pytest.mark.timeout(SECONDS + 600)
@pytest.mark.grows("beside what it was before its first request, it has filled the cache and the pools", mib=40)
@promise("A soak in which every lifetime is a minute at most lets nothing grow", target=f"0 failed, growth ≤ {GROWTH}")
def test_nothing_grows(start, figure):
    world = start(**SHORT)
    world.allow()
    provider = world.provider()
    provider.default = Answer(delay=0.02)
    admin = new_admin(username=world.name("admin"))
    assert world.ask("before").status_code == 200
    second = new_admin(username=world.name("admin"))
    samples: list[Footprint] = []
    with (
        Load(world, 3, pause=0.05) as whole,
        Load(world, 3, stream=True, pause=0.05, keep_alive=False) as streams,
        Load(world, 1, stream=True, pause=0.1, timeout=0.01) as impatient,
        Repeated(visit_api(world, admin), 2) as visits,
        Repeated(visit_console(world, second), 2) as console,
        Repeated(short_lived_key(world), 1) as keys,
        Repeated(repeat_a_prompt(world), 0.1) as hits,
        Repeated(old_entries(world), 1) as entries,
        Repeated(lambda: samples.append(largest(world.gateway.workers())), SAMPLE_SECONDS) as sampler,
    ):
        time.sleep(SECONDS)
    failures = [failure for one in (visits, console, keys, hits, entries, sampler) for failure in one.failures]
    assert [str(failure) for failure in failures[:3]] == []
    sent = [*whole.sent, *streams.sent]
    assert [one for one in sent if not one.served] == []
    assert min(one.count for one in (visits, console, entries)) >= SECONDS // 20
    check_books([*sent, *impatient.sent], provider)
    check_retention()
    growth = grown(samples)
    figure(f"{SECONDS} s, {len(sent)} requests, growth {growth}")
    assert all(now <= most for now, most in zip(growth, GROWTH, strict=True)), growth
    wait_until(lambda: "Traceback" not in world.gateway.log(), 1, "a log without a traceback")


def check_retention() -> None:
    """Nothing is there whose time is over, but for the last rounds of the housekeeper.

    Sessions stay for an hour after their end, so that a late use of their tokens is recognised.
    """
    limit = timezone.now() - timedelta(seconds=60)
    over = {
        "old entries": LogEntry.objects.filter(timestamp__lt=timezone.now() - OLD / 2),
        "payloads": LogEntry.objects.filter(timestamp__lt=limit).exclude(payload=""),
        "cache records": CacheEntry.objects.filter(expires_at__lt=limit),
    }
    rest = lambda: {name: rows.count() for name, rows in over.items() if rows.exists()}  # noqa: E731
    wait_until(lambda: not rest(), 30, lambda: f"retention: {rest()}; it")


def test_every_setting_of_a_lifetime_is_short():
    """Whoever adds one shortens it above, or says why not."""
    environ = QUICK | UNLIMITED | SHORT
    seconds = {name: seconds_of(name, environ.get(name, default)) for name, default in lifetimes().items()}
    assert len(seconds) > 25
    assert {name for name, value in seconds.items() if not 0 < value <= 60} == set(LONGER)


def lifetimes() -> dict[str, str]:
    """The settings that are a time, and their defaults, by docs/settings.md."""
    rows = re.findall(r"^\| `(\w+)` \| `?([^`|]*)`? \| (.*) \|$", (ROOT / "docs/settings.md").read_text(), re.MULTILINE)
    return {name: default for name, default, text in rows if LIFETIME.match(text)}


def seconds_of(name: str, value: str) -> float:
    number = HALF_A_MINUTE if name in SHORT_DAYS else float(value)
    return number * UNIT_SECONDS.get(name.rpartition("_")[2], 1)


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
