"""gunicorn's thread worker, hardened against slow clients.

It overrides gunicorn's internals, so gunicorn's version is pinned and each override has a test. gunicorn's master
imports this module too: nothing here imports Django before a worker has started.
"""

import contextlib
import errno
import logging
import math
import selectors
import socket
import threading
import time
from functools import partial
from types import FrameType

from gunicorn.http.errors import InvalidResponseHeader, InvalidResponseHeaderName, ParseException
from gunicorn.workers.gthread import TConn

from gateway_project.errors import GatewayError, InternalError, ServiceUnavailable, ValidationError
from gateway_project.server import drain, overload
from gateway_project.server.bodies import SLOW_SHARE
from gateway_project.server.connections import logins
from gateway_project.server.connections.addresses import AddressBook, Places, host_of
from gateway_project.server.connections.closing import LingeringCloser
from gateway_project.server.connections.descriptors import OUT_OF_ROOM, most_connections, raise_limit
from gateway_project.server.connections.login_places import LoginPlaces
from gateway_project.server.connections.parking import (
    PEEKED_BYTES,
    BodyPending,
    NonBlockingReader,
    ParkedParser,
    SlowBody,
    buffered_bytes,
    forbid_waiting,
    is_ready,
    is_worth_a_thread,
    late_reader,
    may_be_parked,
    parked_parser,
    peek_bytes,
)
from gateway_project.server.connections.refusals import refuse_login, send_error
from gateway_project.server.connections.stopping import StoppingWorker
from gateway_project.server.http1.heads import settle_config
from gateway_project.server.http1.messages import GatewayRequest, has_arrived, install_messages
from gateway_project.server.logs import is_not_client_timeout
from gateway_project.server.proxies import TrustedProxies
from gateway_project.server.sockets import SlowReaders, bound_waits
from gateway_project.server.threads import CompletedRequest, LifoThreadPool, note_wait

log = logging.getLogger("gateway.connections")
malformed_log = logging.getLogger("gateway.malformed")

RESPONSE_ERRORS = (InvalidResponseHeader, InvalidResponseHeaderName)  # gunicorn derives them from ParseException

HEAD_CHECK_SECONDS = 0.25
NOTIFY_SECONDS = 1.0
RESERVE_THREADS = 8
# While so many threads are busy, heads are checked before they get a thread: those of new connections, and those of
# kept ones. The first number is low, because floods come with new connections.
CROWD_FOR_NEW, CROWD = 4, 32
MAX_LOGINS, MAX_LOGINS_OF_ADDRESS = 8, 3  # while many threads are busy: more would wait for a hash for over a second
ACCEPTED_AT_ONCE = 64
NO_ROOM_SECONDS = 0.01  # between tries to accept a connection for which no file can be opened
PARKED = object()  # the outcome of a request whose body has not arrived


