"""What holds after every fault: the books balance, and the gateway takes no more than before.

    balance = Balance()         # before the fault
    ...
    balance.check()             # everything is healed first

tests/fault/conftest.py does this around each of its tests, for the worlds and gateways of the test.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, timedelta
from typing import Any

import redis
import requests
from django.db.models import Count, F, Max, Q, Sum
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from accounts.models import User
from telemetry.models import LogEntry
from telemetry.usage.rollups import ceil_hour, floor_hour
from telemetry.usage.verification import differences
from tests.support.fault_proxy import FaultProxy
from tests.support.footprint import Footprint
from tests.support.management import Client, new_admin
from tests.support.running import RunningGateway
from tests.support.servers import OwnPostgresql, OwnRedis
from tests.support.world import World

# Longer than a lease, for what a killed process held lapses by itself; and shorter than a test may take (120 s).
SECONDS = 45
# May be answered without an entry of its own: unknown credentials are counted together.
WITHOUT_ENTRY = {401}
CLOCKS = timedelta(days=2)
# What a process may hold more than before its first request. Files: connections to the database, segments of the
# journal; memory: what the first requests load (about 10 MiB), and what the allocator keeps.
GROWTH = Footprint(threads=2, files=8, memory_mib=24)
OTHER_CONNECTIONS = 8  # those of background threads

COUNTED = {"requests": "day", "tokens": "day", "concurrent": "none"}


class Balance:
    """What was logged before a test, and whether everything that happened since is accounted for."""

    def __init__(self) -> None:
        self.last_before = LogEntry.objects.aggregate(last=Max("id"))["last"] or 0

    def check(
        self,
        *,
        most: Footprint = GROWTH,
        was_killed: bool = False,
        was_full: bool = False,
        ahead: int = 0,
        behind: int = 0,
    ) -> Footprint:
        """Heal what is broken, and compare; the largest growth of a process, which is bounded by `most`.

        `was_full`: the journal's disk was full, and requests were refused with 503 because nothing could be logged.
        `was_killed`: processes died in the middle of requests. By `ahead` and `behind` requests the counts of limits
        may differ from the log (docs/reliability.md, "Counts and the log").
        """
        worlds = list(World.alive)
        heal()
        start_the_ended(worlds)
        gateways = list({id(world.gateway): world.gateway for world in worlds if world.gateway.is_alive()}.values())
        for gateway in gateways:
            expect(lambda gateway=gateway: is_idle(gateway), lambda gateway=gateway: pending(gateway))
        self.check_entries(worlds, WITHOUT_ENTRY | ({503} if was_full else set()))
        self.check_usage()
        growths = [Footprint()]
        for gateway in gateways:
            check_uses(gateway)
            growths.append(check_footprint(gateway, worlds, most))
        for world in worlds:
            lost = world.unanswered if was_killed and world.gateway.environ["REDIS_URL"] else 0
            check_limits(world, asked_for(world, gateways), ahead + lost, behind)
        return Footprint(*(max(values) for values in zip(*growths, strict=True)))

    def check_entries(self, worlds: Iterable[World], without_entry: set[int]) -> None:
        """Every response and every call of a provider is in the log, and each request once."""
        answers = {name for world in worlds for name, status in world.answers if status not in without_entry}
        request = Counter({world.row(one).pk: len(one.seen) for world in worlds for one in world.scripted})
        expect(lambda: not self.gaps(answers, request), lambda: str(self.gaps(answers, request)))
        assert self.twice() == []

    def gaps(self, answers: set[str], request: Counter[int]) -> dict[str, Any]:
        """Responses without an entry, and by provider calls that no entry knows of."""
        missing = answers - set(self.entries().values_list("correlation_id", flat=True))
        calls = request - self.calls()
        return ({"responses without an entry": sorted(missing)[:5]} if missing else {}) | (
            {"calls without an entry, by provider": dict(calls)} if calls else {}
        )

    def calls(self) -> Counter[int]:
        """The attempts at each provider, by the log."""
        calls: Counter[int] = Counter()
        rows = self.entries() | self.rows("Mirror")
        for provider, attempts, others in rows.values_list("provider_id", "attempts", "asked_before"):
            calls.update(others or [])
            calls[provider] += attempts - len(others or [])
        return calls

    def entries(self) -> Any:
        return self.rows("WorkRequest")

    def rows(self, kind: str) -> Any:
        """The entries of this type since the test began."""
        return LogEntry.objects.filter(entry_type=kind, id__gt=self.last_before)

    def twice(self) -> list[str]:
        """Requests with more than one entry: each has an id of its own."""
        counted = self.entries().values("correlation_id").annotate(entries=Count("id")).filter(entries__gt=1)
        return list(counted.values_list("correlation_id", flat=True)[:5])

    def check_usage(self) -> None:
        """The sums of the log are those of the usage, in every hour that a gateway's clock may have shown."""
        hours = floor_hour(timezone.now() - CLOCKS), ceil_hour(timezone.now() + CLOCKS)
        expect(lambda: not differences(*hours), lambda: f"log minus usage is {differences(*hours)[:3]}")


