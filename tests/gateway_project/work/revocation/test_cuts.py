"""A cut ends the requests of a credential that have begun, also those that nobody watches at the moment, once each."""

import time

import pytest

from gateway_project.change_feed.cuts import Credential
from gateway_project.work.exchange import Identity
from gateway_project.work.revocation import cuts
from gateway_project.work.snapshot.records import Caller, KeySnapshot
from gateway_project.work.streaming.watch import Watcher
from providers.transport.calls import Call, End

pytestmark = pytest.mark.embedded

KEY = KeySnapshot(5, "laptop", b"", 7, None, float("inf"), locked=False, permissions=frozenset())
USER = Caller(7, "ann", usable=True, features=frozenset(), group_ids=())
BY_KEY, BY_TOKEN, UNKNOWN = Identity(USER, KEY), Identity(USER), Identity()


def new_call(owner: Identity | None) -> Call:
    call = Call(client=None, total_seconds=10)
    call.owner = owner
    return call


@pytest.fixture
def watcher() -> Watcher:
    return Watcher()


def ends(watcher: Watcher, *calls: Call) -> list[End | None]:
    for call in calls:
        watcher.add(call)
    return [call.end for call in calls]


def test_a_key_ends_its_own_requests_and_a_user_all_of_theirs(watcher):
    calls = [new_call(owner) for owner in (BY_KEY, BY_TOKEN, UNKNOWN, None)]
    ends(watcher, *calls)
    watcher.cut_calls([Credential("key", 5)])
    assert [call.end for call in calls] == [End.REVOKED, None, None, None]
    watcher.cut_calls([Credential("user", 7), Credential("key", 9)])
    assert [call.end for call in calls] == [End.REVOKED, End.REVOKED, None, None]
    assert watcher.cuts.counts() == {"key 5": 1, "user 7": 1}


def test_a_request_that_is_not_watched_at_the_moment_ends_when_it_is(watcher):
    earlier = new_call(BY_KEY)
    watcher.cut_calls([Credential("key", 5)])
    time.sleep(0.01)
    later = new_call(BY_KEY)
    assert ends(watcher, earlier, later) == [End.REVOKED, None]
    assert watcher.cuts.counts() == {"key 5": 1}


def test_the_calls_of_one_request_count_once(watcher):
    ends(watcher, new_call(BY_KEY), new_call(BY_KEY))
    watcher.cut_calls([Credential("key", 5)])
    assert watcher.cuts.counts() == {"key 5": 1}


def test_the_client_of_a_shared_stream_takes_the_owner_along(watcher):
    shared = new_call(BY_KEY)
    own = shared.detach_client()
    ends(watcher, shared, own)
    watcher.cut_calls([Credential("key", 5)])
    assert (shared.end, own.end) == (None, End.REVOKED)


def test_old_cuts_are_forgotten(watcher, monkeypatch):
    watcher.cut_calls([Credential("key", 5)])
    monkeypatch.setattr(cuts, "KEEP_SECONDS", 0.0)
    time.sleep(0.01)
    watcher.cut_calls([Credential("key", 6)])
    assert watcher.cuts.latest.keys() == {Credential("key", 6)}
