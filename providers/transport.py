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

from gateway_project.errors import GatewayError, ProviderError, ProviderTimeout, UpstreamError
from gateway_project.sockets import bound_waits
from providers import addresses
from providers.calls import Call, End, Interrupted
from providers.reply import BadReply, NoReply, Reply
from providers.resolver import Resolver

RESOLVER = Resolver()
LOOK = socket.MSG_PEEK | socket.MSG_DONTWAIT
IDLE_CONNECTION_SECONDS = 55.0  # below the minute after which many servers and balancers close
# A goodbye that was under way when a request was sent comes within half a round trip, which is 0.2 s around the world;
# the rest is for a busy machine. What comes later may be the end of somebody who has read the request and worked on it.
CROSSING_SECONDS = 0.5


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


class _Crossed(NoReply):
    """The provider had closed the connection before the request reached it whole: it has not worked on it."""


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

    def send(self, request: ProviderRequest, patience: Patience, call: Call) -> "Conversation":
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
                except _Crossed:
                    # The provider closed a kept connection while it was idle: ask once more, on a new one.
                    if call.end is not None:
                        raise
            return self._exchange(self._open(request.url, origin, patience, call), head, request.body, patience, call)
        except (BadReply, OSError) as error:
            raise _told(call, error) from error

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

    def keep(self, line: "Line") -> None:
        """Take a connection back for the next request to its origin."""
        line.used = time.monotonic()
        self._idle.setdefault(line.origin, deque()).append(line)

    def _kept(self, origin: str) -> "Line | None":
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

    def _open(self, text: str, origin: str, patience: Patience, call: Call) -> "Line":
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
        bound_waits(sock, receive=self._silence)
        return Line(origin, sock)

    def _exchange(self, line: "Line", head: bytes, body: bytes, patience: Patience, call: Call) -> "Conversation":
        try:
            call.attach(line.sock)
            call.expect(End.FIRST_BYTE, patience.first_byte)
            try:
                line.sock.sendall(head + body)  # in one piece, and gone before the wait
            except ConnectionError as error:
                raise _Crossed("it closed the connection while the request was sent") from error
            reply = Reply(line.sock, limit=patience.response_bytes, on_bytes=call.heard)
            _read_head(reply)
            return Conversation(self, line, reply, call)
        except BaseException:
            call.detach()
            line.close()
            raise


class Line:
    """A connection to one origin."""

    __slots__ = ("is_secure", "origin", "sock", "used")

    def __init__(self, origin: str, sock: socket.socket) -> None:
        self.sock = sock
        self.is_secure = isinstance(sock, ssl.SSLSocket)
        self.origin = origin
        self.used = time.monotonic()

    def alive(self) -> bool:
        """Whether the provider has left an idle connection open, and said nothing on it.

        What it said unasked would be taken for the answer to the next request, which is somebody else's:
        this costs a microsecond, and is asked every time.
        """
        idle = time.monotonic() - self.used
        if idle > IDLE_CONNECTION_SECONDS or (self.is_secure and self.sock.pending()):
            return False  # TLS may hold bytes that the socket does not show any more
        try:
            socket.socket.recv(self.sock, 1, LOOK)  # the base class's: that of a TLS socket takes no flags
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def close(self) -> None:
        self.sock.close()


class Conversation:
    """A provider's answer being read: status and headers are there, the body follows.

    Whoever holds one must end it: `close()` gives the connection back if the answer was read to its
    end, and closes it otherwise.
    """

    __slots__ = ("_call", "_line", "_reply", "_transport")

    def __init__(self, transport: Transport, line: Line, reply: Reply, call: Call) -> None:
        self._transport, self._line, self._reply, self._call = transport, line, reply, call

    @property
    def status(self) -> int:
        return self._reply.status

    @property
    def headers(self) -> dict[str, str]:
        return self._reply.headers

    @property
    def settled(self) -> bool:
        """Whether the framing of the answer, rather than the end of the connection, says that it is whole."""
        return self._reply.settled

    @property
    def source(self) -> socket.socket:
        """What the body comes from; only pieces() may read it."""
        return self._line.sock

    @property
    def has_more(self) -> bool:
        """Whether pieces() has something to say although the socket may stay silent: the end, or what TLS holds."""
        return self._reply.settled or (self._line.is_secure and self._line.sock.pending() > 0)

    def limit(self, size: int) -> None:
        """Read at most so many bytes of the body."""
        self._reply.limit = min(self._reply.limit, size)

    def read(self) -> bytes:
        """The whole body. Raises ProviderError, ProviderTimeout or Interrupted."""
        try:
            return self._reply.read()
        except (BadReply, OSError) as error:
            raise _told(self._call, error) from error
        finally:
            self.close()

    def pieces(self):
        """The body as it arrives, b"" for each silence. Raises as read() does; the caller closes."""
        try:
            yield from self._reply.pieces()
        except (BadReply, OSError) as error:
            raise _told(self._call, error) from error

    def close(self) -> None:
        """Give the connection back, or end it."""
        line, self._line = self._line, None
        if line is None:
            return
        self._call.detach()
        self._reply.end()
        if self._reply.reusable and self._call.end is None:
            self._transport.keep(line)
        else:
            line.close()


def _read_head(reply: Reply) -> None:
    """Wait for status and headers. Raises _Crossed where the end came too soon for the request to have been read."""
    sent = time.monotonic()
    try:
        reply.read_head()
    except NoReply as error:
        if time.monotonic() - sent < CROSSING_SECONDS:
            raise _Crossed(str(error)) from error
        raise


def _told(call: Call, error: Exception) -> GatewayError | Interrupted:
    """The failure in the words of whoever caused it: the watcher that ended the call, else the provider."""
    if call.end in (End.CLIENT_CLOSED, End.STOPPING):
        return Interrupted(call.end)
    if call.end is not None:
        return ProviderTimeout(f"The provider {call.end.value}.")
    return ProviderError(f"The provider failed: {reason(error)}.")


def _unreached(error: UpstreamError) -> UpstreamError:
    """The same, of a provider that never saw the request."""
    error.worked = False
    return error


def reason(error: Exception) -> str:
    """What a provider did, or what became of the way to it, in words for clients and administrators."""
    if isinstance(error, BadReply):
        return str(error)
    if isinstance(error, ConnectionRefusedError):
        return "it refused the connection"
    if isinstance(error, socket.gaierror):
        return "its host name is not known"
    return getattr(error, "strerror", None) or type(error).__name__


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
