"""The way to providers, and the only importer of requests: checked addresses, kept connections, no surprises.

requests brings its trust store and the pools' keys. The exchange itself goes over the
connection's own socket: `Session.send` spends four fifths of a call's CPU on what a gateway must not do
anyway (cookies, redirects, proxies and netrc of the environment, transparent decompression).
"""

import socket
import ssl
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from urllib.parse import SplitResult, urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection

from gateway_project.errors import ProviderError, ProviderTimeout, UpstreamError
from gateway_project.sockets import bound_waits
from providers import addresses
from providers.calls import Call, End
from providers.conversation import IDLE_CONNECTION_SECONDS, Conversation, Crossed, Line, read_head, reason, told
from providers.reply import BadReply, Reply
from providers.resolver import Resolver

RESOLVER = Resolver()


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """What a format wants sent: the whole URL, its own headers and the body."""

    url: str
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a provider may take, in seconds, and how much it may say, in bytes."""

    connect: float
    first_byte: float
    idle: float
    response_bytes: int


class RefusedAddress(Exception):
    """The provider's host has no address that may be called."""


def connect_checked(host: str, port: int, *, timeout: float, networks: str) -> socket.socket:
    """A connected socket to one of the host's addresses, every one of which may be called, within the time-out.

    The very addresses that were checked are connected to: a name that answers differently the next
    time it is asked gains nothing.
    """
    if addresses.odd_host(host):
        raise RefusedAddress(f"the host {host} is not a plain name or address")
    deadline = time.monotonic() + timeout
    found = RESOLVER.addresses(host.strip("[]"), port, timeout=timeout)
    for *_, sockaddr in found:
        if reason := addresses.refusal(sockaddr[0], networks):
            raise RefusedAddress(f"the address {sockaddr[0]} of {host} {reason}")
    return _connect_first(found, deadline)


def _connect_first(found: list, deadline: float) -> socket.socket:
    failure: OSError = OSError("no address found")
    for left, (family, kind, protocol, _, sockaddr) in zip(range(len(found), 0, -1), found, strict=True):
        sock = socket.socket(family, kind, protocol)
        try:
            # A dead address may not use up the time of those behind it.
            sock.settimeout(max((deadline - time.monotonic()) / left, 0.001))
            sock.connect(sockaddr)
            return sock
        except OSError as error:
            sock.close()
            failure = error
    raise failure


class _SharedContext(ssl.SSLContext):
    def set_alpn_protocols(self, alpn_protocols: list[str]) -> None:
        """Nothing: urllib3 says it anew for each connection, while OpenSSL copies what it would free for another."""


@cache
def tls_context() -> ssl.SSLContext:
    """What every connection with TLS goes by; it trusts whom requests trusts, and whom this machine does.

    Connections that each had their own would read the same certificates again: 25 ms and 0.9 MB for every one.
    OpenSSL's variables SSL_CERT_FILE and SSL_CERT_DIR name other authorities in place of the machine's.
    """
    context = _SharedContext(ssl.PROTOCOL_TLS_CLIENT)  # certificates and their names are checked
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False
    ssl.SSLContext.set_alpn_protocols(context, ["http/1.1"])
    context.load_verify_locations(requests.certs.where())
    context.load_default_certs()
    return context


class _Checked:
    """Mixed into urllib3's connections: they connect to checked addresses only."""

    networks = "any"

    def _new_conn(self) -> socket.socket:
        sock = connect_checked(self.host, self.port, timeout=self.timeout, networks=self.networks)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock


class _Secure(_Checked, HTTPSConnection):
    def connect(self) -> None:
        # Nothing is read into it for one connection, and none turns its checks off.
        self.ssl_context, self.ca_certs, self.cert_reqs = tls_context(), None, "CERT_REQUIRED"
        super().connect()


def _checked_pools(networks: str) -> dict[str, type]:
    plain = type("Plain", (_Checked, HTTPConnection), {"networks": networks})
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

    def init_poolmanager(self, *args, **kwargs) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _checked_pools(self.networks)

    def connect(self, url: str, timeout: float) -> urllib3.connection.HTTPConnection:
        """A new connected connection to the URL's origin, with the TLS settings of requests."""
        request = requests.Request("POST", url).prepare()
        pool = self.get_connection_with_tls_context(request, verify=True)
        connection = pool._new_conn()
        connection.timeout = timeout
        connection.connect()
        return connection


