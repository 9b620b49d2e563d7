"""Which refusals of unknown callers have an entry, and that none is lost from the counts."""

import pytest

from gateway_project.errors import AuthenticationFailed, ServiceUnavailable
from gateway_project.work.log import refusals
from gateway_project.work.log.refusals import (
    MAX_COUNTS,
    MAX_LOGGED_ADDRESSES,
    OTHERS,
    Refusal,
    Refusals,
    summary_entry,
)
from telemetry.journal.batches import insert_log_entries
from telemetry.journal.records import to_record
from telemetry.models import LogEntry
from tests.support.promises import promise

OWN_ENTRIES = 5
MAX_OWN_ENTRIES = MAX_LOGGED_ADDRESSES * OWN_ENTRIES


def may_log(refusals, address, kind=AuthenticationFailed):
    return refusals.may_log(address, kind)


def unknown(origin):
    return Refusal(origin, AuthenticationFailed)


def test_the_first_of_each_address_have_entries_and_the_others_are_counted():
    refusals = Refusals(OWN_ENTRIES)
    logged = {address: sum(may_log(refusals, address) for _ in range(50)) for address in ("192.0.2.1", "192.0.2.2")}
    assert logged == {"192.0.2.1": OWN_ENTRIES, "192.0.2.2": OWN_ENTRIES}
    assert refusals.take_counts() == {}  # the minute is not over
    assert refusals.take_counts(at_once=True) == dict.fromkeys(map(unknown, logged), 50 - OWN_ENTRIES)
    assert may_log(refusals, "192.0.2.1")  # the next minute


def test_a_network_of_ipv6_is_one_address():
    refusals = Refusals(OWN_ENTRIES)
    assert sum(may_log(refusals, f"2001:db8::{number:x}") for number in range(100)) == OWN_ENTRIES
    assert refusals.take_counts(at_once=True) == {unknown("2001:db8::/64"): 100 - OWN_ENTRIES}


def test_many_addresses_have_few_entries_and_are_counted_together():
    row, request = Refusals(OWN_ENTRIES), 5000
    own = sum(may_log(row, f"10.0.{number // 250}.{number % 250}") for number in range(request))
    counts = row.take_counts(at_once=True)
    assert own == MAX_OWN_ENTRIES
    assert len(counts) == MAX_COUNTS + 1
    assert own + sum(counts.values()) == request
    assert counts[unknown(OTHERS)] == request - MAX_OWN_ENTRIES - MAX_COUNTS


def test_counts_are_taken_once_a_minute(monkeypatch):
    monkeypatch.setattr(refusals, "WINDOW_SECONDS", 0.0)
    row = Refusals(OWN_ENTRIES)
    for _ in range(OWN_ENTRIES + 1):
        may_log(row, "192.0.2.1")
    assert row.take_counts() == {unknown("192.0.2.1"): 1}
    assert row.take_counts() == {}


def test_errors_of_another_kind_use_the_same_entries_and_have_counts_of_their_own():
    refusals = Refusals(OWN_ENTRIES)
    kinds = (AuthenticationFailed, ServiceUnavailable)
    assert sum(may_log(refusals, "192.0.2.1", kinds[number % 2]) for number in range(25)) == OWN_ENTRIES
    assert refusals.take_counts(at_once=True) == {Refusal("192.0.2.1", kind): 10 for kind in kinds}


@promise(
    "Addresses that flood the log use up no entries of others",
    target="40 floods: all 5 refusals of another address have their entry",
    suite="attack",
)
@pytest.mark.parametrize("floods", [MAX_LOGGED_ADDRESSES, 500])
def test_addresses_that_flood_leave_entries_for_others(floods):
    refusals = Refusals(OWN_ENTRIES)
    for minute in range(3):
        for number in range(floods):
            own = sum(may_log(refusals, f"10.0.{number // 250}.{number % 250}") for _ in range(OWN_ENTRIES + 1))
            assert minute == 0 or own in (0, OWN_ENTRIES)
        is_first_logged = may_log(refusals, f"192.0.2.{minute}")
        assert is_first_logged or (minute == 0 and floods > MAX_LOGGED_ADDRESSES)  # they cannot be told apart yet
        counts = refusals.take_counts(at_once=True)
        assert len(counts) == floods + (not is_first_logged)


@pytest.mark.parametrize(
    ("origin", "count", "words"),
    [
        ("192.0.2.1", 1, "1 more request from 192.0.2.1 had its credentials refused."),
        ("2001:db8::/64", 11_995, "11,995 more requests from 2001:db8::/64 had their credentials refused."),
        (OTHERS, 2, "2 more requests from other addresses had their credentials refused."),
    ],
)
def test_the_message_says_how_many_and_whose(origin, count, words):
    assert summary_entry(unknown(origin), count, "2026-01-01 00:00:00")["message"] == words


def test_the_message_names_another_error():
    entry = summary_entry(Refusal("192.0.2.1", ServiceUnavailable), 3, "2026-01-01 00:00:00")
    words = "3 more requests from 192.0.2.1 failed before the user was known (ServiceUnavailable)."
    assert (entry["message"], entry["status"], entry["outcome"]) == (words, 503, "failed")


@pytest.mark.django_db
@pytest.mark.parametrize("origin", ["192.0.2.1", "2001:db8::/64", OTHERS])
def test_the_log_takes_the_entry_of_any_origin(origin):
    insert_log_entries([to_record(summary_entry(unknown(origin), 2, "2026-01-01 00:00:00"))])
    assert LogEntry.objects.get().address == origin.partition("/")[0]
