"""Whatever can fail does, at random, for a minute: then log, usage and limits agree to the last request and token."""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import requests
from django.db.models import Count, Q, Sum

from gateway_project.env import MEASURES
from gateway_project.work import runtime as gateway_of_process
from licensing.models import Limit
from telemetry.models import LogEntry, UsageHour
from tests.fault.conftest import UNLIMITED
from tests.support.fault_proxy import FaultProxy
from tests.support.load import Load, check_books, wait_until
from tests.support.promises import promise
from tests.support.provider import ScriptedProvider, SeenRequest
from tests.support.provider_answers import Answer
from tests.support.running import RunningGateway, Store
from tests.support.world import AMPLE, World

pytestmark = [pytest.mark.servers, pytest.mark.slow, pytest.mark.timeout(400)]
SECONDS, LONGEST_FAULT_SECONDS = 60, 3
RESERVED_TOKENS, RESERVED_DOLLARS = 1040, 2.07  # what an answer without usage counts as
# Requests, tokens and dollars of those who were killed between the one and the other: two without usage among them.
MOST_COUNTED_AND_NOT_LOGGED = (5, 30 + 2 * RESERVED_TOKENS, 0.06 + 2 * RESERVED_DOLLARS)
MOODS = [
    *[{}] * 30,
    *({"status": status} for status in (400, 429, 500, 503)),
    *({"silent": True}, {"silent_after": 2}, {"delay": 3}),
    *({"cut_after": 10}, {"cut_after": 300}, {"reset": True}, {"no_terminal": True}, {"usage": {}}),
]


class Replica:
    """A gateway of two workers, with its ways to the database and to Redis; what can befall it."""

    def __init__(self, store: Store, directory: Path, resources: ExitStack) -> None:
        self.database = resources.enter_context(FaultProxy(store.database_url))
        self.redis = resources.enter_context(FaultProxy(store.redis_url))
        urls = {"DATABASE_URL": self.database.url, "REDIS_URL": self.redis.url}
        processes = {"WEB_CONCURRENCY": "2", "GATEWAY_PROCESSES": "4", "GATEWAY_REDIS_TIMEOUT": "1"}
        directory.mkdir()
        self.gateway = resources.enter_context(RunningGateway(store, directory, **UNLIMITED, **urls, **processes))

    def suffer(self, stores: list[str], chance: random.Random) -> None:
        """One of the faults, for as long as it pleases; both stores are there before the next one."""
        proxy = getattr(self, chance.choice(stores))
        fault = chance.choice([proxy.refuse, proxy.hang, self.kill_a_worker, self.kill, self.reload])
        fault()
        time.sleep(chance.random() * LONGEST_FAULT_SECONDS)
        proxy.heal()
        wait_until(self.is_ready, 40, "the end of a fault")

    def is_ready(self) -> bool:
        """Whether one worker after the other says so."""
        asked = (requests.get(f"{self.gateway.url}/readyz", timeout=30) for _ in range(8))
        return all(answer.status_code == 200 for answer in asked)

    def kill_a_worker(self) -> None:
        with suppress(ProcessLookupError, IndexError):  # it is being replaced
            os.kill(self.gateway.workers()[0], signal.SIGKILL)

    def kill(self) -> None:
        self.gateway.kill()
        self.gateway.start()

    def reload(self) -> None:
        self.gateway.process.send_signal(signal.SIGHUP)


@pytest.fixture
def replicas(store: Store, orm, tmp_path) -> Iterator[list[Replica]]:
    with ExitStack() as resources:
        yield [Replica(store, tmp_path / name, resources) for name in ("one", "two")]


@pytest.fixture
def world(replicas) -> Iterator[World]:
    with ExitStack() as resources:
        yield World(replicas[0].gateway, resources)


def moody(provider: ScriptedProvider, chance: random.Random) -> ScriptedProvider:
    """The provider, from now on in a mood of its own for each request."""
    arrived: Callable[[SeenRequest], Answer] = provider.arrived

    def answer(seen: SeenRequest) -> Answer:
        arrived(seen)
        return Answer(**({"delay": chance.random() / 5} | chance.choice(MOODS)))

    provider.arrived = answer
    return provider


WHOLE, STREAMS, IMPATIENT = 5, 5, 2  # clients
MOST_IN_FLIGHT = WHOLE + STREAMS + IMPATIENT
TWO_FAULTS = pytest.mark.inexact(
    "what a process serves while it is killed or Redis breaks", ahead=MOST_IN_FLIGHT, behind=MOST_IN_FLIGHT
)


@promise(
    "A minute of kills, reloads and stores that go away at random", target="usage = log; limits = log but for kills"
)
@pytest.mark.killed("in the middle of requests")
@pytest.mark.parametrize(
    "stores",
    [
        pytest.param(["database"], id="database"),
        pytest.param(["database", "redis"], id="database and redis", marks=TWO_FAULTS),
    ],
)
def test_the_books_balance_after_everything(replicas, world, settings, store, stores, figure):
    chance = random.Random(1)
    world.allow()
    providers = [moody(world.provider(), chance) for _ in range(2)]
    world.price(1000, 2000)
    Limit.objects.create(user=world.user, measure="cost", window="day", amount=AMPLE)
    limits = [Limit.objects.get(user=world.user, measure=measure) for measure in MEASURES]
    world.settle()
    urls = [replica.gateway.url for replica in replicas]
    with (
        Load(world, WHOLE, urls=urls) as whole,
        Load(world, STREAMS, stream=True, urls=urls) as streams,
        Load(world, IMPATIENT, stream=True, urls=urls, timeout=0.15) as impatient,
    ):
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            chance.choice(replicas).suffer(stores, chance)
            time.sleep(chance.random())
    for replica in replicas:
        replica.gateway.stop()
        replica.gateway.start()
    sent = [*whole.sent, *streams.sent, *impatient.sent]
    for provider in providers:
        check_books(sent, provider)
    assert whole.served() > 100
    assert streams.served() > 100
    settings.GATEWAY_REDIS_PREFIX = store.prefix
    user = world.user.id
    wait_until(lambda: used(user)["requests"] == logged(user)["requests"], 30, "the usage of each entry")
    assert used(user) == logged(user)
    *counted, in_flight = (one.used for one in gateway_of_process.read_limit_statuses(limits))
    assert in_flight == 0
    admitted = logged(user, refused=Q(status=429, attempts=0))  # as those are whose process died while they waited
    ahead = [float(count - amount) for count, amount in zip(counted, admitted.values(), strict=True)]
    figure(f"{admitted['requests']} requests, limits minus log: {ahead[0]:+.0f} requests, {ahead[1]:+.0f} tokens")
    if "redis" not in stores:  # else see TWO_FAULTS
        assert all(0 <= one <= most for one, most in zip(ahead, MOST_COUNTED_AND_NOT_LOGGED, strict=True)), ahead


def logged(user: int, *, refused: Q | None = None) -> dict[str, Any]:
    """What the entries of a user come to, without those that were refused."""
    entries = LogEntry.objects.filter(user_id=user, entry_type="WorkRequest")
    return (entries.exclude(refused) if refused else entries).aggregate(
        requests=Count("id"), tokens=Sum("input_tokens") + Sum("output_tokens"), cost=Sum("cost")
    )


def used(user: int) -> dict[str, Any]:
    """What the usage of a user comes to."""
    return UsageHour.objects.filter(user_id=user).aggregate(
        requests=Sum("requests"),
        tokens=Sum("input_tokens") + Sum("output_tokens"),
        cost=Sum("cost") + Sum("estimated_cost"),
    )