class Transport:
    """Sends requests to providers and keeps their connections for the next ones."""

    def __init__(self, *, networks: str, heartbeat_seconds: float) -> None:
        self._adapter = CheckedAdapter(networks)
        self._idle: dict[str, deque] = {}
        self._silence = heartbeat_seconds

    def send(self, request: ProviderRequest, patience: Patience, call: Call) -> Conversation:
        """Send it and wait for status and headers.

        Raises ProviderError and ProviderTimeout in words about the provider, Interrupted where the
        call was ended from outside.
        """
        url = urlsplit(request.url)
        head = _head(url, request)
        call.idle_seconds = patience.idle
        origin = f"{url.scheme}://{url.netloc}"
        try:
            if (line := self._kept(origin)) is not None:
                try:
                    return self._exchange(line, head, request.body, patience, call)
                except Crossed:
                    # The provider closed a kept connection while it was idle: ask once more, on a new one.
                    if call.end is not None:
                        raise
            return self._exchange(self._open(request.url, origin, patience, call), head, request.body, patience, call)
        except (BadReply, OSError) as error:
            raise told(call, error) from error

    def session(self) -> requests.Session:
        """A session for the administrators' calls, over the same checked connections."""
        session = requests.Session()
        session.trust_env = False
        session.mount("http://", self._adapter)
        session.mount("https://", self._adapter)
        return session

    def close_idle(self, older_than: float = IDLE_CONNECTION_SECONDS) -> None:
        """Close the connections that nobody has used for so many seconds."""
        limit = time.monotonic() - older_than
        for idle in list(self._idle.values()):
            with suppress(IndexError):
                while idle and idle[0].used < limit:
                    idle.popleft().close()

    def keep(self, line: Line) -> None:
        """Take a connection back for the next request to its origin."""
        line.used = time.monotonic()
        if line.is_secure:  # its time-out would hold for sending too, and for the look whether it is alive
            line.sock.settimeout(None)
        self._idle.setdefault(line.origin, deque()).append(line)

    def _kept(self, origin: str) -> Line | None:
        """A connection that the last request to this origin left behind, if one is good."""
        idle = self._idle.get(origin)
        while idle:
            try:
                line = idle.pop()
            except IndexError:
                break
            if line.alive():
                return line
            line.close()
        return None

    def _open(self, text: str, origin: str, patience: Patience, call: Call) -> Line:
        call.check()
        timeout = min(patience.connect, call.remaining())
        if timeout <= 0:
            raise _unreached(ProviderTimeout(f"The provider {End.TOTAL.value}."))
        try:
            connection = self._adapter.connect(text, timeout)
        except RefusedAddress as error:
            raise _unreached(ProviderError(f"The provider is not called: {error}.")) from error
        except TimeoutError as error:
            raise _unreached(ProviderTimeout(f"The provider {End.CONNECT.value}.")) from error
        except (OSError, UnicodeError, urllib3.exceptions.HTTPError) as error:
            raise _unreached(ProviderError(f"No connection to the provider: {reason(error)}.")) from error
        sock, connection.sock = connection.sock, None  # the connection has done its part, the socket stays
        if isinstance(sock, ssl.SSLSocket):
            sock.settimeout(None)
        else:
            bound_waits(sock, receive=self._silence)
        return Line(origin, sock)

    def _exchange(self, line: Line, head: bytes, body: bytes, patience: Patience, call: Call) -> Conversation:
        try:
            call.attach(line.sock)
            call.expect(End.FIRST_BYTE, patience.first_byte)
            try:
                line.sock.sendall(head + body)  # in one piece, and gone before the wait
                if line.is_secure:
                    bound_waits(line.sock, receive=self._silence)
            except ConnectionError as error:
                raise Crossed("it closed the connection while the request was sent") from error
            reply = Reply(line.sock, limit=patience.response_bytes, on_bytes=call.heard)
            read_head(reply)
            return Conversation(self.keep, line, reply, call)
        except BaseException:
            call.detach()
            line.close()
            raise


def _unreached(error: UpstreamError) -> UpstreamError:
    """The same, of a provider that never saw the request."""
    error.may_have_worked = False
    return error


def _head(url: SplitResult, request: ProviderRequest) -> bytes:
    """The request's head. Every header is ours; a value that could begin another one is refused."""
    target = f"{url.path or '/'}?{url.query}" if url.query else url.path or "/"
    host = url.netloc.rpartition("@")[2]
    lines = [
        f"POST {target} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        "Accept: application/json, text/event-stream\r\nAccept-Encoding: identity\r\n"
        f"User-Agent: language-model-gateway\r\nContent-Length: {len(request.body)}\r\n"
    ]
    lines += [f"{name}: {value}\r\n" for name, value in request.headers.items()]
    head = "".join(lines) + "\r\n"
    lines_sent = 8 + len(request.headers)
    broken = head.count("\n") != lines_sent or head.count("\r") != lines_sent or "\0" in head
    if broken or not head.isascii() or " " in target:
        raise ProviderError("The provider's URL or credential holds a character that cannot be sent.")
    return head.encode()
