"""The worker against clients that stall: they hold a thread for a bounded time, and nobody else for longer."""

import json
import math
import os
import resource
import selectors
import socket
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import pytest
import requests

from gateway_project.server.connections.addresses import AddressBook, Places
from gateway_project.server.connections.login_places import LoginPlaces
from gateway_project.server.connections.logins import TOO_MANY_LOGINS
from gateway_project.server.proxies import TrustedProxies
from gateway_project.server.worker import GatewayThreadWorker
from tests.support.load import send_many, wait_until
from tests.support.pace import patience
from tests.support.promises import promise
from tests.support.running import RunningGateway, Store, fresh_store
from tests.support.world import World, response_on

pytestmark = pytest.mark.embedded

THREADS = 8
LIMIT = 2  # seconds that a client may stall
# A stalled write may wait twice, and the lingering close of a client that does not close takes up to 2 s.
FREED_WITHIN = 2 * LIMIT + 2 + 2


@pytest.fixture(scope="module")
def small(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway with few threads and short time-outs."""
    environ = {
        "GATEWAY_THREADS": str(THREADS),
        "GATEWAY_CLIENT_TIMEOUT": str(LIMIT),
        "GATEWAY_TOTAL_TIMEOUT": "60",
    }
    with RunningGateway(store, tmp_path_factory.mktemp("worker"), **environ) as running:
        yield running


@pytest.fixture
def world(small: RunningGateway, orm: None) -> Iterator[World]:
    with ExitStack() as resources:
        yield World(small, resources)


def connect(gateway: RunningGateway, resources: ExitStack, receive_buffer: int = 0) -> socket.socket:
    sock = resources.enter_context(socket.socket())
    if receive_buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sock.settimeout(20)
    sock.connect(("127.0.0.1", gateway.port))
    return sock


def health_seconds(gateway: RunningGateway) -> float:
    """How long a healthy client waits for its answer."""
    begun = time.monotonic()
    assert requests.get(f"{gateway.url}/healthz", timeout=20).status_code == 200
    return time.monotonic() - begun


def is_healthy(gateway: RunningGateway) -> bool:
    """False also while the worker can open no file for the answer."""
    with suppress(requests.ConnectionError):
        return requests.get(f"{gateway.url}/healthz", timeout=20).status_code == 200
    return False


def answer(sock: socket.socket) -> bytes:
    """Everything that the server says until it closes."""
    text = b""
    while data := sock.recv(65536):
        text += data
    return text


def head(*lines: str) -> bytes:
    return "\r\n".join([*lines, "\r\n"]).encode()


def work_head(world: World, *lines: str) -> bytes:
    return head(
        "POST /work HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {world.key}",
        "Content-Type: application/json",
        *lines,
    )


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


@pytest.mark.parametrize(
    ("framing", "body", "kept"),
    [
        ("Content-Length: 100000", b"x" * 100_000, False),
        ("Transfer-Encoding: chunked", b"186a0\r\n" + b"x" * 100_000 + b"\r\n0\r\n\r\n", False),
        ("Content-Length: 100", b"x" * 100, True),
    ],
    ids=["long", "chunked", "short"],
)
def test_a_refusal_before_the_body_is_read_says_whether_the_connection_goes_on(small, framing, body, kept):
    ask = head("POST /work HTTP/1.1", "Host: localhost", "Authorization: Bearer nobody", framing) + body
    with ExitStack() as resources:
        sock = connect(small, resources)
        sock.sendall(ask)
        response = response_on(sock)
        assert (response.status, response.headers["Connection"]) == (401, "keep-alive" if kept else "close")
        response.read()
        if kept:
            sock.sendall(ask)
            assert response_on(sock).status == 401
        else:
            assert answer(sock) == b""


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


def test_one_free_place_releases_one_body_that_is_ready(monkeypatch):
    worker, handed = object.__new__(GatewayThreadWorker), []
    worker.cfg, worker.slow_bodies, worker.receiving = SimpleNamespace(threads=16), {1}, set()
    worker._submit = handed.append
    monkeypatch.setattr("gateway_project.server.worker.peek_bytes", lambda conn: b"x")
    monkeypatch.setattr("gateway_project.server.worker.is_ready", lambda request, conn: True)
    monkeypatch.setattr("gateway_project.server.worker.has_arrived", lambda body: False)
    monkeypatch.setattr("gateway_project.server.worker.parked_parser", lambda conn: conn.parser)
    waiting = [Parked() for _ in range(5)]
    worker.parked = dict.fromkeys(waiting, 0.0)
    worker._unpark = worker.parked.pop
    for conn in waiting:
        worker._check_arrival(conn)
    assert handed == waiting[:1]
    assert list(worker.parked) == waiting[1:]


class Parked:
    """A connection whose request waits for its body."""

    sock = None
    parser = SimpleNamespace(request=SimpleNamespace(body=None))


@pytest.mark.parametrize(("busy", "pool"), [(7, "threads"), (8, "reserve")])
def test_a_thread_is_free_before_the_pool_hears_that_it_is_done(busy, pool):
    worker, used = object.__new__(GatewayThreadWorker), []
    worker.cfg, worker.busy, worker.reading_heads = SimpleNamespace(threads=8), busy, {}
    worker.tpool = SimpleNamespace(has_room=False, submit=lambda task: used.append("threads"))
    worker.reserve = SimpleNamespace(submit=lambda task: used.append("reserve"))
    worker._submit(SimpleNamespace(bounded=True))
    assert used == [pool]


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


def test_a_head_that_came_with_the_request_before_waits_for_nothing():
    class Kept:
        def __init__(self, sock, ahead):
            self.sock, self.parser = sock, SimpleNamespace(unreader=SimpleNamespace(buf=BytesIO(ahead)))

    worker, handed = object.__new__(GatewayThreadWorker), []
    worker.poller, worker._submit = selectors.DefaultSelector(), handed.append
    ours, theirs = socket.socketpair()
    with ours, theirs, worker.poller:
        rest = Kept(ours, head("GET /healthz HTTP/1.1", "Host: localhost"))
        worker.parked, worker.receiving = {rest: 0.0}, set()
        worker._check_head(rest)
        assert (handed, worker.parked) == ([rest], {})


def test_connections_that_are_queued_at_the_end_are_accepted_beyond_the_limit():
    """Otherwise they would be asked for again and again, and nothing else would be done any more."""
    worker, accepted = object.__new__(GatewayThreadWorker), []
    worker.trusted_proxies, worker.addresses = TrustedProxies([]), AddressBook(10)
    worker.logins = LoginPlaces(Places(1, 1, TOO_MANY_LOGINS))
    worker.busy, worker.nr_conns, worker.worker_connections = 0, 5, 5
    worker.cfg = SimpleNamespace(backlog=10)
    worker.enqueue_req = accepted.append
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()):
        worker.sockets = [listener]
        worker._close_listeners()
    [connection] = accepted
    connection.sock.close()


def test_a_worker_that_can_open_no_file_lives_on(own_gateway):
    gateway = own_gateway(GATEWAY_THREADS=str(THREADS)).gateway
    [pid] = gateway.workers()
    most = len(os.listdir(f"/proc/{pid}/fd")) + 20
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, most))
    with ExitStack() as resources:
        socks = [connect(gateway, resources) for _ in range(60)]
        for sock in socks:
            sock.sendall(b"POST /wo")
        wait_until(lambda: "ulimit -n" in gateway.log())
    wait_until(lambda: is_healthy(gateway), patience(3))
    assert gateway.workers() == [pid]


def test_eight_clients_at_once_never_find_sixteen_threads_busy(own_gateway):
    """Each request has a connection of its own: many are accepted before the worker hears which threads are done.

    Twice as many threads: after its answer one has still to settle limits, while the client may send its next request.
    On a busy machine a few may find all of them settling. Before the pool was asked, 16 did on an idle one.
    """
    world = own_gateway(GATEWAY_THREADS="16", GATEWAY_KEY_REQUESTS_PER_MINUTE="0", GATEWAY_USER_CONCURRENT="0")
    world.allow()
    world.provider()
    statuses = Counter(response.status for response in send_many(world, 400, at_once=8))
    assert statuses[200] + statuses[503] == 400
    assert statuses[503] <= 6


@pytest.mark.long
def test_the_master_is_told_once_a_second_that_the_worker_lives():
    worker, signs = object.__new__(GatewayThreadWorker), []
    worker.tmp, worker.notified = SimpleNamespace(notify=lambda: signs.append(time.monotonic())), -math.inf
    begun = time.monotonic()
    while time.monotonic() < begun + 1.5:
        worker.notify()
    assert len(signs) == 2
    assert signs[0] - begun < 0.5
    assert signs[1] - signs[0] > 0.99  # it looks at the clock a moment before it tells


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


@promise("V-T2: a header with underscores stands for no other", target="refused or ignored", suite="attack")
def test_headers_with_underscores_cannot_stand_in_for_ours(world, small):
    world.allow()
    provider = world.provider()
    body = json.dumps({"model": world.model, "messages": []}).encode()
    with ExitStack() as resources:
        sock = connect(small, resources)
        lines = ("Connection: close", f"Content-Length: {len(body)}", "X_Svc_Request_ID: forged", "X_Svc_Tags: a=b")
        sock.sendall(work_head(world, *lines) + body)
        text = answer(sock)
    assert b"forged" not in text
    # Refused, or served as if the header had not been there; never taken for the real one.
    assert text.startswith((b"HTTP/1.1 400", b"HTTP/1.1 200"))
    assert all("forged" not in str(observations.raw_headers) for observations in provider.seen)


@promise("V-T2: a header with underscores stands for no other", target="refused or ignored", suite="attack")
def test_a_credential_in_an_underscore_header_is_none(world, small):
    world.allow()
    with ExitStack() as resources:
        sock = connect(small, resources)
        sock.sendall(head("POST /work HTTP/1.1", "Host: x", "HTTP_AUTHORIZATION: Bearer y", "Connection: close"))
        assert answer(sock)[9:12] in (b"400", b"401")


@pytest.mark.parametrize(
    "framing",
    [
        ("Content-Length: 4", "Transfer-Encoding: chunked"),
        ("Content-Length: 4", "Content-Length: 5"),
        ("Transfer-Encoding: chunked, identity",),
        ("Transfer-Encoding: identity, chunked",),
        ("Transfer-Encoding: gzip, chunked",),
        ("Transfer-Encoding: gzip", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: , chunked",),
        ("Content-Length: +4",),
    ],
)
def test_a_body_of_two_framings_or_in_a_coding_is_refused(world, small, framing):
    with ExitStack() as resources:
        sock = connect(small, resources)
        sock.sendall(work_head(world, *framing) + b"0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        text = answer(sock)
    assert text.startswith(b"HTTP/1.1 400")
    assert b"malformed" in text  # and not read, and then found to be no JSON
    assert text.count(b"HTTP/1.1") == 1


@pytest.mark.long
def test_gunicorn_leaves_no_control_socket_and_says_nothing(tmp_path: Path):
    home = tmp_path / "home"
    home.mkdir()
    directory = tmp_path / "var"
    directory.mkdir()
    environ = {"HOME": str(home), "XDG_RUNTIME_DIR": str(home), "TMPDIR": str(home)}
    with fresh_store(directory) as store, RunningGateway(store, directory, **environ) as running:
        requests.get(f"{running.url}/healthz", timeout=5)
        sockets = [path for root in (home, directory, Path.cwd()) for path in root.rglob("*.sock")]
        names = listening_unix_sockets(running)
        assert running.stop() == 0
    assert sockets == []
    assert names == []
    lines = [line for line in running.log().splitlines() if line]
    assert lines == [f"The gateway serves {running.url} (Ctrl-C stops it)."]


def test_nonsense_is_a_400_and_at_most_one_line(small):
    before = len(small.log().splitlines())
    with socket.create_connection(("127.0.0.1", small.port), timeout=5) as sock:
        sock.sendall(b"nonsense\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 400")
    assert len(small.log().splitlines()) <= before + 1


def listening_unix_sockets(gateway: RunningGateway) -> list[str]:
    """The file names of the UNIX sockets that the gateway's processes listen on."""
    inodes = set()
    for pid in [gateway.process.pid, *gateway.workers()]:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            target = os.readlink(entry)
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    lines = Path("/proc/net/unix").read_text().splitlines()[1:]
    return [line.split()[7] for line in lines if line.split()[6] in inodes and len(line.split()) > 7]


def test_a_full_gateway_says_so_and_still_tells_that_it_lives(world):
    provider = world.provider(first_byte_timeout_seconds=30)
    provider.default.delay = 6
    world.allow()
    world.key  # noqa: B018  before the threads are taken
    with ThreadPoolExecutor(THREADS) as pool:
        slow = [pool.submit(requests.post, f"{world.gateway.url}/work", **request(world, n)) for n in range(THREADS)]
        provider.wait_for(THREADS)
        assert requests.get(f"{world.gateway.url}/healthz", timeout=5).status_code == 200
        refused = requests.post(f"{world.gateway.url}/work", **request(world, 99))
        assert (refused.status_code, refused.json()["exception"]) == (503, "ServiceUnavailable")
        assert refused.headers["Retry-After"]
        assert {future.result().status_code for future in slow} == {200}
    assert world.entry(refused).outcome == "failed"
    assert len(provider.seen) == THREADS


def request(world, number):
    body = {"model": world.model, "messages": [{"role": "user", "content": f"question {number}"}]}
    return {"json": body, "headers": {"Authorization": f"Bearer {world.key}"}, "timeout": 30}


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
