"""Who the client is where proxies stand in between: settled once for each request, before anything looks at it.

Only what a trusted proxy says of its client counts. Everybody else is the client, whatever their headers claim;
`Forwarded`, `X-Real-IP` and `X-Forwarded-Host` are never read.
"""

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any

PEER = "gateway.peer"  # in WSGI's environment: the proxy that was seen through
MAPPED = "::ffff:"  # so a socket that listens on IPv6 writes whoever comes by IPv4
MOST_HOPS = 32
LONGEST_HOP = 64
SAYS_FORWARDED = ("HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED", "HTTP_X_REAL_IP", "HTTP_VIA")


class TrustedProxies:
    """The proxies whose word is taken: all addresses in these networks."""

    def __init__(self, networks: Sequence[IPv4Network | IPv6Network]) -> None:
        self._networks = tuple(networks)
        self._trusted = lru_cache(maxsize=4096)(self._is_inside)

    def see_through(self, environ: dict[str, Any]) -> None:
        """Put client and scheme in the place of the proxy's, where a trusted one is the peer."""
        peer = environ.get("REMOTE_ADDR", "")
        if peer.startswith(MAPPED):
            peer = environ["REMOTE_ADDR"] = read_address(peer)
        if not self._networks or not self._trusted(peer):
            return
        environ[PEER] = peer
        environ["REMOTE_ADDR"] = self.client(peer, environ.get("HTTP_X_FORWARDED_FOR", ""))
        scheme = environ.get("HTTP_X_FORWARDED_PROTO", "").rpartition(",")[2].strip().lower()
        if scheme in ("http", "https"):
            environ["wsgi.url_scheme"] = scheme

    def client(self, peer: str, forwarded: str) -> str:
        """The rightmost address of X-Forwarded-For that is no trusted proxy.

        Each proxy appends whom it heard: what stands left of a stranger, or of what is no address, may be made up.
        """
        found = peer
        for hop in reversed(forwarded.rsplit(",", MOST_HOPS)[-MOST_HOPS:]):
            address = read_address(hop)
            if not address:
                break
            found = address
            if not self._trusted(address):
                break
        return found

    def _is_inside(self, text: str) -> bool:
        address = read_address(text)
        return bool(address) and any(ip_address(address) in network for network in self._networks)


def read_address(text: str) -> str:
    """An IP address in its one spelling, without the port that may follow it; '' for anything else."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    if len(text) > LONGEST_HOP or "%" in text:  # a zone may be any text
        return ""
    try:
        address = ip_address(text)
    except ValueError:
        return ""
    return str(getattr(address, "ipv4_mapped", None) or address)


def is_local(environ: dict[str, Any]) -> bool:
    """Whether a program on this machine asks for itself, and not a proxy of this machine for somebody else."""
    seen_through = PEER in environ and "HTTP_X_FORWARDED_FOR" in environ
    if not seen_through and any(name in environ for name in SAYS_FORWARDED):
        return False  # a proxy that nobody has called trusted
    client = environ.get("REMOTE_ADDR", "")
    return is_loopback(client) and is_loopback(environ.get(PEER, client))


def is_loopback(text: str) -> bool:
    """Whether it is an address at which this machine calls itself, with or without a port."""
    address = read_address(text)
    return bool(address) and ip_address(address).is_loopback
