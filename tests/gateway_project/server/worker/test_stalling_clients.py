"""Clients that stall hold a thread for a bounded time, and delay nobody else for longer."""

import json
import time
from contextlib import ExitStack, suppress

import pytest
import requests

from tests.support.pace import patience
from tests.support.running import RunningGateway
from tests.support.stalling_clients import LIMIT, THREADS, answer, connect, head, work_head
from tests.support.world import response_on

pytestmark = pytest.mark.embedded

# A stalled write may wait twice, and the lingering close of a client that does not close takes up to 2 s.
FREED_WITHIN = 2 * LIMIT + 2 + 2


def health_seconds(gateway: RunningGateway) -> float:
    """How long a healthy client waits for its answer."""
    begun = time.monotonic()
    assert requests.get(f"{gateway.url}/healthz", timeout=20).status_code == 200
    return time.monotonic() - begun


def test_clients_that_never_close_do_not_delay_the_next_request(small):
    with ExitStack() as resources:
        socks = [connect(small, resources) for _ in range(10 * THREADS)]
        for sock in socks:
            sock.sendall(head("GET /healthz HTTP/1.1", "Host: localhost", "Connection: close"))
        assert health_seconds(small) < patience(1)
        for sock in socks:
            assert answer(sock).startswith(b"HTTP/1.1 200")
        assert health_seconds(small) < patience(1)


def test_half_sent_headers_on_every_thread_are_cut_in_time(small):
    with ExitStack() as resources:
        socks = [connect(small, resources) for _ in range(THREADS)]
        for sock in socks:
            sock.sendall(b"POST /work HTTP/1.1\r\nHost: local")
        time.sleep(0.3)
        assert health_seconds(small) < patience(FREED_WITHIN)
        for sock in socks:
            answer(sock)  # the server ends the connection, with or without a word
    assert "Traceback" not in small.log()


@pytest.mark.parametrize(
    "half", [b"POST /work HTTP/1.1\r\nHost: local", b"POST /work HTTP/1.1\r\nX-Long: " + b"x" * 20_000]
)
def test_however_many_heads_are_half_sent_work_is_served(world, small, half):
    world.allow()
    world.provider()
    with ExitStack() as resources:
        socks = [connect(small, resources) for _ in range(4 * THREADS)]
        for sock in socks:
            sock.sendall(half)
        time.sleep(0.3)
        assert [world.ask(str(number)).status_code for number in range(3)] == [200] * 3
        long = {f"X-Long-{number}": "x" * 6000 for number in range(5)}
        assert world.ask("with a long head", headers=long).status_code == 200
    assert "Traceback" not in small.log()


def test_half_sent_bodies_on_every_thread_are_a_400(world, small):
    world.allow()
    world.provider()
    world.entry(world.ask())  # its thread is free again
    with ExitStack() as resources:
        socks = [connect(small, resources) for _ in range(THREADS)]
        for sock in socks:
            sock.sendall(work_head(world, "Content-Length: 1000") + b'{"model": "half')
        time.sleep(0.3)
        assert health_seconds(small) < patience(FREED_WITHIN)
        for sock in socks:
            text = answer(sock)
            assert text.startswith(b"HTTP/1.1 400"), text
            assert json.loads(text.partition(b"\r\n\r\n")[2])["exception"] == "ValidationError"
    assert "Traceback" not in small.log()


def test_a_body_that_is_whole_needs_none_of_the_places_for_slow_ones(world, small):
    world.allow()
    world.provider()
    body = json.dumps({"model": world.model, "messages": [{"role": "user", "content": "late"}]}).encode()
    with ExitStack() as resources:
        slow = [connect(small, resources) for _ in range(2)]
        for sock in slow:
            sock.sendall(work_head(world, "Content-Length: 200000") + b"x" * 20_000)
        time.sleep(0.3)
        sock = connect(small, resources)
        sock.sendall(work_head(world, f"Content-Length: {len(body)}"))
        time.sleep(0.2)
        sock.sendall(body)
        assert response_on(sock).status == 200
        for sock in slow:
            sock.setblocking(False)
            with pytest.raises(BlockingIOError):  # they still have their places
                sock.recv(1)


def half_a_login() -> bytes:
    lines = ("POST /auth/login HTTP/1.1", "Host: localhost", "Content-Type: application/json", "Content-Length: 100")
    return head(*lines) + b"{"


