"""The client's address and scheme behind trusted proxies: resolved once for each request, before anything else.

Only headers of a trusted proxy count; any other peer is itself the client, whatever its headers claim. `Forwarded`,
`X-Real-IP` and `X-Forwarded-Host` are never read.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address
from wsgiref.types import WSGIEnvironment

PEER = "gateway.peer"  # in WSGI's environment: the trusted proxy that forwarded the request
IPV4_MAPPED = "::ffff:"  # prefix of IPv4 addresses on a socket that listens on IPv6
MAX_HOPS = 32
MAX_HOP_LENGTH = 64
CLIENT_HEADERS = {"HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED", "HTTP_X_REAL_IP"}  # where proxies name the client
FORWARDING_HEADERS = {*CLIENT_HEADERS, "HTTP_VIA"}


class TrustedProxies:
    """The proxies whose headers count: all addresses in these networks."""

    def __init__(
        self, networks: Sequence[IPv4Network | IPv6Network], report_unlisted: Callable[[str], None] = lambda _: None
    ) -> None:
        """`report_unlisted` is called with the address of another peer that sends a forwarding header."""
        self.report_unlisted = report_unlisted
        self._networks = tuple(networks)
        self._trusted = lru_cache(maxsize=4096)(self._is_inside)

    def is_trusted(self, peer: str) -> bool:
        return bool(self._networks) and self._trusted(peer)

    def resolve_client(self, environ: WSGIEnvironment) -> None:
        """Replace address and scheme by those of the client, if the peer is a trusted proxy."""
        peer = environ.get("REMOTE_ADDR", "")
        if peer.startswith(IPV4_MAPPED):
            peer = environ["REMOTE_ADDR"] = read_address(peer)
        if not self._networks or not self._trusted(peer):
            if not CLIENT_HEADERS.isdisjoint(environ):
                self.report_unlisted(peer)
            return
        environ[PEER] = peer
        environ["REMOTE_ADDR"] = self.client(peer, environ.get("HTTP_X_FORWARDED_FOR", ""))
        scheme = environ.get("HTTP_X_FORWARDED_PROTO", "").rpartition(",")[2].strip().lower()
        if scheme in ("http", "https"):
            environ["wsgi.url_scheme"] = scheme

    def client(self, peer: str, forwarded: str) -> str:
        """The rightmost address of X-Forwarded-For that is not a trusted proxy.

        Each proxy appends its peer: everything left of an untrusted or invalid address may be forged.
        """
        client_address = peer
        for hop in reversed(forwarded.rsplit(",", MAX_HOPS)[-MAX_HOPS:]):
            address = read_address(hop)
            if not address:
                break
            client_address = address
            if not self._trusted(address):
                break
        return client_address

    def _is_inside(self, text: str) -> bool:
        address = read_address(text)
        return bool(address) and any(ip_address(address) in network for network in self._networks)


def read_address(text: str) -> str:
    """An IP address in canonical form, without a port; '' for anything else."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    if len(text) > MAX_HOP_LENGTH or "%" in text:  # an IPv6 zone may be any text
        return ""
    try:
        address = ip_address(text)
    except ValueError:
        return ""
    return str(getattr(address, "ipv4_mapped", None) or address)


def is_local(environ: WSGIEnvironment) -> bool:
    """Whether the client is a program on this machine, and not a proxy here that forwards for others."""
    is_resolved = PEER in environ and "HTTP_X_FORWARDED_FOR" in environ
    if not is_resolved and not FORWARDING_HEADERS.isdisjoint(environ):
        return False  # forwarded by an untrusted proxy
    client: str = environ.get("REMOTE_ADDR", "")
    return is_loopback(client) and is_loopback(environ.get(PEER, client))


def is_loopback(text: str) -> bool:
    """Whether the text is a loopback address, with or without a port."""
    address = read_address(text)
    return bool(address) and ip_address(address).is_loopback
