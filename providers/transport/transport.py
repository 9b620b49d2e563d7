"""HTTP to providers, the only importer of requests: checked addresses, pooled connections, headers of our own alone.

requests provides the trust store and the pools' keys. Requests are sent over the
connection's own socket: `Session.send` spends four fifths of a call's CPU on what a gateway must not do
anyway (cookies, redirects, proxies and netrc of the environment, transparent decompression).
"""

import socket
import ssl
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.utils import DEFAULT_CA_BUNDLE_PATH
from urllib3.connection import HTTPConnection, HTTPSConnection

from gateway_project.errors import ProviderError, ProviderTimeout, UpstreamError
from gateway_project.server.sockets import bound_waits
from providers.transport import addresses
from providers.transport.calls import AttemptTimes, Call, End
from providers.transport.http_response import HTTPResponse, InvalidResponse, NoResponse
from providers.transport.provider_response import (
    IDLE_CONNECTION_SECONDS,
    Connection,
    NotReceived,
    ProviderResponse,
    as_gateway_error,
    describe_failure,
)
from providers.transport.resolver import Resolver

RESOLVER = Resolver()
FIXED_HEADERS = (
    "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
    "Accept-Encoding: identity\r\nUser-Agent: language-model-gateway\r\n"
)
HEAD_LINES = 4 + FIXED_HEADERS.count("\n")  # without further headers, with the empty line at the end


class ProviderRequest(NamedTuple):
    """A request to send: the full URL, the format's and the credential's headers, and the body."""

    url: str
    body: bytes
    headers: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TransportLimits:
    """A provider's time-outs, in seconds, and the maximum size of its response, in bytes."""

    connect: float
    first_byte: float
    idle: float
    response_bytes: int


class RefusedAddress(Exception):
    """The provider's host has an address that may not be called."""


def connect_checked(host: str, port: int, *, timeout: float, networks: str) -> socket.socket:
    """A socket connected to one of the host's addresses. Raises RefusedAddress if any of them may not be called.

    It connects to the addresses that were checked, without another lookup: DNS rebinding gains nothing.
    """
    if addresses.is_disguised_address(host):
        raise RefusedAddress(f"the host {host} is not a plain name or address")
    deadline = time.monotonic() + timeout
    candidates = RESOLVER.addresses(host.strip("[]"), port, timeout=timeout)
    for *_, sockaddr in candidates:
        if reason := addresses.refusal_of_address(sockaddr[0], networks):
            raise RefusedAddress(f"the address {sockaddr[0]} of {host} {reason}")
    return _connect_first(candidates, deadline)


def _connect_first(candidates: list, deadline: float) -> socket.socket:
    failure: OSError = OSError("no address found")
    for remaining, (family, kind, protocol, _, sockaddr) in zip(range(len(candidates), 0, -1), candidates, strict=True):
        sock = socket.socket(family, kind, protocol)
        try:
            # A dead address must not use up the time of those after it.
            sock.settimeout(max((deadline - time.monotonic()) / remaining, 0.001))
            sock.connect(sockaddr)
            return sock
        except OSError as error:
            sock.close()
            failure = error
    raise failure


class _SharedContext(ssl.SSLContext):
    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        """Do nothing: urllib3 calls it per connection, which would free what OpenSSL is copying for another one."""


@cache
def tls_context() -> ssl.SSLContext:
    """The TLS context of all connections; it trusts the authorities of requests and of this machine.

    A context per connection would read the same certificates again: 25 ms and 0.9 MB each.
    OpenSSL's variables SSL_CERT_FILE and SSL_CERT_DIR name other authorities in place of the machine's.
    """
    context = _SharedContext(ssl.PROTOCOL_TLS_CLIENT)  # certificates and their names are checked
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False
    ssl.SSLContext.set_alpn_protocols(context, ["http/1.1"])
    context.load_verify_locations(DEFAULT_CA_BUNDLE_PATH)
    context.load_default_certs()
    return context