def expect(good: Callable[[], bool], what: Callable[[], str]) -> None:
    """Wait until it holds; else AssertionError with what was the matter."""
    deadline = time.monotonic() + SECONDS
    while not good():
        if time.monotonic() > deadline:
            raise AssertionError(f"After {SECONDS} s there is still a difference: {what()}")
        time.sleep(0.1)


def heal() -> None:
    """Whatever a test broke is whole again."""
    for proxy in FaultProxy.alive:
        proxy.heal()
    for server in (*OwnRedis.alive, *OwnPostgresql.alive):
        server.heal()


def start_the_ended(worlds: Iterable[World]) -> None:
    """Where no gateway of a store runs any more, one is started again, which can be asked for the counts."""
    for world in worlds:
        if not any(one.gateway.is_alive() for one in worlds if one.gateway.store is world.gateway.store):
            world.gateway.start()


def is_idle(gateway: RunningGateway) -> bool:
    return not pending(gateway)


def pending(gateway: RunningGateway) -> str:
    """What a gateway has not come to the end of; empty if nothing."""
    try:
        # Any worker may take a connection: each has to say so.
        statuses = {requests.get(f"{gateway.url}/readyz", timeout=10).status_code for _ in range(4)}
        exposition = requests.get(f"{gateway.url}/metrics", timeout=10).text
    except requests.RequestException as error:
        return f"{gateway.url}: {type(error).__name__}"
    if statuses != {200}:
        return f"/readyz says {statuses}: {requests.get(f'{gateway.url}/readyz', timeout=10).text[:200]}"
    samples = [sample for family in text_string_to_metric_families(exposition) for sample in family.samples]
    rest = {"gateway_requests_in_flight": 0.0, "gateway_journal_backlog_bytes": 0.0}
    busy = [f"{one.name} {one.value:.0f}" for one in samples if one.value > rest.get(one.name, one.value)]
    return ", ".join(busy)


def check_uses(gateway: RunningGateway) -> None:
    """Nobody uses the licence any more."""
    admin = admin_of(gateway)

    def uses() -> int:
        return admin.get("/stats/?days=1").json()["data"]["stats"]["currentUses"]

    expect(lambda: uses() == 0, lambda: f"{uses()} active uses of the licence, in Redis {uses_in_redis(gateway)}")


def uses_in_redis(gateway: RunningGateway) -> dict[bytes, list[tuple[bytes, float]]]:
    """Who has uses until when (ms), and which processes say so; empty without Redis."""
    if not (url := gateway.environ["REDIS_URL"]):
        return {}
    with redis.Redis.from_url(url) as client:
        names = client.scan_iter(f"{gateway.store.prefix}:limit:uses*", _type="zset")
        return {name: client.zrange(name, 0, -1, withscores=True) for name in names} | {b"now": list(client.time())}


