"""A provider that refuses, resets, hangs, cuts or drips, in each phase of a call: the request ends by its deadline."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import NamedTuple

import pytest

from tests.fault.conftest import UNLIMITED
from tests.support.fault_proxy import reset
from tests.support.load import Sent, outcomes, send_many, wait_until
from tests.support.pace import bound
from tests.support.promises import promise
from tests.support.provider import ScriptedProvider, refusing_port
from tests.support.provider_answers import Answer
from tests.support.raw_provider import full_queue, hang_up, listener, raw_provider, wait_for_goodbye
from tests.support.running import RunningGateway, Store
from tests.support.world import World

pytestmark = [pytest.mark.either_store, pytest.mark.slow]

CONNECT, SILENCE, TOTAL = 0.5, 0.7, 2.0
COUNT, AT_ONCE, THREADS = 40, 8, 16  # who has its answer may ask again before its thread is free: twice as many threads
EVENT = {"choices": [{"index": 0, "delta": {"content": "word "}, "finish_reason": None}]}
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"


@pytest.fixture(scope="module")
def impatient(store: Store, tmp_path_factory) -> Iterator[RunningGateway]:
    """A gateway with short deadlines and few threads, on which what leaks adds up over all tests."""
    environ = {
        "GATEWAY_THREADS": str(THREADS),
        "GATEWAY_CONNECT_TIMEOUT": str(CONNECT),
        "GATEWAY_FIRST_BYTE_TIMEOUT": str(SILENCE),
        "GATEWAY_IDLE_TIMEOUT": str(SILENCE),
        "GATEWAY_TOTAL_TIMEOUT": str(TOTAL),
        "GATEWAY_BREAKER_FAILURES": "10000",
    }
    with RunningGateway(store, tmp_path_factory.mktemp("impatient"), **UNLIMITED, **environ) as running:
        yield running


@pytest.fixture
def world(impatient: RunningGateway, orm: None) -> Iterator[World]:
    with ExitStack() as resources:
        yield World(impatient, resources)


class Fault(NamedTuple):
    """Where such a provider listens, after how many seconds a request ends, and how."""

    port: Callable[[], AbstractContextManager[int]]
    seconds: float
    statuses: set[int]
    scheme: str = "http"


@contextmanager
def refusing() -> Iterator[int]:
    yield refusing_port()


@contextmanager
def scripted(**script: object) -> Iterator[int]:
    with ScriptedProvider() as provider:
        provider.default = Answer(**script)
        yield provider.port


def after(sent: bytes) -> Callable[[], AbstractContextManager[int]]:
    """A provider that hangs after these bytes of its answer."""

    def say(connection) -> None:
        connection.sendall(sent)
        wait_for_goodbye(connection)

    return lambda: raw_provider(say)


FAULTS = {
    "refuses": Fault(refusing, 0, {502}),
    "hangs in connect": Fault(full_queue, CONNECT, {504}),
    "hangs in TLS": Fault(lambda: listener(wait_for_goodbye), TOTAL, {504}, "https"),
    "resets in TLS": Fault(lambda: listener(hang_up), 0, {502}, "https"),
    "speaks no TLS": Fault(lambda: listener(lambda one: one.sendall(b"HTTP/1.1 400 Bad\r\n\r\n")), 0, {502}, "https"),
    "resets on connect": Fault(lambda: listener(lambda one: one.close()), 0, {502}),
    "resets after the request": Fault(lambda: raw_provider(hang_up_at_once), 0, {502}),
    "hangs before the head": Fault(after(b""), SILENCE, {504}),
    "hangs in the head": Fault(after(HEAD[:40]), SILENCE, {504}),
    "hangs in the body": Fault(after(HEAD + b'{"id": '), SILENCE, {504}),
    "cuts the body": Fault(lambda: scripted(cut_after=30), 0, {502}),
    "resets in the body": Fault(lambda: scripted(cut_after=30, reset=True), 0, {502}),
    "drips": Fault(lambda: scripted(drip=0.2), TOTAL, {504}),
}
# Streams that have begun are 200; the error is their last event.
STREAM_FAULTS = {
    "hangs in mid-stream": Fault(lambda: scripted(stream=[EVENT] * 3, silent_after=2), SILENCE, {200}),
    "cuts in mid-stream": Fault(lambda: scripted(stream=[EVENT] * 9, cut_after=300), 0, {200}),
    "resets in mid-stream": Fault(lambda: scripted(stream=[EVENT] * 9, cut_after=300, reset=True), 0, {200, 502}),
    "ends without its mark": Fault(lambda: scripted(stream=[EVENT] * 3), 0, {200}),
    "streams without end": Fault(lambda: scripted(stream=[EVENT] * 1000, pace=0.05), TOTAL, {200}),
    "drips a stream": Fault(lambda: scripted(stream=[EVENT] * 9, drip=0.02), TOTAL, {200, 504}),
}


def hang_up_at_once(connection) -> None:
    """The request has been read: only the RST is left to do."""
    reset(connection)


def suffer(world: World, fault: Fault, *, stream: bool) -> list[Sent]:
    with fault.port() as port:
        world.provider(url=f"{fault.scheme}://127.0.0.1:{port}/v1")
        world.allow()
        send_many(world, 1, at_once=1)  # the counts of a new user's limits are read from the log first
        return send_many(world, COUNT, at_once=AT_ONCE, stream=stream)


def check_end(sent: list[Sent], fault: Fault, expected: set[str]) -> float:
    """No request was served, each ended in time and has its entry; the seconds of the slowest."""
    assert {one.status for one in sent} <= fault.statuses, [(one.status, one.text[-200:]) for one in sent[:3]]
    assert not any(one.served or one.error for one in sent)
    slowest = max(one.ended - one.began for one in sent)
    assert slowest < fault.seconds + bound(1)
    ids = {one.request_id for one in sent}
    wait_until(lambda: len(outcomes(ids)) == COUNT, 10, "an entry for each request")
    assert {outcome for each in outcomes(ids).values() for outcome in each} <= expected
    return slowest


PROMISE = "Whatever phase a provider refuses, resets, hangs, truncates or drips in, the request ends by its deadline"
TARGET = "deadline + 1 s, 40 of 40 in each of 19 faults"


@promise(PROMISE, target=TARGET)
@pytest.mark.parametrize("name", FAULTS)
def test_a_call_that_fails_ends_by_its_deadline(world, name, figure):
    slowest = check_end(suffer(world, FAULTS[name], stream=False), FAULTS[name], {"failed"})
    figure({"s after the deadline": slowest - FAULTS[name].seconds})


@promise(PROMISE, target=TARGET)
@pytest.mark.parametrize("name", STREAM_FAULTS)
def test_a_stream_that_fails_ends_by_its_deadline(world, name, figure):
    slowest = check_end(suffer(world, STREAM_FAULTS[name], stream=True), STREAM_FAULTS[name], {"failed", "truncated"})
    figure({"s after the deadline": slowest - STREAM_FAULTS[name].seconds})


@promise("A provider that works again is used again at once", target="the next 40 requests in 2 s")
def test_a_provider_that_has_recovered_serves(world, figure):
    provider = world.provider()
    world.allow()
    send_many(world, 1, at_once=1)
    provider.default = Answer(silent=True)
    sent = send_many(world, COUNT, at_once=AT_ONCE)
    assert {one.status for one in sent} == {504}
    provider.default = Answer()
    begun = time.monotonic()
    assert all(one.served for one in send_many(world, COUNT, at_once=AT_ONCE))
    seconds = time.monotonic() - begun
    assert seconds < bound(2)
    figure(f"40 of 40 in {seconds:.1f} s")
