"""Which addresses a provider may have: decided on the resolved address that is then connected to."""

import ipaddress
import re
from urllib.parse import urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Refused whatever the settings: no provider lives there, but cloud metadata services do.
ALWAYS_REFUSED = tuple(
    ipaddress.ip_network(block)
    for block in (
        "0.0.0.0/8",  # "this host": some systems connect it to loopback
        "169.254.0.0/16",  # link-local, with the metadata services of most clouds
        "100.100.100.200/32",  # metadata of Alibaba Cloud
        "168.63.129.16/32",  # metadata and wire server of Azure
        "192.0.0.192/32",  # metadata of Oracle Cloud (older)
        "224.0.0.0/3",  # multicast, reserved, broadcast
        "::/128",
        "fe80::/10",
        "fec0::/10",
        "fd00:ec2::/32",  # metadata of AWS over IPv6
        "fd20:ce::/32",  # metadata of Google Cloud over IPv6
        "ff00::/8",
    )
)
# Refused beside is_global's own list in "public" networks: it calls these global, and they lead inside.
NOT_PUBLIC = tuple(ipaddress.ip_network(block) for block in ("192.0.0.0/24", "100.64.0.0/10", "fc00::/7"))

# How an IPv4 address travels inside an IPv6 one: the network and the bit where it begins.
EMBEDDINGS = (
    (ipaddress.ip_network("::ffff:0:0/96"), 96),
    (ipaddress.ip_network("::/96"), 96),
    (ipaddress.ip_network("::ffff:0:0:0/96"), 96),
    (ipaddress.ip_network("64:ff9b::/96"), 96),
    (ipaddress.ip_network("2002::/16"), 16),
)
# The names by which clouds offer their metadata service; all of them end at an address in ALWAYS_REFUSED.
METADATA_NAMES = frozenset(
    {"metadata.google.internal", "metadata.goog", "metadata", "instance-data", "instance-data.ec2.internal"}
    | {"metadata.azure.internal", "metadata.tencentyun.com", "metadata.platformequinix.com"}
)
NAT64_LOCAL = ipaddress.ip_network("64:ff9b:1::/48")
ISATAP = (0x00005EFE, 0x02005EFE)  # what stands before the address in the last 64 bits, whatever the network
NUMERIC_LABEL = re.compile(r"\A(0[xX][0-9a-fA-F]*|[0-9]+)\Z")


def refusal_of_address(address: str, networks: str) -> str:
    """Why this address may not be called ('' if it may); `networks` is the setting: any or public."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    for inner in (ip, *_embedded_addresses(ip)):
        if any(inner in network for network in ALWAYS_REFUSED):
            return "is a link-local, metadata or otherwise reserved address"
        if networks == "public" and not _public(inner):
            return "is not a public address"
    return ""


def literal_refusal(host: str, networks: str) -> str:
    """Why a host, without brackets, may not be a provider's ('' if it may), as far as its text says.

    Every call checks the addresses that it resolves to.
    """
    name = host.rstrip(".").lower()
    if name in METADATA_NAMES:
        return "is the name of a metadata service"
    try:
        return refusal_of_address(name, networks)
    except ValueError:
        pass
    return "is an address in an unusual form; write a name or a plain address" if is_disguised_address(host) else ""


def url_refusal(url: str) -> str:
    """What is wrong with the host of a URL ('' if nothing) that something else than a provider is to have."""
    host = urlsplit(url).hostname or ""
    reason = literal_refusal(host, "any")
    return f"must name another host: {host} {reason}." if reason else ""


def is_disguised_address(host: str) -> bool:
    """Whether a host is a number in disguise: 0x7f.1, 2130706433, 127.1, 017700000001."""
    if ":" in host:
        return False
    try:
        ipaddress.IPv4Address(host)
        return False
    except ValueError:
        return bool(NUMERIC_LABEL.match(host.rstrip(".").rpartition(".")[2]))


def _public(ip: Address) -> bool:
    return ip.is_global and not any(ip in network for network in NOT_PUBLIC)


def _embedded_addresses(ip: Address) -> list[Address]:
    """The IPv4 addresses that an IPv6 address carries inside."""
    if ip.version == 4 or ip in (ipaddress.IPv6Address("::"), ipaddress.IPv6Address("::1")):
        return []
    if ip.teredo is not None:
        return list(ip.teredo)  # of its server and of its client
    if ip in NAT64_LOCAL:
        return _nat64(int(ip))
    if int(ip) >> 32 & 0xFFFFFFFF in ISATAP:
        return [ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)]
    return [
        ipaddress.IPv4Address((int(ip) >> (128 - start - 32)) & 0xFFFFFFFF)
        for network, start in EMBEDDINGS
        if ip in network
    ]


def _nat64(ip: int) -> list[Address]:
    """The addresses it may stand for, by the length of the prefix; bits 64 to 71 are left out (RFC 6052, 2.2)."""
    without = (ip >> 64 << 56) | (ip & 0xFFFFFFFFFFFFFF)
    rests = (120 - length - 32 for length in (48, 56, 64))
    numbers = [ip & 0xFFFFFFFF, *(without >> rest & 0xFFFFFFFF for rest in rests if not without & ((1 << rest) - 1))]
    return [ipaddress.IPv4Address(inner) for inner in numbers if inner >> 24]
