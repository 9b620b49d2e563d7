"""Redis away, hanging, slow, empty, full, started anew, or full of nonsense: never a 5xx, never a limit ignored."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

import pytest
import requests
from django.db.models import Model
from requests.structures import CaseInsensitiveDict

from gateway_project.work.routing.strategies import Strategy
from licensing.models import Limit
from rules.aliases.drafts import MirrorDraft
from tests.fault.conftest import UNLIMITED
from tests.fault.test_kill import assert_failures_were_kills, books
from tests.support.fault_proxy import FaultProxy
from tests.support.load import Load, check_books, wait_until
from tests.support.pace import bound, in_one_minute, patience
from tests.support.promises import promise
from tests.support.provider_answers import Answer
from tests.support.running import RunningGateway, Store
from tests.support.servers import OwnRedis, own_redis
from tests.support.world import LONG_AGO, World, limited_key, ready

pytestmark = pytest.mark.servers
PREFIX = "fault"


SLOW = pytest.mark.slow
PROMISE = "While Redis {}, requests are served"
TARGET = "0 failed, p99 at most 0.15 s more once it is noticed"


def served(fault: str) -> pytest.MarkDecorator:
    return promise(PROMISE.format(fault), target=TARGET)


@pytest.fixture(scope="module")
def running(store: Store, tmp_path_factory) -> Iterator[tuple[RunningGateway, OwnRedis, FaultProxy]]:
    """A gateway whose Redis is our own, behind a proxy; it takes itself for one of two."""
    environ = {
        "GATEWAY_REDIS_PREFIX": PREFIX,
        "GATEWAY_PROCESSES": "2",
        **UNLIMITED,
        "GATEWAY_REDIS_TIMEOUT": "0.25",
        "GATEWAY_RETRY_PERCENT": "100",  # a hedge is a retry
    }
    with own_redis() as server, FaultProxy(server.url) as proxy:
        directory = tmp_path_factory.mktemp("redis")
        with RunningGateway(store, directory, REDIS_URL=proxy.url, **environ) as gateway:
            yield gateway, server, proxy


@pytest.fixture
def world(running, orm) -> Iterator[World]:
    with ExitStack() as resources:
        yield World(running[0], resources)


@pytest.fixture
def redis_server(running) -> Iterator[OwnRedis]:
    """Whatever a test does to it, the next one finds it whole."""
    _, server, proxy = running
    yield server
    recover(server, proxy)
    wait_until(lambda: requests.get(f"{running[0].url}/readyz", timeout=10).status_code == 200, 10, "/readyz 200")


@pytest.fixture
def redis_proxy(running) -> FaultProxy:
    return running[2]


def stay_away(server: OwnRedis, proxy: FaultProxy) -> None:
    proxy.refuse()


def stop(server: OwnRedis, proxy: FaultProxy) -> None:
    server.stop()


def hang(server: OwnRedis, proxy: FaultProxy) -> None:
    proxy.hang()


def freeze(server: OwnRedis, proxy: FaultProxy) -> None:
    server.freeze()


def slow_down(server: OwnRedis, proxy: FaultProxy) -> None:
    proxy.slow(1.0)


def fill_up(server: OwnRedis, proxy: FaultProxy) -> None:
    server.fill()


def recover(server: OwnRedis, proxy: FaultProxy) -> None:
    proxy.heal()
    server.heal()


# At most one of each client of the load waits for Redis when its answers stop.
TWICE = pytest.mark.inexact("requests whose answer from Redis is lost may have been counted there, too", ahead=4)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(stay_away, marks=[TWICE, served("refuses connections")]),
        pytest.param(fill_up, marks=served("is full")),
        pytest.param(hang, marks=[TWICE, served("does not answer")]),
        pytest.param(slow_down, marks=[SLOW, TWICE, served("is slow")]),
        pytest.param(stop, marks=[SLOW, served("is stopped")]),
        pytest.param(freeze, marks=[SLOW, TWICE, served("is frozen")]),
    ],
)
def test_requests_are_served_while_redis_is_not(world, redis_server, redis_proxy, fault, figure):
    world.allow()
    world.provider()
    assert ready(world)
    with Load(world, clients=4, pause=0.01) as load:
        load.wait(lambda: load.served() > 50)  # the first ones are slower
        begun = time.monotonic()
        load.wait(lambda: load.served() > 250)
        normal = p99(load, begun)
        fault(redis_server, redis_proxy)
        wait_until(lambda: not ready(world), 10, "/readyz 503")
        time.sleep(0.5)
        begun = time.monotonic()
        while time.monotonic() < begun + 2:
            assert not ready(world), "ready while Redis is of no use"
            time.sleep(0.1)
        during = p99(load, begun)
        recover(redis_server, redis_proxy)
        wait_until(lambda: ready(world), 10, "/readyz 200")
        serve_on(load)
    assert [one for one in load.sent if not one.served] == []
    assert "[Errno 11]" not in world.gateway.log()
    # No call waits for Redis any more (0.25 s each); the rest is what a busy test machine adds.
    assert during < normal + bound(0.15)
    figure(f"{len(load.sent)} requests, 0 failed, p99 {1000 * (during - normal):+.0f} ms")
    first, second = world.ask("again"), world.ask("again")
    assert second.headers["X-Svc-Cache"] == "HIT", first.headers


def serve_on(load: Load) -> None:
    """Return when some more requests have been served."""
    before = load.served()
    load.wait(lambda: load.served() > before + 30)


def p99(load: Load, since: float) -> float:
    """The 99th percentile of the seconds that requests took which began after a moment."""
    return statistics.quantiles([one.ended - one.began for one in load.sent if one.began >= since], n=100)[98]


@pytest.mark.parametrize("fault", [stay_away, fill_up])
def test_limits_hold_by_each_process_share(world, redis_server, redis_proxy, fault):
    world.allow()
    world.provider()
    key = limited_key(world, 20)
    assert world.ask("known", key=key).status_code == 200
    fault(redis_server, redis_proxy)
    wait_until(lambda: world.ask("notices").status_code == 200 and not ready(world), 10, "/readyz 503")
    in_one_minute(10)
    codes = [world.ask(f"prompt {number}", key=key).status_code for number in range(30)]
    assert set(codes) == {200, 429}
    assert 9 <= codes.count(200) <= 10


def test_a_request_costs_two_round_trips_and_a_stored_answer_one(world, redis_server):
    """With limits of each kind for the key, its user and the provider."""
    provider = world.provider()
    world.allow()
    world.price()  # a limit of cost refuses what has none
    key = limited_key(world, 100)
    for measure, window in (("tokens", "minute"), ("concurrent", "none"), ("requests", "day"), ("cost", "month")):
        for subject in ({"user": world.user}, {"provider": world.row(provider)}):
            limit(measure, window, **subject)
    assert world.ask("for the scripts and the counts", key=key).status_code == 200
    statuses: list[str] = []

    def ask_twice() -> None:
        statuses.extend(world.ask("counted", key=key).headers["X-Svc-Cache"] for _ in range(2))

    ours = sent_meanwhile(redis_server, ask_twice)
    assert statuses == ["MISS", "HIT"]
    assert len(ours) == 2 + 1, ours


def limit(measure: str, window: str, **subject: Model) -> None:
    """A limit of 1000; a user has some of them already, by which the books are balanced."""
    amount = {"amount": 1000, "bounds_since": LONG_AGO}
    Limit.objects.update_or_create(measure=measure, window=window, **subject, defaults=amount)


LEARNT = 100
ROUTING = {
    **{strategy.value: {"strategy": strategy.value} for strategy in Strategy},
    "hedge": {"hedge": True},
    "mirror": {"mirror": True},
}
QUICK = {"weighted", "hedge", "mirror"}  # in `make test`


@pytest.mark.parametrize(
    "options",
    [pytest.param(options, id=name, marks=() if name in QUICK else SLOW) for name, options in ROUTING.items()],
)
def test_an_alias_costs_no_more_commands_than_a_model(world, redis_server, options):
    """Whatever its strategy, also where a second target serves. What the processes have measured goes beside it."""
    world.allow()
    world.price()
    first, second, mirrored = world.provider(priority=1), world.provider(priority=2), world.provider("shadow")
    mirror = MirrorDraft(world.row(mirrored).pk, "shadow", 1.0) if "mirror" in options else None
    alias = world.alias(world.target(first), world.target(second, tier=1), **options | {"mirror": mirror}).name
    key = limited_key(world, 1000)
    for measure, window in (("tokens", "minute"), ("concurrent", "none"), ("cost", "month")):
        limit(measure, window, user=world.user)
    for number in range(LEARNT):  # of which a hedge learns what is usual
        assert world.ask(f"{number}", key=key, body={"model": alias}).status_code == 200
    first.default = Answer(delay=0.8 if "hedge" in options else 0)
    headers: dict[str, CaseInsensitiveDict] = {}

    def ask(name: str, prompt: str) -> None:
        headers[name] = world.ask(prompt, key=key, body={"model": name}).headers
        time.sleep(0.5)  # until the mirror has it

    def fewest(name: str, prompts: list[str]) -> int:
        """Those of a request; what else is sent by the clock meanwhile comes on top now and then."""
        return min(len(sent_meanwhile(redis_server, partial(ask, name, prompt))) for prompt in prompts)

    names, prompts = (world.model, alias), ["one", "two", "three"]
    assert [fewest(name, prompts) for name in names] == [2, 2]
    assert headers[alias]["X-Svc-Attempts"] == ("2" if "hedge" in options else "1")
    if "hedge" not in options:  # a hedged answer is not cached
        assert [fewest(name, prompts) for name in names] == [1, 1]
    assert len(mirrored.seen) == (LEARNT + 3 if "mirror" in options else 0)


def sent_meanwhile(server: OwnRedis, work: Callable[[], None]) -> list[str]:
    """The commands that the gateway sends during some work, without those that are known to be sent by the clock."""
    with server.client() as client, server.client() as other, client.monitor() as monitor:
        work()
        other.echo("the end")
        lines = list(commands(monitor, until="the end"))
    return [words for words in lines if f"{PREFIX}:" in words and not is_of_the_background(words)]


def is_of_the_background(words: str) -> bool:
    """Whether a thread beside the requests sends it: by the clock, however many requests there are."""
    marks = (f"{PREFIX}:probe:", f" 1 {PREFIX}:limit:uses", f" {PREFIX}:processes:", f" {PREFIX}:signals:")
    marks += (f" {PREFIX}:shipping:requests", f" {PREFIX}:position:", f" {PREFIX}:limit:uses:peak:")
    renewal = f" 1 {PREFIX}:flight:"  # of the mark that somebody asks for an answer
    return any(mark in words for mark in (*marks, renewal))


def commands(monitor, *, until: str) -> Iterator[str]:
    """What clients sent, as Redis saw it, without what its scripts did."""
    for seen in monitor.listen():
        if until in seen["command"]:
            return
        if seen["client_type"] != "lua":
            yield seen["command"]


@promise("A Redis that is flushed or restarted under load fails no request", target="0 failed; limits = log")
def test_a_flushed_or_restarted_redis_is_filled_anew(world, redis_server, figure):
    world.allow()
    provider = world.provider()
    with Load(world, clients=4, pause=0.005) as load:
        for _ in range(3):
            serve_on(load)
            with redis_server.client() as client:
                client.flushall()
                client.script_flush()
        redis_server.stop()
        redis_server.start()
        wait_until(lambda: ready(world), 10, "/readyz 200")
        serve_on(load)
    assert [one for one in load.sent if not one.served] == []
    figure(f"{len(load.sent)} requests, 0 failed, 3 times flushed, once restarted")
    asked = len(provider.seen)
    assert world.ask("again").headers["X-Svc-Cache"] == "MISS"
    assert world.ask("again").headers["X-Svc-Cache"] == "HIT"
    assert len(provider.seen) == asked + 1


@promise(
    "kill -9 of the gateway and of Redis under load leaves one true entry for each request",
    target="0 lost, 0 twice; limits = log but for kills",
)
@pytest.mark.killed("in the middle of requests")
@pytest.mark.slow
def test_it_is_killed_together_with_the_gateway(world, running, redis_server, figure):
    world.allow()
    provider = world.provider()
    provider.default.delay = 0.1
    with Load(world, clients=4) as whole, Load(world, clients=4, stream=True) as streams:
        for _ in range(3):
            serve_on(whole)
            serve_on(streams)
            redis_server.stop()
            running[0].kill()
            redis_server.start()
            running[0].start()
        serve_on(whole)
        serve_on(streams)
    sent = whole.sent + streams.sent
    result = check_books(sent, provider)
    assert "aborted" in result.values()
    assert_failures_were_kills(sent, result)
    figure(books(result))


@pytest.mark.parametrize("kind", ["answer", pytest.param("limit", marks=SLOW)])
@pytest.mark.parametrize(
    "nonsense",
    [
        b"",
        b"\x80\x04\x95\x1e\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
        b"[" * 100_000,
        b"null\nbody",
        b'[1,"application/json",null,1,"p",[18446744073709551615,0,0,0,0],"stop","stop"]\n{}',
        b'[1,"application/json",[4],1,"p",null,"stop","stop"]\n{}',
        b'[1,"a\\r\\nX: y",null,1,"p",null,"stop","stop"]\n{}',
        b'[1,"application/json",null,-5,"p",null,"stop",7]\n{}',
        ["a", "list"],
        {"a": "hash"},
        12,
        b"x" * (20 * 1024 * 1024),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_nonsense_under_our_keys_is_a_miss(world, redis_server, kind, nonsense):
    prompt = world.name("prompt")
    provider = world.provider()
    world.allow()
    key = limited_key(world, 100)
    assert world.ask(prompt, key=key).headers["X-Svc-Cache"] == "MISS"
    assert world.ask(prompt, key=key).headers["X-Svc-Cache"] == "HIT"
    with redis_server.client() as client:
        names = list(client.scan_iter(f"{PREFIX}:{kind}:*"))
        assert names
        for name in names:
            put(client, name, nonsense)
        begun = time.monotonic()
        responses = [world.ask(prompt, key=key) for _ in range(2)]
        assert time.monotonic() - begun < patience(3)
        while is_huge(nonsense) and kind == "answer" and responses[-1].headers["X-Svc-Cache"] != "HIT":
            # A busy machine may take longer to read it than Redis is waited for: until it is overwritten.
            assert time.monotonic() - begun < patience(10)
            time.sleep(0.2)
            responses.append(world.ask(prompt, key=key))
        client.flushall()
    for response in responses:
        assert response.status_code == 200, response.text
        assert response.json()["choices"][0]["message"]["content"] == prompt
        assert world.entry(response).outcome == "completed"
    if kind == "answer":
        statuses = [response.headers["X-Svc-Cache"] for response in responses]
        assert statuses == ["MISS"] * (len(statuses) - 1) + ["HIT"]
        assert len(provider.seen) == len(statuses)
    assert "Traceback" not in world.gateway.log()
    wait_until(lambda: ready(world), 10, "/readyz 200")


def is_huge(nonsense) -> bool:
    return isinstance(nonsense, bytes) and len(nonsense) > 10**6


def test_a_limit_that_is_no_number_is_counted_by_the_process(world, redis_server):
    world.allow()
    world.provider()
    key = limited_key(world, 20)
    in_one_minute(10)
    assert world.ask("first", key=key).status_code == 200
    with redis_server.client() as client:
        for name in client.scan_iter(f"{PREFIX}:limit:*"):
            put(client, name, b"many")
    codes = [world.ask("first", key=key).status_code for _ in range(60)]
    # Half of what was left after the first one; and half of the rest with each second that this takes.
    assert 9 <= codes.count(200) <= 19
    assert set(codes) == {200, 429}


def put(client, name: bytes, value) -> None:
    client.delete(name)
    if isinstance(value, list):
        client.rpush(name, *value)
    elif isinstance(value, dict):
        client.hset(name, mapping=value)
    else:
        client.set(name, value)
