"""Clients that read their streams slowly: no provider is blamed, and they are waited for so long and no longer."""

import time

import pytest

from tests.support.pace import patience
from tests.support.raw_provider import raw_provider
from tests.support.stepped_streams import HEAD, Client
from tests.support.streaming import DONE, event, part

pytestmark = pytest.mark.either_store

RATE = str(100 * 1024 * 1024)  # so that an answer's size adds nothing to the time that its client has


def framed(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


def say_much(connection):
    """A stream of 8 MB, more than the buffers of both sockets hold, as fast as it is read."""
    connection.sendall(HEAD + framed(event(part("go"))))
    for _ in range(400):
        connection.sendall(framed(event(part("x" * 20_000))))
    connection.sendall(framed(event(part("", "stop"))) + framed(DONE.encode()) + b"0\r\n\r\n")


@pytest.fixture
def slow(own_gateway):
    """Starts a gateway whose first provider says much, and whose second one answers as well."""
    with raw_provider(say_much) as port:

        def start(idle_seconds=60, **environ):
            world = own_gateway(GATEWAY_MIN_BODY_RATE=RATE, GATEWAY_BREAKER_FAILURES="1", **environ)
            world.allow()
            url = f"http://127.0.0.1:{port}/v1"
            world.first = world.provider(priority=1, url=url, idle_timeout_seconds=idle_seconds)
            world.provider(priority=2)
            assert world.key
            world.settle()
            return world

        yield start


def serves_next(world):
    """The name of the provider that the next request goes to."""
    response = world.stream("another", headers={"X-Svc-Cache": "bypass"})
    response.close()
    return response.headers["X-Svc-Provider"]


def read_rest(sock):
    """What the client still gets, and whether the connection has been closed."""
    sock.settimeout(patience(1))
    rest = b""
    try:
        while data := sock.recv(1_000_000):
            rest += data
    except TimeoutError:
        return rest, False
    except ConnectionError:
        pass
    return rest, True


@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_the_time_that_a_client_is_waited_for_is_not_the_providers(slow, version):
    world = slow(idle_seconds=1, GATEWAY_CLIENT_TIMEOUT="20")
    client = Client(world, version=version)
    client.read_until(b"go")
    time.sleep(2)
    assert b"[DONE]" in client.read()[-100:]
    assert world.entry(client.id).outcome == "completed"
    assert serves_next(world) == world.row(world.first).name


def test_nothing_follows_a_chunk_that_was_cut_off(slow):
    world = slow(GATEWAY_CLIENT_TIMEOUT="1")
    client = Client(world)
    client.read_until(b"go")
    entry = world.entry(client.id, seconds=patience(5))
    rest, is_closed = read_rest(client.sock)
    assert is_closed
    assert not rest.endswith(b"\r\n0\r\n\r\n")
    assert entry.outcome == "client_closed"
    assert serves_next(world) == world.row(world.first).name


def test_the_deadline_of_a_request_ends_the_wait_for_its_client(slow):
    world = slow(GATEWAY_CLIENT_TIMEOUT="20", GATEWAY_TOTAL_TIMEOUT="2")
    client = Client(world)
    client.read_until(b"go")
    entry = world.entry(client.id, seconds=patience(5))
    assert (entry.outcome, entry.exception) == ("truncated", "ProviderTimeout")
    assert read_rest(client.sock)[1]
    assert serves_next(world) == world.row(world.first).name


def test_streams_take_the_places_of_slow_readers(slow):
    world = slow(GATEWAY_CLIENT_TIMEOUT="3", GATEWAY_THREADS="16")  # two places
    prompts = [[{"role": "user", "content": str(number)}] for number in range(4)]
    clients = [Client(world, {"messages": prompt}, head=["Connection: close"]) for prompt in prompts]
    for client in clients:
        client.read_until(b"go")
    time.sleep(2)
    ends = [b"[DONE]" in read_rest(client.sock)[0][-100:] for client in clients]
    assert ends.count(True) <= 2
