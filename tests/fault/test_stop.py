"""SIGTERM and SIGHUP under load: what has begun ends well."""

import os
import signal
import socket
import threading
import time
from contextlib import ExitStack

import pytest
import requests

from tests.support.load import Load, Sent, ask, check_books, seen_ids, wait_until
from tests.support.pace import patience
from tests.support.promises import promise
from tests.support.thoroughness import first_of

pytestmark = pytest.mark.either_store

EVENT = {"choices": [{"index": 0, "delta": {"content": "word "}, "finish_reason": None}]}
DONE = "data: [DONE]\n\n"
GRACE = 6  # GATEWAY_GRACEFUL_TIMEOUT of gateways under test


def leftovers(gateway) -> list[str]:
    """What the journal's folder still holds."""
    root = gateway.directory / "journal"
    return sorted(os.listdir(root)) if root.is_dir() else []


@promise("A stop under load ends what has begun", target="0 failed of those that were accepted")
def test_a_stop_under_load_fails_no_request_that_was_accepted(start, figure):
    world = start()
    world.allow()
    provider = world.provider()
    provider.default.delay = 0.1
    with Load(world, clients=8, timeout=15) as whole, Load(world, clients=8, stream=True, timeout=15) as streams:
        whole.wait(lambda: whole.served() > 20 and streams.served() > 20)
        world.gateway.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        whole.stop()
        streams.stop()
        status = world.gateway.process.wait(GRACE + 10)
    assert status == 0
    sent = whole.sent + streams.sent
    accepted = seen_ids(provider)
    assert [one for one in sent if one.request_id in accepted and not one.served] == []
    # Whoever came too late was told by the connection, and by nothing else.
    assert [one for one in sent if not one.served and not one.error] == []
    result = check_books(sent, provider, 5)
    assert set(result.values()) == {"completed"}
    assert leftovers(world.gateway) == []
    figure(f"0 of {len(accepted)} failed")


def test_what_lasts_too_long_is_told_so_before_the_stop(start):
    world = start()
    world.allow()
    provider = world.provider()
    provider.answers(stream=[EVENT] * 15 + [DONE], pace=0.1)
    provider.answers(stream=[EVENT] * 1000 + [DONE], pace=0.1)
    provider.answers(silent_after=1, stream=[EVENT] * 2)
    provider.answers(silent=True)
    fates = [Sent(f"load-stop-{world.number}-{kind}", 0) for kind in ("short", "endless", "silent", "whole")]
    threads = []
    for fate in fates:
        arguments = (requests.Session(), world.gateway.url, world.key, world.model, fate)
        options = {"stream": "whole" not in fate.request_id, "timeout": 20}
        threads.append(threading.Thread(target=ask, args=arguments, kwargs=options))
        threads[-1].start()
        provider.wait_for(len(threads))
    begun = time.monotonic()
    assert world.gateway.stop(GRACE + 10) == 0
    assert time.monotonic() - begun < GRACE + patience(2)
    for thread in threads:
        thread.join(10)
    short, endless, silent, whole = fates
    assert short.served
    assert short.text.rstrip().endswith("data: [DONE]")
    for fate in (endless, silent):
        assert fate.error == ""
        assert '"exception"' in fate.text.strip().splitlines()[-1]
    assert whole.status in (503, 504)
    outcomes = [world.entry(fate.request_id).outcome for fate in fates]
    assert outcomes == ["completed", "truncated", "truncated", "failed"]
    assert leftovers(world.gateway) == []


def test_a_stop_does_not_wait_for_connections_that_say_nothing(start):
    gateway = start().gateway
    with ExitStack() as resources:
        for _ in range(3):
            resources.enter_context(socket.create_connection(("127.0.0.1", gateway.port)))
        time.sleep(5.5)  # for the first 5 s a thread waits for their first byte
        resources.enter_context(socket.create_connection(("127.0.0.1", gateway.port)))
        begun = time.monotonic()
        assert gateway.stop() == 0
    assert time.monotonic() - begun < patience(4)
    assert leftovers(gateway) == []


@pytest.mark.parametrize("number", first_of(signal.SIGKILL, signal.SIGTERM))
def test_its_port_is_free_for_a_successor_while_what_has_begun_ends(start, number):
    world = start(GATEWAY_GRACEFUL_TIMEOUT="60", GATEWAY_TOTAL_TIMEOUT="60")
    world.allow()
    provider = world.provider()
    # As long as the successor takes to start, on a busy machine too.
    provider.answers(stream=[EVENT] * int(patience(4) * 10) + [DONE], pace=0.1)
    one = Sent(f"load-successor-{world.number}-{number}", 0)
    arguments = (requests.Session(), world.gateway.url, world.key, world.model, one)
    asking = threading.Thread(target=ask, args=arguments, kwargs={"stream": True, "timeout": 60})
    asking.start()
    provider.wait_for(1)
    world.gateway.process.send_signal(number)
    wait_until(lambda: not listens(world.gateway.port), 2.5, "the end of listening")
    start("successor", PORT=str(world.gateway.port))
    assert one.ended == 0
    asking.join(60)
    assert one.served, one