class _Checked(HTTPConnection):
    """A connection of urllib3 that connects to checked addresses only."""

    networks = "any"
    times: AttemptTimes | None = None

    def _new_conn(self) -> socket.socket:
        if not isinstance(self.timeout, int | float):
            raise TypeError("Every call to a provider needs a time-out in seconds.")
        times = self.times or AttemptTimes()
        times.connect_begun = time.perf_counter()
        try:
            sock = connect_checked(self.host, self.port, timeout=self.timeout, networks=self.networks)
        finally:
            times.connected = time.perf_counter()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock


class _Secure(_Checked, HTTPSConnection):
    def connect(self) -> None:
        # urllib3 loads nothing into the shared context for one connection, and does not turn its checks off.
        self.ssl_context, self.ca_certs, self.cert_reqs = tls_context(), None, "CERT_REQUIRED"
        try:
            super().connect()
        finally:
            if self.times is not None and self.sock is not None:  # connected
                self.times.tls_ended = time.perf_counter()


def _checked_pools(networks: str) -> dict[str, type]:
    plain = type("Plain", (_Checked,), {"networks": networks})
    secure = type("Secure", (_Secure,), {"networks": networks})
    return {
        "http": type("PlainPool", (urllib3.HTTPConnectionPool,), {"ConnectionCls": plain}),
        "https": type("SecurePool", (urllib3.HTTPSConnectionPool,), {"ConnectionCls": secure}),
    }


