"""What one address may have of what all share."""

import socket

import pytest

from gateway_project.errors import ServiceUnavailable
from gateway_project.server.connections import addresses
from gateway_project.server.connections.addresses import AddressBook, Places, network_of

pytestmark = pytest.mark.embedded


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("198.51.100.7", "198.51.100.7"),
        ("::ffff:198.51.100.7", "198.51.100.7"),
        ("2001:db8:0:1:2::3", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_of_ipv6_the_network_counts(address, network):
    assert network_of(address) == network


def test_an_address_has_so_many_sockets_and_closed_ones_do_not_count():
    book = AddressBook(2)
    first, second, third, other = (socket.socket() for _ in range(4))
    assert book.add("2001:db8::1", first)
    assert book.add("2001:db8::2", second)
    assert not book.add("2001:db8::3", third)
    assert book.add("2001:db8:1::3", other)
    first.close()
    assert book.add("2001:db8::3", third)
    for sock in (second, third, other):
        sock.close()


def test_closed_sockets_of_gone_addresses_are_forgotten(monkeypatch):
    monkeypatch.setattr(addresses, "SLACK", 10)
    book = AddressBook(2)
    for number in range(100):
        sock = socket.socket()
        book.add(f"10.0.0.{number}", sock)
        sock.close()
    assert len(book._sockets) <= 12


def test_places_are_bounded_for_all_and_for_each():
    places = Places(3, 2, "Come again.")
    places.take("a")
    places.take("a")
    with pytest.raises(ServiceUnavailable, match="Come again"):
        places.take("a")
    places.take("b")
    with pytest.raises(ServiceUnavailable):
        places.take("c")
    places.release("a")
    with places.place("c"), pytest.raises(ServiceUnavailable):
        places.take("d")
    places.take("d")
