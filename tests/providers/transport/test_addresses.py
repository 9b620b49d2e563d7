"""Which addresses a provider may have, in whatever spelling they come."""

import ipaddress
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.transport.addresses import is_disguised_address, refusal_of_address
from tests.support.promises import promise
from tests.support.thoroughness import number_of

pytestmark = pytest.mark.either_store

METADATA = ["169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "0.0.0.0", "224.0.0.1"]
PRIVATE = ["127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "192.0.0.8", "198.18.0.1"]


def spread(prefix, length, inner):
    """An IPv4 address behind a NAT64 prefix of this length, around bits 64 to 71 (RFC 6052, 2.2)."""
    bits = f"{int(ipaddress.IPv4Address(inner)):032b}"
    base = f"{int(ipaddress.IPv6Address(prefix)):0128b}"[:length]
    room = 64 - length
    whole = base + bits[:room] + "0" * 8 + bits[room:]
    return str(ipaddress.IPv6Address(int(whole.ljust(128, "0"), 2)))


EMBEDDED = {
    "mapped": lambda inner: f"::ffff:{inner}",
    "compatible": lambda inner: f"::{inner}",
    "translated": lambda inner: f"::ffff:0:{inner}",
    "NAT64": lambda inner: f"64:ff9b::{inner}",
    "local NAT64": lambda inner: f"64:ff9b:1::{inner}",
    "local NAT64 /48": lambda inner: spread("64:ff9b:1::", 48, inner),
    "local NAT64 /56": lambda inner: spread("64:ff9b:1::", 56, inner),
    "local NAT64 /64": lambda inner: spread("64:ff9b:1::", 64, inner),
    "6to4": lambda inner: "2002:{:02x}{:02x}:{:02x}{:02x}::1".format(*map(int, inner.split("."))),
    "Teredo server": lambda inner: "2001:0:{:02x}{:02x}:{:02x}{:02x}::f7f7:f7f7".format(*map(int, inner.split("."))),
    "Teredo client": lambda inner: "2001:0:808:808::{:02x}{:02x}:{:02x}{:02x}".format(
        *(255 - int(n) for n in inner.split("."))
    ),
    "ISATAP": lambda inner: f"2607:f8b0::5efe:{inner}",
    "ISATAP, global": lambda inner: f"2607:f8b0::200:5efe:{inner}",
}


@pytest.mark.parametrize(
    "address",
    [
        *METADATA,
        "0.1.2.3",
        "169.254.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "fe80::1",
        "febf::1",
        "fec0::1",
        "ff02::1",
        "fd00:ec2::254",
        "fd20:ce::254",
        "fe80::1%eth0",
        "fe80::a9fe:a9fe%1",
    ],
)
@pytest.mark.parametrize("networks", ["any", "public"])
def test_link_local_metadata_and_reserved_addresses_are_always_refused(address, networks):
    assert "reserved" in refusal_of_address(address, networks)


@pytest.mark.parametrize("spelled", EMBEDDED.values(), ids=EMBEDDED)
@pytest.mark.parametrize("address", [inner for inner in METADATA if inner != "0.0.0.0"])
def test_they_are_refused_inside_an_ipv6_address_too(spelled, address):
    assert "reserved" in refusal_of_address(spelled(address), "any")
    assert refusal_of_address(spelled(address), "public")


@pytest.mark.parametrize("address", [*PRIVATE, "::1", "fc00::1", "fd12::1", "2001:db8::1", "fd12::1%3"])
def test_private_addresses_are_refused_in_public_networks_only(address):
    assert refusal_of_address(address, "any") == ""
    assert "public" in refusal_of_address(address, "public")


@pytest.mark.parametrize("spelled", EMBEDDED.values(), ids=EMBEDDED)
@pytest.mark.parametrize("address", PRIVATE)
@promise("V-B1: a private address inside another is private", target="refused in each embedding", suite="attack")
def test_private_addresses_are_no_more_public_inside_an_ipv6_address(spelled, address):
    assert refusal_of_address(spelled(address), "public")


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "2607:f8b0:4004::200e", "64:ff9b::8.8.8.8", "::ffff:8.8.8.8"]
)
@pytest.mark.parametrize("networks", ["any", "public"])
def test_public_addresses_may_be_called(address, networks):
    assert refusal_of_address(address, networks) == ""


@pytest.mark.parametrize("inner", ["8.8.8.8", "10.0.0.1"])
@pytest.mark.parametrize("spelled", EMBEDDED.values(), ids=EMBEDDED)
def test_an_ordinary_address_inside_another_is_allowed_in_any_network(spelled, inner):
    assert refusal_of_address(spelled(inner), "any") == ""


@given(st.ip_addresses(v=4))
@settings(max_examples=number_of(200), deadline=None)
@promise("V-B1: a private address inside another is private", target="refused in each embedding", suite="attack")
def test_no_embedding_allows_what_the_plain_address_does_not(address):
    for networks in ("any", "public"):
        if refusal_of_address(str(address), networks):
            assert all(
                refusal_of_address(spelled(str(address)), networks)
                for spelled in EMBEDDED.values()
                if int(address) >> 24
            )


@given(st.ip_addresses())
@settings(max_examples=number_of(200), deadline=None)
def test_every_address_gets_an_answer_and_public_is_the_stricter_one(address):
    if refusal_of_address(str(address), "any"):
        assert refusal_of_address(str(address), "public")
    if not address.is_global:
        assert refusal_of_address(str(address), "public")


@pytest.mark.parametrize(
    "host",
    [
        "2130706433",
        "0x7f000001",
        "0X7F.1",
        "0x7f.0.0.1",
        "127.1",
        "127.0.1",
        "017700000001",
        "0177.0.0.1",
        "127.0.0.1.",
        "127.0.0.01",
        "0xa9fea9fe",
        "0x",
        "256.256.256.256",
        "1.2.3.4.5",
        "example.org.0x7f",
    ],
)
def test_a_number_in_disguise_is_odd(host):
    assert is_disguised_address(host)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "api.openai.com", "api.openai.com.", "localhost", "7f.example", "4u.example"]
    + ["::1", "[::1]", "::ffff:127.0.0.1"],
)
def test_a_plain_name_or_address_is_not(host):
    assert not is_disguised_address(host)


@given(st.lists(st.sampled_from(["0x7f", "127", "0", "1", "0177", "2130706433", "00"]), min_size=1, max_size=4))
@settings(max_examples=number_of(100), deadline=None)
@promise("V-O2: whatever the system reads as an address is checked", target="plain, or refused", suite="attack")
def test_what_the_system_reads_as_an_address_is_plain_or_odd(parts):
    host = ".".join(parts)
    try:
        read = socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return
    assert is_disguised_address(host) or host == read
