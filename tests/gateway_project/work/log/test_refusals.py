"""Which refusals of unknown credentials have an entry, and that none is lost from the counts."""

import pytest

from gateway_project.work.log import refusals
from gateway_project.work.log.refusals import (
    MAX_ADDRESSES,
    MAX_LOGGED_ADDRESSES,
    OTHERS,
    Refusals,
    summary_entry,
)

OWN_ENTRIES = 5
MAX_OWN_ENTRIES = MAX_LOGGED_ADDRESSES * OWN_ENTRIES


def test_the_first_of_each_address_have_entries_and_the_others_are_counted():
    refusals = Refusals(OWN_ENTRIES)
    logged = {address: sum(refusals.may_log(address) for _ in range(50)) for address in ("192.0.2.1", "192.0.2.2")}
    assert logged == {"192.0.2.1": OWN_ENTRIES, "192.0.2.2": OWN_ENTRIES}
    assert refusals.take_counts() == {}  # the minute is not over
    assert refusals.take_counts(at_once=True) == dict.fromkeys(logged, 50 - OWN_ENTRIES)
    assert refusals.may_log("192.0.2.1")  # the next minute


def test_a_network_of_ipv6_is_one_address():
    refusals = Refusals(OWN_ENTRIES)
    assert sum(refusals.may_log(f"2001:db8::{number:x}") for number in range(100)) == OWN_ENTRIES
    assert refusals.take_counts(at_once=True) == {"2001:db8::/64": 100 - OWN_ENTRIES}


def test_many_addresses_have_few_entries_and_are_counted_together():
    row, request = Refusals(OWN_ENTRIES), 5000
    own = sum(row.may_log(f"10.0.{number // 250}.{number % 250}") for number in range(request))
    counts = row.take_counts(at_once=True)
    assert own == MAX_OWN_ENTRIES
    assert len(counts) == MAX_ADDRESSES + 1
    assert own + sum(counts.values()) == request
    assert counts[OTHERS] == request - MAX_OWN_ENTRIES - MAX_ADDRESSES


def test_counts_are_taken_once_a_minute(monkeypatch):
    monkeypatch.setattr(refusals, "WINDOW_SECONDS", 0.0)
    row = Refusals(OWN_ENTRIES)
    for _ in range(OWN_ENTRIES + 1):
        row.may_log("192.0.2.1")
    assert row.take_counts() == {"192.0.2.1": 1}
    assert row.take_counts() == {}


@pytest.mark.parametrize(
    ("origin", "count", "words"),
    [
        ("192.0.2.1", 1, "1 more request from 192.0.2.1 had its credentials refused."),
        ("2001:db8::/64", 11_995, "11,995 more requests from 2001:db8::/64 had their credentials refused."),
        (OTHERS, 2, "2 more requests from other addresses had their credentials refused."),
    ],
)
def test_the_message_says_how_many_and_whose(origin, count, words):
    assert summary_entry(origin, count, "2026-01-01 00:00:00")["message"] == words
