"""The worker: its threads, its limits and its end."""

import math
import os
import resource
import selectors
import socket
import time
from collections import Counter
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
from tests.support.running import RunningGateway, fresh_store
from tests.support.stalling_clients import THREADS, connect, head, request

pytestmark = pytest.mark.embedded


def is_healthy(gateway: RunningGateway) -> bool:
    """False also while the worker can open no file for the answer."""
    with suppress(requests.ConnectionError):
        return requests.get(f"{gateway.url}/healthz", timeout=20).status_code == 200
    return False


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
