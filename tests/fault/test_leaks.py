"""Many requests at once, clients that leave and providers that say too much: nothing stays behind, nothing mixes."""

import json
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import requests

from tests.fault.conftest import UNLIMITED
from tests.support.load import wait_until
from tests.support.pace import bound, patience
from tests.support.promises import promise
from tests.support.raw_provider import raw_provider
from tests.support.running import RunningGateway
from tests.support.thoroughness import first_of, quarter_of
from tests.support.world import World

pytestmark = pytest.mark.either_store

EVENT = {"choices": [{"index": 0, "delta": {"content": "word "}, "finish_reason": None}]}
MIB = 1024 * 1024
# Several requests of the largest size that is allowed here may be in memory twice; 1 GB may not.
RESPONSE_LIMIT = 8 * MIB


def files(gateway: RunningGateway) -> int:
    return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in gateway.workers())


def threads(gateway: RunningGateway) -> int:
    return sum(len(os.listdir(f"/proc/{pid}/task")) for pid in gateway.workers())


def peak_memory(gateway: RunningGateway) -> int:
    """The most bytes that a worker has held since reset_peak()."""
    return max(_status_kib(pid, "VmHWM") for pid in gateway.workers()) * 1024


def reset_peak(gateway: RunningGateway) -> int:
    """Forget the peak; what is held now."""
    for pid in gateway.workers():
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    return max(_status_kib(pid, "VmRSS") for pid in gateway.workers()) * 1024


def _status_kib(pid: int, name: str) -> int:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1])


def send(world: World, prompt: str, **options) -> requests.Response:
    """Ask over a connection of its own: worlds share theirs."""
    body = {"model": world.model, "messages": [{"role": "user", "content": prompt}]} | options.pop("body", {})
    headers = {"Authorization": f"Bearer {world.key}"}
    return requests.post(f"{world.gateway.url}/work", json=body, headers=headers, timeout=patience(20), **options)


def test_a_thousand_prompts_at_once_each_get_their_own_answer(start):
    count = 32
    world = start(GATEWAY_THREADS=str(count), GATEWAY_TOTAL_TIMEOUT="60", GATEWAY_FIRST_BYTE_TIMEOUT="60")
    world.allow()
    provider = world.provider()
    provider.default.delay = 0.02
    assert send(world, "warm").status_code == 200
    before = files(world.gateway), threads(world.gateway)

    def ask(number: int) -> tuple[str, int, str]:
        nonce = f"nonce-{number:04d}-{os.urandom(8).hex()}"
        stream = number % 2 == 1
        response = send(world, nonce, body={"stream": True} if stream else {})
        return nonce, response.status_code, response.text

    with ThreadPoolExecutor(count // 2) as pool:
        answers = list(pool.map(ask, range(1000)))
    assert {code for _, code, _ in answers} == {200}
    for nonce, _, text in answers:
        assert nonce in text
        assert text.count("nonce-") == 1
    assert len(provider.seen) == 1001
    provider.wait_idle()
    # What stays is what is kept for the next requests: for each thread a connection to the provider and one to Redis.
    most = before[0] + 2 * count + 10
    wait_until(lambda: files(world.gateway) <= most, 10, lambda: f"{files(world.gateway)} files of {most}")
    assert threads(world.gateway) <= before[1] + count


@pytest.mark.parametrize("goodbye", first_of("rst", "fin"))
def test_aborted_streams_leave_nothing_behind(start, goodbye):
    world = start()
    world.allow()
    provider = world.provider()
    provider.default.stream = [EVENT] * 3000
    provider.default.pace = 0.05
    assert send(world, "warm", body={"stream": True}, stream=True).close() is None
    provider.wait_for(1)[0].wait_closed(5)
    wait_until(lambda: idle(world.gateway, 100), 10, "idleness")
    before = files(world.gateway)
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda number: abort(world, f"aborted {number}", goodbye), range(100)))
    for seen in provider.wait_for(101):
        assert seen.wait_closed(5) < 10
    provider.wait_idle()
    wait_until(lambda: files(world.gateway) <= before + 20, 10, lambda: f"{files(world.gateway)} files of {before}")
    ids = [f"abort-{world.number}-aborted-{number}" for number in range(100)]
    wait_until(lambda: world.entries(correlation_id__in=ids) == 100, 10, "an entry for each")
    assert world.entries(correlation_id__in=ids, outcome="client_closed") == 100


def idle(gateway: RunningGateway, most: int) -> bool:
    return files(gateway) < most


def abort(world: World, prompt: str, goodbye: str) -> None:
    """Ask for a stream, read its beginning, and leave."""
    body = {"model": world.model, "stream": True, "messages": [{"role": "user", "content": prompt}]}
    data = json.dumps(body).encode()
    lines = [
        "POST /work HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Authorization: Bearer {world.key}",
        f"X-Svc-Request-ID: abort-{world.number}-{prompt.replace(' ', '-')}",
        f"Content-Length: {len(data)}",
        "\r\n",
    ]
    with socket.create_connection(("127.0.0.1", world.gateway.port), timeout=patience(20)) as sock:
        sock.sendall("\r\n".join(lines).encode() + data)
        said = b""
        while b"data: " not in said:
            more = sock.recv(4096)
            assert more, said
            said += more
        assert said.startswith(b"HTTP/1.1 200"), said
        assert b"word" in said
        if goodbye == "rst":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: "