def check_limits(world: World, gateway: RunningGateway, ahead: int, behind: int) -> None:
    """What was counted for the users of this world is what their entries come to, but for so many requests."""
    admin = admin_of(gateway)
    for user in world.users:
        expect(
            lambda user=user: is_balanced(counted(admin, user), gateway, user, ahead, behind),
            lambda user=user: f"{counted(admin, user)} counted and {logged(gateway, user)} logged",
        )


def asked_for(world: World, gateways: list[RunningGateway]) -> RunningGateway:
    """The gateway of a world, or if that has ended another one on its store."""
    own = [gateway for gateway in gateways if gateway is world.gateway]
    return [*own, *(gateway for gateway in gateways if gateway.store is world.gateway.store)][0]


def is_balanced(counts: dict[str, float], gateway: RunningGateway, user: User, ahead: int, behind: int) -> bool:
    """Whether counts and log agree, but for at most so many requests that only one of them has."""
    sums = logged(gateway, user)
    largest = {measure: largest_use(gateway, user, measure) for measure in sums}
    return all(
        -behind * largest[measure] <= counts[measure] - sums[measure] <= ahead * largest[measure] for measure in sums
    )


def largest_use(gateway: RunningGateway, user: User, measure: str) -> int:
    """The most of a measure that one of this user's requests used."""
    tokens = counted_work(gateway, user).aggregate(most=Max(F("input_tokens") + F("output_tokens")))["most"] or 0
    return {"requests": 1, "tokens": tokens, "concurrent": 0}[measure]


def counted(admin: Client, user: User) -> dict[str, float]:
    rows = admin.rows(f"/limits/?userId={user.pk}")
    return {row["measure"]: row["used"] or 0 for row in rows if row["window"] == COUNTED.get(row["measure"])}


def logged(gateway: RunningGateway, user: User) -> dict[str, float]:
    """What the entries of a user come to: refused requests count for nothing, and stored answers as requests alone."""
    entries = counted_work(gateway, user)
    bought = ~Q(entry_source="Cache")
    sums = entries.aggregate(
        requests=Count("id"), input=Sum("input_tokens", filter=bought), output=Sum("output_tokens", filter=bought)
    )
    return {
        "requests": sums["requests"],
        "tokens": (sums["input"] or 0) + (sums["output"] or 0),
        "concurrent": 0,
    }


def counted_work(gateway: RunningGateway, user: User) -> Any:
    """The entries that count today: without Redis, those with times of today by the clock of the gateway.

    With Redis it is the day of its clock, which no test moves, whatever times the entries have.
    """
    entries = LogEntry.objects.filter(user_id=user.pk, entry_type="WorkRequest").exclude(status=429, attempts=0)
    if gateway.environ["REDIS_URL"]:
        return entries
    today = timezone.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return entries.filter(timestamp__gte=today, timestamp__lt=today + timedelta(days=1))


def admin_of(gateway: RunningGateway) -> Client:
    return Client(gateway.url).as_user(new_admin())


def check_footprint(gateway: RunningGateway, worlds: Iterable[World], most: Footprint) -> Footprint:
    """Threads, files and memory are back; what stays is what is kept for the next requests. Returns the growth.

    Each thread that has served requests stays, with a connection to each provider and one to Redis.
    """
    growth: Callable[[], Footprint] = lambda: gateway.holds().minus(gateway.at_rest or Footprint())  # noqa: E731
    expect(
        lambda: all(now <= bound for now, bound in zip(growth(), most, strict=True)),
        lambda: f"{gateway.holds()}, {gateway.at_rest} before, growth at most {most}",
    )
    servers = 1 + sum(len(world.scripted) for world in worlds)
    number = lambda: sum(map(gateway.kept_connections, gateway.workers()))  # noqa: E731
    kept = lambda: sum(servers * serving + OTHER_CONNECTIONS for _, serving in gateway.threads())  # noqa: E731
    expect(lambda: number() <= kept(), lambda: f"{number()} connections to providers and Redis, at most {kept()}")
    return growth()