class CheckedAdapter(HTTPAdapter):
    """requests' adapter over checked connections."""

    def __init__(self, networks: str) -> None:
        self.networks = networks
        super().__init__(max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _checked_pools(self.networks)

    def connect(self, url: str, timeout: float, times: AttemptTimes | None = None) -> HTTPConnection:
        """A new connected connection to the URL's origin, with the TLS settings of requests."""
        request = requests.Request("POST", url).prepare()
        pool = self.get_connection_with_tls_context(request, verify=True)
        if not isinstance(pool, urllib3.HTTPConnectionPool):
            raise TypeError("The pools of the adapter are those of _checked_pools().")
        connection = pool._new_conn()
        if not isinstance(connection, _Checked):
            raise TypeError("The connections of the pools are those of _checked_pools().")
        connection.timeout, connection.times = timeout, times
        connection.connect()
        return connection


class Transport:
    """Sends requests to providers and keeps their connections for the next ones."""

    def __init__(self, *, networks: str, heartbeat_seconds: float) -> None:
        self._adapter = CheckedAdapter(networks)
        self._idle: defaultdict[str, deque[Connection]] = defaultdict(deque)  # by origin, the latest last
        self._heartbeat_seconds = heartbeat_seconds

    def send(
        self, request: ProviderRequest, limits: TransportLimits, call: Call, *, may_reuse: bool = True
    ) -> ProviderResponse:
        """Send the request once, on a kept connection or a new one, and wait for status and headers.

        Raises ProviderError or ProviderTimeout, and Interrupted if the call was ended from outside; NotReceived if the
        provider had closed the kept connection: then it may be sent again, with `may_reuse=False`.
        """
        url = urlsplit(request.url)
        head = _request_head(url, request)
        call.idle_seconds = limits.idle
        origin = f"{url.scheme}://{url.netloc}"
        try:
            idle = self._idle_connection(origin) if may_reuse else None
            connection = idle or self._open(request.url, origin, limits, call)
            return self._send_request(connection, head + request.body, limits, call, is_kept=idle is not None)
        except (InvalidResponse, OSError) as error:
            raise as_gateway_error(call, error) from error

    def session(self) -> requests.Session:
        """A requests session for administrators' calls, over the same checked connections."""
        session = requests.Session()
        session.trust_env = False
        session.mount("http://", self._adapter)
        session.mount("https://", self._adapter)
        return session

    def close_idle(self, older_than: float = IDLE_CONNECTION_SECONDS) -> None:
        """Close connections that have been idle for more than this many seconds."""
        limit = time.monotonic() - older_than
        for idle in list(self._idle.values()):
            with suppress(IndexError):
                while idle and idle[0].used < limit:
                    idle.popleft().close()

    def release(self, connection: Connection) -> None:
        """Put a connection into the pool for the next request to its origin."""
        connection.used = time.monotonic()
        if connection.is_secure:  # its time-out would also apply to sending and to is_alive()
            connection.sock.settimeout(None)
        self._idle[connection.origin].append(connection)

    def _idle_connection(self, origin: str) -> Connection | None:
        """An open connection to this origin from the pool, if there is one."""
        idle = self._idle.get(origin)
        while idle:
            try:
                connection = idle.pop()
            except IndexError:
                break
            if connection.is_alive():
                return connection
            connection.close()
        return None

    def _open(self, text: str, origin: str, limits: TransportLimits, call: Call) -> Connection:
        call.check()
        try:
            connection = self._adapter.connect(text, _seconds_to_connect(limits, call), call.times)
        except RefusedAddress as error:
            # Which address it is, its cause says, which only administrators read.
            raise _mark_unreached(
                ProviderError("The gateway does not call the provider: its address is not allowed.")
            ) from error
        except TimeoutError as error:
            call.interrupt_overdue(time.monotonic())  # it may be the time of the whole call that is over
            end = call.end if call.end in (End.TOTAL, End.ATTEMPT) else End.CONNECT
            raise _mark_unreached(ProviderTimeout(f"The provider {end.value}.")) from error
        except (OSError, UnicodeError, urllib3.exceptions.HTTPError) as error:
            raise _mark_unreached(
                ProviderError(f"No connection to the provider: {describe_failure(error)}.")
            ) from error
        sock, connection.sock = connection.sock, None  # only the socket is kept
        if isinstance(sock, ssl.SSLSocket):
            sock.settimeout(None)
        else:
            bound_waits(sock, receive=self._heartbeat_seconds)
        return Connection(origin, sock)

    def _send_request(
        self, connection: Connection, data: bytes, limits: TransportLimits, call: Call, *, is_kept: bool
    ) -> ProviderResponse:
        try:
            call.attach(connection.sock)
            call.expect(End.FIRST_BYTE, limits.first_byte)
            response = HTTPResponse(connection.sock, limit=limits.response_bytes, on_bytes=call.note_arrival)
            try:
                connection.sock.sendall(data)  # in one piece, and gone before the wait
                if connection.is_secure:
                    bound_waits(connection.sock, receive=self._heartbeat_seconds)
                response.read_head()
                if call.times is not None:
                    call.times.first_byte = time.perf_counter()
            except (ConnectionError, ssl.SSLError, NoResponse) as error:
                is_cut = isinstance(error, OSError)  # its end was not even written
                if is_kept and call.end is None and (is_cut or connection.is_unacknowledged(len(data))):
                    raise NotReceived("The provider closed the connection before the request arrived.") from error
                raise
            return ProviderResponse(self.release, connection, response, call)
        except BaseException:
            call.detach()
            connection.close()
            raise


def _seconds_to_connect(limits: TransportLimits, call: Call) -> float:
    """How long a connection may take. Raises TimeoutError if there is no time left."""
    seconds = min(limits.connect, call.remaining_seconds())
    if seconds <= 0:
        raise TimeoutError
    return seconds


def _mark_unreached(error: UpstreamError) -> UpstreamError:
    """The same error, marked: the provider never received the request."""
    error.may_have_worked = False
    return error


def _request_head(url: SplitResult, request: ProviderRequest) -> bytes:
    """The request line and headers, all of them ours; values that could inject a header are refused."""
    target, body, headers = url.path or "/", request.body, request.headers
    if url.query:
        target = f"{target}?{url.query}"
    host = url.netloc.rpartition("@")[2]
    further = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    head = f"POST {target} HTTP/1.1\r\nHost: {host}\r\n{FIXED_HEADERS}Content-Length: {len(body)}\r\n{further}\r\n"
    lines = HEAD_LINES + len(headers)
    is_whole = head.count("\n") == head.count("\r") == lines and "\0" not in head
    if not is_whole or not head.isascii() or " " in target:
        raise ProviderError("The provider's URL or credential contains a character that cannot be sent.")
    return head.encode()
