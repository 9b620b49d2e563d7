"""What the requests of a process share is touched by one thread at a time: each method holds the lock meanwhile."""

import inspect

import pytest

from gateway_project.work.limits.checks import (
    COUNT,
    DAY,
    LEASE,
    USE,
    Admission,
    CheckStatus,
    Hold,
    LimitCheck,
    LostCount,
    Settlement,
)
from gateway_project.work.state.clock import Clock
from gateway_project.work.state.counters import Count
from gateway_project.work.state.local_share import LocalShare
from gateway_project.work.state.shared import LocalState
from tests.support.locking import guarded

REQUESTS, LEASED = LimitCheck("requests", 10, DAY, COUNT), LimitCheck("leases", 10, 0, LEASE)
USED = LimitCheck("uses", 0, DAY, USE)
SETTLEMENT = Settlement("token", [Hold(LEASED)], [0])
LOST = LostCount(REQUESTS, 0, 0.0)
CALLS = {
    "admit": lambda state: state.admit([REQUESTS], "key", "token", read=True),
    "begin_storing": lambda state: state.begin_storing("key", b"answer", 60, "token", SETTLEMENT)(),
    "release": lambda state: state.release("key", "token", SETTLEMENT),
    "settle": lambda state: state.settle(SETTLEMENT),
    "used_amounts": lambda state: state.used_amounts([REQUESTS]),
    "still_lost": lambda state: state.still_lost([LOST]),
    "rebuild": lambda state: state.rebuild([(LOST, 1)]),
    "count_uses": lambda state: state.count_uses("uses"),
    "use_peaks": lambda state: state.use_peaks("uses"),
    "peek": lambda state: state.peek("key"),
    "forget_answers": lambda state: state.forget_answers(["key"]),
    "tidy": lambda state: state.tidy(),
    "excerpt": lambda state: state.excerpt([REQUESTS]),
    "read_checks": lambda state: state.read_checks([REQUESTS]),
    "lost_counts": lambda state: state.lost_counts([REQUESTS]),
}
OF_SHARES = {
    "observe_admission": lambda share: share.observe_admission(
        "token", Admission([CheckStatus(REQUESTS, 5, 60)], holds=[Hold(LEASED)]), 0.0
    ),
    "note_use": lambda share: share.note_use(USED, "token", 0.0),
    "end_flight": lambda share: share.end_flight("key", "token"),
    "changed_uses": lambda share: share.changed_uses(include_all=True),
    "observe_settlement": lambda share: share.observe_settlement(SETTLEMENT, counted_in_redis=False),
    "hand_over": lambda share: share.hand_over(),
    "share_among": lambda share: share.share_among(3),
    "take_back": lambda share: share.take_back([Count(REQUESTS, 0, 0.0, usage=1)]),
}
# What needs no lock: memory is never away, and nobody else is there to be told.
# Owners have a lock of their own.
NOTHING_SHARED = {
    *("renew_holds", "claim_task", "release_task", "renew_flight", "probe"),
    *("owners", "claim_owners"),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_method_of_a_state_holds_its_lock(name):
    state = LocalState(cache_bytes=100)
    CALLS[name](guarded(state, state._lock, "_counters", "_answers", "_bytes", "_flights"))


@pytest.mark.parametrize("name", OF_SHARES)
def test_every_method_of_a_share_holds_its_lock(name):
    share = LocalShare(share_of=2, clock=Clock())
    share.admit([REQUESTS])
    guarded(share._counters, share._lock, "_counts", "_leases", "uses", "share_of")
    OF_SHARES[name](guarded(share, share._lock, "_changed", "_in_flight"))


def test_no_method_is_forgotten_here():
    def methods(kind):
        return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}

    assert methods(LocalState) == CALLS.keys() | NOTHING_SHARED
    assert methods(LocalShare) - methods(LocalState) == OF_SHARES.keys()