BLOCK = b"x" * MIB


def gigabyte_body(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"application/json\r\nContent-Length: 1073741824\r\n\r\n")
    for _ in range(1024):
        connection.sendall(BLOCK)


def gigabyte_in_chunks(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(1024):
        connection.sendall(b"100000\r\n" + BLOCK + b"\r\n")


def endless_line(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"text/event-stream\r\n\r\ndata: ")
    for _ in range(1024):
        connection.sendall(BLOCK)


def many_headers(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    for number in range(100_000):
        connection.sendall(b"X-%d: y\r\n" % number)


def one_long_header(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
    for _ in range(1024):
        connection.sendall(BLOCK)


def long_status_line(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 ")
    for _ in range(1024):
        connection.sendall(BLOCK)


def interim_answers(connection: socket.socket) -> None:
    for _ in range(1_000_000):
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")


def endless_trailers(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n")
    for number in range(10_000_000):
        connection.sendall(b"X-%d: y\r\n" % number)


def endless_comments(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"text/event-stream\r\n\r\n")
    comment = b": nothing\n\n" * 10_000
    for _ in range(10_000):
        connection.sendall(comment)


def many_small_chunks(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
    chunks = b"1\r\n \r\n" * 10_000
    for _ in range(10_000):
        connection.sendall(chunks)


@pytest.fixture(scope="module")
def bounded(store, tmp_path_factory) -> Iterator[RunningGateway]:
    """A gateway with a small bound for what providers may say."""
    environ = {
        "GATEWAY_MAX_RESPONSE_BYTES": str(RESPONSE_LIMIT),
        "GATEWAY_BREAKER_FAILURES": "100",
        **UNLIMITED,
    }
    with RunningGateway(store, tmp_path_factory.mktemp("bounded"), **environ) as running:
        yield running


@pytest.fixture
def world(bounded: RunningGateway, orm: None) -> Iterator[World]:
    with ExitStack() as resources:
        yield World(bounded, resources)


# One gateway serves all of these tests.
FLOODED = pytest.mark.grows("the allocator keeps what answers of the largest size have taken", mib=40)


@FLOODED
@promise("A provider that floods is cut off", target="≤ 64 MiB and 10 s, in each of 10 ways")
@pytest.mark.parametrize("stream", first_of(True, False), ids=["stream", "whole"])
@pytest.mark.parametrize(
    "say",
    quarter_of(
        gigabyte_body, gigabyte_in_chunks, endless_line, many_headers, one_long_header, long_status_line,
        interim_answers, endless_trailers, endless_comments, many_small_chunks,
    ),
)  # fmt: skip
def test_a_provider_that_says_too_much_is_cut(world, say, stream, figure):
    gone = threading.Event()

    def until_cut(connection: socket.socket) -> None:
        try:
            say(connection)
        except OSError:
            gone.set()

    with raw_provider(until_cut) as port:
        world.provider(url=f"http://127.0.0.1:{port}/v1")
        world.allow()
        held = reset_peak(world.gateway)
        begun = time.monotonic()
        response = send(world, "much", body={"stream": True} if stream else {})
        seconds = time.monotonic() - begun
        assert gone.wait(5), "the provider was not cut off"
        peak = peak_memory(world.gateway) - held
        assert peak < 64 * MIB
        assert seconds < bound(10)
        figure({"MiB": peak / MIB, "s": seconds})
        if response.status_code == 200:
            assert '"exception"' in response.text.strip().splitlines()[-1]
            assert world.entry(response).outcome in ("truncated", "failed")
        else:
            assert response.status_code in (502, 504), response.text[:300]
            assert world.entry(response).outcome == "failed"
    assert "Traceback" not in world.gateway.log()


@FLOODED
@pytest.mark.slow
@promise("Floods of a provider do not add up", target="growth ≤ 24 MiB after 10 more")
def test_what_floods_again_and_again_adds_nothing(world, figure):
    """A failed request held all that it had read until a garbage collection."""
    with raw_provider(lambda connection: suppressed(endless_comments, connection)) as port:
        world.provider(url=f"http://127.0.0.1:{port}/v1")
        world.allow()
        sizes = []
        for number in range(12):
            send(world, f"flood {number}", body={"stream": number % 2 == 1})
            sizes.append(world.gateway.holds().memory_mib)
    growth = sizes[-1] - min(sizes[:2])
    assert growth <= 24
    figure(f"{growth} MiB")


def suppressed(say, connection: socket.socket) -> None:
    with suppress(OSError):
        say(connection)
