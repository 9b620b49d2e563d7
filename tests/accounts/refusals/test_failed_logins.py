"""Which failed logins are recorded each, and that the others are counted by account and address."""

import json

import pytest
from django.db import DatabaseError

from accounts.refusals import failed_logins as module
from accounts.refusals.failed_logins import MAX_COUNTS, NOBODY, OTHERS, FailedLogins
from telemetry.models import AuditEntry, LogEntry

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
OWN = 2


@pytest.fixture
def failures(settings) -> FailedLogins:
    settings.GATEWAY_REFUSAL_ENTRIES = OWN
    return FailedLogins()


def fail(failures, number, account=NOBODY, address="192.0.2.1"):
    """How many of so many failed logins are recorded each."""
    events = []
    for _ in range(number):
        failures.record(lambda: events.append(account), address=address, account=account)
    return len(events)


@pytest.mark.long
def test_the_first_of_an_address_and_of_an_account_are_recorded(failures):
    assert fail(failures, 5) == OWN
    assert fail(failures, 5, "ann", "192.0.2.2") == OWN
    assert fail(failures, 5, "ann", "192.0.2.3") == 0
    assert fail(failures, 1, "bob", "192.0.2.4") == 1


@pytest.mark.long
def test_the_others_are_one_event_that_says_whom_from_where_and_how_often(failures):
    fail(failures, 5)
    fail(failures, 1002, "ann", "2001:db8::1")
    failures.write_counts()
    entry = AuditEntry.objects.get()
    assert entry.message == (
        "1,003 more logins failed: for ann (1,000), names that no user has (3), from 2001:db8::/64 (1,000), "
        "192.0.2.1 (3)."
    )
    assert json.loads(entry.after) == {
        "failedLogins": 1003,
        "users": {"ann": 1000},
        "unknownNames": 3,
        "addresses": {"2001:db8::/64": 1000, "192.0.2.1": 3},
    }
    assert (entry.action, entry.resource) == ("login", "auth")
    assert LogEntry.objects.get().status == 401
    failures.write_counts()
    assert AuditEntry.objects.count() == 1, "none were counted since"


def test_an_event_has_so_many_names_and_no_more(failures):
    for number in range(300):
        fail(failures, 1, f"user{number}", f"10.0.{number // 250}.{number % 250}")
    failures.write_counts()
    after = json.loads(AuditEntry.objects.get().after)
    own = OWN * module.MAX_LOGGED_ADDRESSES
    assert after["failedLogins"] == sum(after["addresses"].values()) == 300 - own
    assert after["users"][OTHERS] == 300 - own - MAX_COUNTS
    assert AuditEntry.objects.get().message.endswith(" more.")


def test_counts_are_kept_until_they_are_stored(failures, monkeypatch):
    fail(failures, 5)
    with monkeypatch.context() as patched:
        patched.setattr(module, "_record_counts", lambda *_: (_ for _ in ()).throw(DatabaseError))
        with pytest.raises(DatabaseError):
            failures.write_counts()
    failures.write_counts()
    assert json.loads(AuditEntry.objects.get().after)["failedLogins"] == 3


def test_the_next_minute_begins_with_a_login_where_no_task_runs(failures, monkeypatch):
    fail(failures, 5)
    monkeypatch.setattr(module, "WINDOW_SECONDS", 0.0)
    assert fail(failures, 1) == 1
    assert AuditEntry.objects.count() == 1