class GatewayThreadWorker(StoppingWorker):
    """gthread in which slow senders, slow readers and slow closers block a thread for a bounded time only."""

    worker_connections: int

    def init_process(self) -> None:
        from django.conf import settings

        self.worker_connections = min(self.worker_connections, most_connections(raise_limit()))
        self.max_keepalived = max(self.worker_connections - self.cfg.threads, self.worker_connections // 2)
        self.client_timeout = settings.GATEWAY_CLIENT_TIMEOUT
        self.readers = SlowReaders(self._slow_places, self.client_timeout, settings.GATEWAY_MIN_BODY_RATE)
        install_messages(self.readers)
        settle_config(self.cfg)
        self.closer = LingeringCloser()
        self.closer.start()
        # By id(): the connections whose heads threads are reading, and since when.
        self.reading_heads: dict[int, tuple[TConn, float]] = {}
        # Connections that wait for the rest of a head, and since when, oldest first; only the accepting thread uses it.
        self.parked: dict[TConn, float] = {}
        self.receiving: set[TConn] = set()  # those with unread data
        self.is_check_due = False  # whether the timer has asked to look for the rest
        self.logins = LoginPlaces(Places(MAX_LOGINS, MAX_LOGINS_OF_ADDRESS, logins.TOO_MANY_LOGINS))  # in a crowd
        self.slow_bodies: set[int] = set()  # by id(): connections in threads whose body had not come with the head
        self.trusted_proxies = TrustedProxies(settings.GATEWAY_TRUSTED_PROXIES)
        self.addresses = AddressBook(settings.GATEWAY_CONNECTIONS_PER_ADDRESS or self.worker_connections // 2)
        threading.Thread(target=self._enforce_head_timeout, name="heads", daemon=True).start()
        # Used when all threads are busy: health is still answered, and work is refused with 503.
        self.reserve = LifoThreadPool(RESERVE_THREADS, "reserve", overload.mark_thread)
        self.reserve.start()
        self.busy = 0
        self.notified = -math.inf
        self.log.error_log.addFilter(is_not_client_timeout)
        super().init_process()

    def notify(self) -> None:
        """Tell the master that this worker lives, once a second; gunicorn would after every event."""
        if (now := time.monotonic()) - self.notified >= NOTIFY_SECONDS:
            self.notified = now
            super().notify()

    def accept(self, listener: socket.socket) -> None:
        """Accept a connection; several while many threads are busy, because each may run before the next event."""
        for _ in range(ACCEPTED_AT_ONCE if self.busy >= CROWD_FOR_NEW else 1):
            if self.nr_conns >= self.worker_connections or not self._accept_one(listener):
                return

    def _accept_one(self, listener: socket.socket) -> bool:
        """Accept a connection, unless its address has too many; trusted proxies may have any number.

        False if none waits.
        """
        try:
            client, address = listener.accept()
        except OSError as error:
            if error.errno in OUT_OF_ROOM:
                self._make_room()
            elif error.errno not in (errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED):
                raise
            return False
        host = host_of(address)
        if not (is_proxy := self._is_proxy(host)) and not self.addresses.add(host, client):
            log.warning("%s has too many connections (GATEWAY_CONNECTIONS_PER_ADDRESS): a new one was closed.", host)
            client.close()
        elif is_proxy or self.busy < CROWD_FOR_NEW or self.logins.has_room(host) or not refuse_login(client):
            self.nr_conns += 1
            client.setblocking(True)
            self.enqueue_req(TConn(self.cfg, client, address, listener.getsockname()))
        return True

    def _make_room(self) -> None:
        """Close the connection that has waited longest for its head or body, or else all idle ones."""
        log.warning("No file can be opened, so idle connections close. Raise the limit of open files (ulimit -n).")
        if self.parked:
            self._unpark(oldest := next(iter(self.parked)))
            self.nr_conns -= 1
            oldest.sock.close()  # lingering would keep its file
        else:
            for conn in self.keepalived_conns:
                conn.timeout = -math.inf  # gunicorn closes them after the events that it has
        time.sleep(NO_ROOM_SECONDS)  # until then the event would come again at once

    def enqueue_req(self, conn: TConn) -> None:
        """While enough threads read heads, or many are busy, park connections until their whole head has arrived.

        Otherwise clients that each send half a head would occupy all threads, and a flood of logins could only be
        refused by threads, between which health checks and work would have to wait.
        """
        # A head under TLS can only be read by a thread.
        if self.cfg.is_ssl or (self._has_room_for_partial_head() and not self._is_crowded(conn)):
            self._submit(conn)
        else:
            self._park(conn)

    def _park(self, conn: TConn) -> None:
        """Let a connection wait for its head or body without a thread."""
        parser = parked_parser(conn)
        self.parked[conn] = time.monotonic() if parser is None else parser.since
        self._check_arrival(conn)
        if conn in self.parked:
            conn.sock.setblocking(False)
            self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._on_readable, conn))
        if len(self.parked) > self.worker_connections // 2:  # otherwise no new connection would be accepted
            self._end_wait(next(iter(self.parked)))

    def _has_room_for_partial_head(self) -> bool:
        return self._has_free_thread() and len(self.reading_heads) < max(1, self.cfg.threads // SLOW_SHARE)

    def _has_free_thread(self) -> bool:
        """Whether a thread is free, or will be in a moment: of one that is done, the pool hears first or we do."""
        return self.tpool.has_room or self.busy < self.cfg.threads

    def _is_crowded(self, conn: TConn) -> bool:
        """Whether so many threads are busy that logins are looked at first; new connections may bring a flood."""
        return self.busy >= (CROWD_FOR_NEW if conn.parser is None else CROWD)

    def _submit(self, conn: TConn) -> None:
        """Give the connection to a thread, with time-outs on its reads and writes."""
        if not hasattr(conn, "bounded"):
            bound_waits(conn.sock, receive=self.client_timeout, send=self.client_timeout)
            conn.bounded = True
        self.reading_heads[id(conn)] = (conn, math.inf)
        conn.submitted = time.perf_counter()
        pool = self.tpool if self._has_free_thread() else self.reserve
        self.busy += 1  # here and in finish_request: both run in the thread that accepts
        pool.submit(partial(self._serve, conn))

    def _on_readable(self, conn: TConn, client: socket.socket) -> None:
        """Check the first bytes; from here on the timer checks, since peeked bytes keep the socket readable."""
        if conn in self.parked:
            self.poller.unregister(client)
            self.receiving.add(conn)
            self._check_arrival(conn)

    def _check_arrival(self, conn: TConn) -> None:
        """Go on with a parked connection if what it waits for is here."""
        parser = parked_parser(conn)
        if parser is None:
            self._check_head(conn)
        elif peek_bytes(conn) is None:
            self._drop(conn)
        elif has_arrived(parser.request.body):
            self._unpark(conn)
            self._submit(conn)
        elif is_ready(parser.request, conn) and self._has_room_for_body(is_ready=True):
            self.slow_bodies.add(id(conn))  # now, so that connections that are checked next find its place taken
            self._unpark(conn)
            self._submit(conn)

    def _check_head(self, conn: TConn) -> None:
        buffered = buffered_bytes(conn)
        data = buffered if logins.is_judgeable(buffered) else peek_bytes(conn)
        if data is None:
            self._drop(conn)
        elif logins.is_login(data) and (host := self._client_of(conn, data)):
            self._admit_login(conn, host, is_here=logins.is_whole(data) or len(data) >= PEEKED_BYTES)
        elif logins.HEAD_END in data or (self._has_room_for_partial_head() and is_worth_a_thread(data)):
            self._unpark(conn)
            self._submit(conn)

    def _is_proxy(self, host: str) -> bool:
        """Whether this is a trusted proxy, or a peer on the Unix socket: many clients come from there."""
        return not host or self.trusted_proxies.is_trusted(host)

    def _client_of(self, conn: TConn, data: bytes) -> str:
        """The address that a login counts for: of a trusted proxy the one that it reports; "" of a Unix socket."""
        host = host_of(conn.client)
        is_forwarded = self.trusted_proxies.is_trusted(host)
        return self.trusted_proxies.client(host, logins.forwarded_for(data)) if is_forwarded else host

    def _admit_login(self, conn: TConn, host: str, *, is_here: bool) -> None:
        """Give a login to a thread, or refuse it if enough are in threads; without its body it waits where it is."""
        if not self.logins.has_room(host):
            send_error(conn.sock, ServiceUnavailable(logins.TOO_MANY_LOGINS, retry_after=1))
            self._drop(conn)
        elif is_here:
            self.logins.take(conn, host)
            self._unpark(conn)
            self._submit(conn)

    def _check_parked(self) -> None:
        """End what is late, bodies a few at a time: each takes a thread, and all at once would take every thread."""
        self.is_check_due, limit = False, time.monotonic() - self.client_timeout
        late = [conn for conn, since in self.parked.items() if since < limit]
        later = [conn for conn in late if parked_parser(conn) is not None][self._slow_places :]
        for conn in set(late).difference(later):
            self._end_wait(conn)
        for conn in list(self.receiving):
            self._check_arrival(conn)

    def _end_wait(self, conn: TConn) -> None:
        """Close a connection whose head is late; a request whose body is late is answered without it."""
        if (parser := parked_parser(conn)) is None:
            self._drop(conn)
        else:
            self._unpark(conn)
            parser.unreader.sock = late_reader(parser.request, conn)
            self._submit(conn)

    def _drop(self, conn: TConn) -> None:
        self._unpark(conn)
        self.nr_conns -= 1
        self.closer.close(conn.sock)  # reads what is unread: closing at once would reset the connection

    def _unpark(self, conn: TConn) -> None:
        del self.parked[conn]
        self.receiving.discard(conn)
        with contextlib.suppress(KeyError):  # unregistered when its first bytes came
            self.poller.unregister(conn.sock)

    def get_thread_pool(self) -> LifoThreadPool:
        return LifoThreadPool(self.cfg.threads, "request")

    def _serve(self, conn: TConn) -> None:
        note_wait(conn.submitted, time.perf_counter())
        try:
            outcome = CompletedRequest(self.handle(conn))
        except BaseException as error:
            outcome = CompletedRequest(False, error)
        self.method_queue.defer(self.finish_request, conn, outcome)

    def finish_request(self, conn: TConn, fs: CompletedRequest) -> None:
        self.busy -= 1
        self.slow_bodies.discard(id(conn))
        self.logins.release(conn)
        if fs.keep is PARKED:
            self._park(conn)
        else:
            super().finish_request(conn, fs)

    def handle_request(self, req: GatewayRequest, conn: TConn) -> bool:
        self.reading_heads.pop(id(conn), None)  # the head is complete
        since = time.monotonic()
        if (parser := parked_parser(conn)) is not None:
            conn.parser, since = parser.parser, parser.since
            if isinstance(parser.unreader.sock, NonBlockingReader):
                req.force_close()  # the next request would be read without waiting, too
        if self.logins.has_place(conn):  # a client that reads its answer slowly does not keep the place
            req.on_answer = partial(self.logins.release, conn)
        if may_be_parked(req, conn) and not overload.is_overloaded():
            self._take_place_for_body(req, conn, since)
        try:
            return super().handle_request(req, conn)
        finally:
            self.readers.release(req)
            self.slow_bodies.discard(id(conn))

    def _take_place_for_body(self, req: GatewayRequest, conn: TConn, since: float) -> None:
        """Let this thread wait for the body until it is read; raises BodyPending if enough threads do so already."""
        may_wait = id(conn) in self.slow_bodies or self._has_room_for_body(is_ready=False)
        if not may_wait and not (is_ready(req, conn) and self._has_room_for_body(is_ready=True)):
            conn.parser = ParkedParser(conn, req, since)
            raise BodyPending
        self.slow_bodies.add(id(conn))
        req.body = SlowBody(req.body, partial(self.slow_bodies.discard, id(conn)))

    def _has_room_for_body(self, *, is_ready: bool) -> bool:
        """Whether one more thread may wait for a body; half of the places are for bodies that are arriving."""
        return len(self.slow_bodies) < (self._slow_places if is_ready else self._slow_places // 2)

    @property
    def _slow_places(self) -> int:
        """How many threads may be busy with slow requests."""
        return max(2, self.cfg.threads // SLOW_SHARE)

    def _enforce_head_timeout(self) -> None:
        """Shut down connections whose head is late: the time-out is for the whole head, not for each read."""
        while True:
            time.sleep(HEAD_CHECK_SECONDS)
            limit = time.monotonic() - self.client_timeout
            for conn, since in list(self.reading_heads.values()):
                if since < limit:
                    with contextlib.suppress(OSError):
                        conn.sock.shutdown(socket.SHUT_RDWR)
            if self.parked and not self.is_check_due:
                self.is_check_due = True
                self.method_queue.defer(self._check_parked)

    def handle(self, conn: TConn) -> object:
        """Leave closing to the LingeringCloser: gunicorn would do it in the thread that accepts."""
        self.reading_heads[id(conn)] = (conn, time.monotonic())  # the time-out begins when a thread reads
        try:
            if overload.is_overloaded():
                forbid_waiting(conn)
            keep = super().handle(conn)
        except BodyPending:
            return PARKED
        finally:
            self.reading_heads.pop(id(conn), None)
        if keep is False:
            self.closer.take_over(conn)
        return keep

    def handle_error(
        self, req: GatewayRequest | None, client: socket.socket, addr: tuple[object, ...] | str, exc: Exception
    ) -> None:
        """Answer a request that gunicorn itself refuses with the gateway's error document, not with gunicorn's page."""
        if isinstance(exc, ParseException) and not isinstance(exc, RESPONSE_ERRORS):
            malformed_log.warning("Refused a malformed request of %s: %s", addr and addr[0], exc)
            error: GatewayError = ValidationError("The request's first line or its headers are malformed or too long.")
        else:
            self.log.error("A request failed outside its view.", exc_info=exc)
            error = InternalError()
        send_error(client, error)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """At SIGTERM, begin the graceful shutdown."""
        drain.begin(self.count_requests)
        super().handle_exit(sig, frame)

    def count_requests(self) -> int:
        """How many requests threads are serving."""
        return self.busy

    def is_parent_alive(self) -> bool:
        """Whether the master lives; if not, the worker stops as it does at SIGTERM."""
        alive = super().is_parent_alive()
        if not alive:
            drain.begin(self.count_requests)
            self.alive = False
        return alive

    def silent_connections(self) -> list[TConn]:
        """Those that wait for a head of which nothing is here."""
        return [conn for conn in self.parked if parked_parser(conn) is None and conn not in self.receiving]

    def _cap_keepalive(self, deadline: float) -> None:
        super()._cap_keepalive(deadline)
        for conn in self.silent_connections():
            self.parked[conn] = deadline - self.client_timeout