@pytest.mark.parametrize("number", first_of(signal.SIGINT, signal.SIGTERM))
def test_a_stop_says_what_it_waits_for(start, number):
    """Also Ctrl-C, which a terminal sends to every process of the gateway."""
    world = start(GATEWAY_GRACEFUL_TIMEOUT="30", GATEWAY_TOTAL_TIMEOUT="30", GATEWAY_FIRST_BYTE_TIMEOUT="20")
    world.allow()
    provider = world.provider()
    provider.answers(stream=[EVENT] * 40 + [DONE], pace=0.1)
    provider.answers(delay=4)
    fates = [Sent(f"load-said-{world.number}-{kind}", 0) for kind in ("stream", "whole")]
    threads = []
    for fate in fates:
        arguments = (requests.Session(), world.gateway.url, world.key, world.model, fate)
        options = {"stream": "stream" in fate.request_id, "timeout": 30}
        threads.append(threading.Thread(target=ask, args=arguments, kwargs=options))
        threads[-1].start()
        provider.wait_for(len(threads))
    (worker,) = world.gateway.workers()
    os.killpg(world.gateway.process.pid, number)
    assert world.gateway.process.wait(30) == 0
    for thread in threads:
        thread.join(10)
    assert [one for one in fates if not one.served] == []
    said = [line for line in world.gateway.log().splitlines() if "Stopping" in line]
    assert len(said) == 1, world.gateway.log()
    assert f"gateway.stop[{worker}]: " in said[0]
    assert said[0].endswith("Stopping: waiting for 2 requests (1 stream among them), for at most 30 s.")


def test_a_second_interrupt_stops_at_once(start):
    world = start(GATEWAY_GRACEFUL_TIMEOUT="60", GATEWAY_TOTAL_TIMEOUT="60", GATEWAY_FIRST_BYTE_TIMEOUT="50")
    world.allow()
    provider = world.provider()
    provider.answers(silent=True)
    one = Sent(f"load-second-{world.number}", 0)
    arguments = (requests.Session(), world.gateway.url, world.key, world.model, one)
    asking = threading.Thread(target=ask, args=arguments, kwargs={"timeout": 60})
    asking.start()
    provider.wait_for(1)
    os.killpg(world.gateway.process.pid, signal.SIGINT)
    wait_until(lambda: "waiting for 1 request, for at most 60 s" in world.gateway.log(), 10, "what it waits for")
    os.killpg(world.gateway.process.pid, signal.SIGINT)
    assert world.gateway.process.wait(patience(10)) == 0
    asking.join(10)
    assert "Traceback" not in world.gateway.log()
    world.gateway.start()  # for the books


def listens(port: int) -> bool:
    """Whether anybody can connect; a connection that nobody would serve counts."""
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def test_who_has_connected_before_a_stop_is_served(start):
    """Connections that wait in the kernel for a process that is busy are not reset."""
    world = start()
    world.allow()
    world.provider()
    (worker,) = world.gateway.workers()
    os.kill(worker, signal.SIGSTOP)
    late = [Sent(f"load-late-{world.number}-{number}", 0) for number in range(8)]
    threads = []
    for one in late:
        arguments = (requests.Session(), world.gateway.url, world.key, world.model, one)
        threads.append(threading.Thread(target=ask, args=arguments, kwargs={"timeout": 20}))
        threads[-1].start()
    time.sleep(0.5)
    world.gateway.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    os.kill(worker, signal.SIGCONT)
    for thread in threads:
        thread.join(30)
    assert [one for one in late if not one.served] == []
    assert world.gateway.process.wait(GRACE + 10) == 0
    world.gateway.start()  # for the books


@promise("A rolling restart under streams fails no request", target="0 failed")
@pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_a_rolling_reload_under_load_fails_nothing(start, times, figure):
    world = start()
    world.allow()
    provider = world.provider()
    provider.default.delay = 0.05
    fresh = {"clients": 3, "keep_alive": False}
    with (
        Load(world, **fresh) as whole,
        Load(world, stream=True, **fresh) as streams,
        Load(world, clients=3) as kept,
    ):
        for _ in range(times):
            old = world.gateway.workers()
            whole.wait(lambda: whole.served() > 20 and streams.served() > 20)
            world.gateway.process.send_signal(signal.SIGHUP)
            wait_until(lambda old=old: set(old).isdisjoint(world.gateway.workers()), 20, "the end of the old workers")
            before = whole.served()
            whole.wait(lambda before=before: whole.served() > before + 10)
    assert [one for one in whole.sent + streams.sent if not one.served] == []
    # A kept connection may close between two requests, as at any other time; never within one.
    accepted = seen_ids(provider)
    assert [one for one in kept.sent if not one.served and (one.request_id in accepted or not one.error)] == []
    assert set(check_books(whole.sent + streams.sent + kept.sent, provider).values()) == {"completed"}
    figure(f"{len(whole.sent + streams.sent)} requests, 0 failed in {times} restart{'s' * (times > 1)}")


@pytest.mark.parametrize("number", first_of(signal.SIGINT, signal.SIGQUIT))
def test_ctrl_c_lets_what_has_begun_come_to_its_end(start, number):
    world = start()
    world.allow()
    provider = world.provider()
    provider.default.delay = 1
    one = Sent(f"load-quit-{world.number}", 0)
    asking = threading.Thread(
        target=ask, args=[requests.Session(), world.gateway.url, world.key, world.model, one], kwargs={"timeout": 20}
    )
    asking.start()
    provider.wait_for(1)
    for process in [*world.gateway.workers(), world.gateway.process.pid]:  # a terminal tells all of them
        os.kill(process, number)
    asking.join(30)
    world.gateway.process.wait(GRACE + 10)
    assert one.served, one
    world.gateway.start()  # for the books