@pytest.mark.parametrize("payload", [b"", b"POST /wo", b"\r\n\r\nPOST /wo", half_a_login()])
def test_however_many_clients_send_half_a_request_health_is_answered_at_once(small, payload):
    with ExitStack() as resources:
        for _ in range(THREADS):
            connect(small, resources).sendall(b"POST /wo")
        time.sleep(0.3)
        socks = [connect(small, resources) for _ in range(8 * THREADS)]
        for sock in socks:
            sock.sendall(payload)
        time.sleep(0.1)
        assert [health_seconds(small) < patience(0.3) for _ in range(3)] == [True] * 3
        for sock in socks:
            assert closed(sock)
        assert health_seconds(small) < patience(0.3)
    assert "Traceback" not in small.log()


def test_a_connection_that_was_kept_is_answered_while_all_threads_are_busy(small):
    with ExitStack() as resources:
        rest = resources.enter_context(requests.Session())
        rest.get(f"{small.url}/healthz", timeout=5)
        for _ in range(THREADS):
            connect(small, resources).sendall(b"POST /wo")
        time.sleep(0.3)
        assert rest.get(f"{small.url}/healthz", timeout=5).status_code == 200


def test_a_head_that_comes_in_pieces_while_all_threads_are_busy_is_answered(world, small):
    world.allow()
    provider = world.provider()
    provider.default.delay = 30  # longer than a half-sent head, which frees its thread, would keep it
    with ExitStack() as resources:
        for number in range(THREADS):
            body = json.dumps({"model": world.model, "prompt": str(number)}).encode()
            connect(small, resources).sendall(work_head(world, f"Content-Length: {len(body)}") + body)
        provider.wait_for(THREADS)
        sock = connect(small, resources)
        for piece in (b"GET /healthz HTT", b"P/1.1\r\nHost: x\r\n\r", b"\n"):
            sock.sendall(piece)
            time.sleep(0.1)
        response = response_on(sock)
        assert (response.status, response.headers["Connection"]) == (200, "close")


def test_a_chunked_body_that_stops_is_a_400(world, small):
    world.allow()
    with ExitStack() as resources:
        sock = connect(small, resources)
        sock.sendall(work_head(world, "Transfer-Encoding: chunked") + b"20\r\n{")
        assert answer(sock).startswith(b"HTTP/1.1 400")
    assert "Traceback" not in small.log()


def test_clients_that_never_read_free_their_threads(world, small):
    world.allow()
    provider = world.provider()
    provider.default.text = "x" * (24 * 1024 * 1024)
    body = json.dumps({"model": world.model, "messages": [{"role": "user", "content": "much"}]}).encode()
    request = work_head(world, f"Content-Length: {len(body)}") + body
    with ExitStack() as resources:
        for _ in range(THREADS):
            connect(small, resources, receive_buffer=4096).sendall(request)
        provider.wait_for(1)
        time.sleep(1.5)
        assert health_seconds(small) < patience(FREED_WITHIN)
        assert health_seconds(small) < patience(1)
    assert "Traceback" not in small.log()


def test_a_stream_that_nobody_reads_frees_its_thread_and_its_provider(world, small):
    world.allow()
    provider = world.provider()
    event = {"choices": [{"index": 0, "delta": {"content": "y" * 65536}, "finish_reason": None}]}
    provider.default.stream = [event] * 400
    body = {"model": world.model, "stream": True, "messages": [{"role": "user", "content": "much"}]}
    data = json.dumps(body).encode()
    with ExitStack() as resources:
        connect(small, resources, receive_buffer=4096).sendall(
            work_head(world, f"Content-Length: {len(data)}", "X-Svc-Request-ID: unread-stream") + data
        )
        provider.wait_for(1)[0].wait_closed(patience(FREED_WITHIN + 2))
    assert world.entry("unread-stream").outcome == "client_closed"
    assert "Traceback" not in small.log()


def test_heads_that_drip_byte_by_byte_end_with_their_time(small):
    with ExitStack() as resources:
        dripping = [connect(small, resources) for _ in range(THREADS)]
        begun = time.monotonic()
        while time.monotonic() - begun < LIMIT + 1.5:
            for sock in dripping:
                with suppress(OSError):
                    sock.sendall(b"G" if time.monotonic() - begun < 0.1 else b"E")
            time.sleep(0.2)
        assert requests.get(f"{small.url}/healthz", timeout=10).status_code == 200
        assert all(closed(sock) for sock in dripping)


def closed(sock):
    """Whether the server ends the connection in time, after a whole answer or none."""
    sock.settimeout(5)
    try:
        answer(sock)
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True
