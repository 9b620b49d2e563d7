"""What the requests of a process share is touched by one thread at a time: each method holds the lock meanwhile."""

import inspect

import pytest

from gateway_project.work.clock import Clock
from gateway_project.work.limits import COUNT, DAY, LEASE, USE, Admission, Hold, LimitCheck, Lost, Settlement, Standing
from gateway_project.work.local_share import LocalShare
from gateway_project.work.state import LocalState

REQUESTS, LEASED = LimitCheck("requests", 10, DAY, COUNT), LimitCheck("leases", 10, 0, LEASE)
USED = LimitCheck("uses", 0, DAY, USE)
SETTLEMENT = Settlement("token", [Hold(LEASED)], [0])
LOST = Lost(REQUESTS, 0, 0.0)
CALLS = {
    "admit": lambda state: state.admit([REQUESTS], "key", "token", read=True),
    "store": lambda state: state.store("key", b"answer", 60, "token", SETTLEMENT),
    "release": lambda state: state.release("key", "token", SETTLEMENT),
    "settle": lambda state: state.settle(SETTLEMENT),
    "used": lambda state: state.used([REQUESTS]),
    "still_lost": lambda state: state.still_lost([LOST]),
    "rebuild": lambda state: state.rebuild([(LOST, 1)]),
    "uses": lambda state: state.uses("uses"),
    "peaks": lambda state: state.peaks("uses"),
    "look": lambda state: state.look("key"),
    "forget": lambda state: state.forget(["key"]),
    "tidy": lambda state: state.tidy(),
}
OF_SHARES = {
    "look_on": lambda share: share.look_on("token", Admission([Standing(REQUESTS, 5, 60)], holds=[Hold(LEASED)]), 0.0),
    "note_use": lambda share: share.note_use(USED, "token"),
    "notes": lambda share: share.notes(again=True),
    "settled": lambda share: share.settled(SETTLEMENT, elsewhere=False),
    "hand_over": lambda share: share.hand_over(),
    "take_back": lambda share: share.take_back([]),
}
# What needs no lock: memory is never away, and nobody else is there to be told.
NOTHING_SHARED = {"renew_holds", "alone", "finish", "renew", "probe"}
# One assignment, which the interpreter does at once.
ATOMIC = {"know"}


class Guarded:
    """Stands for an object that may be used under a lock alone."""

    def __init__(self, guarded, lock):
        self.guarded, self.lock, self.used = guarded, lock, 0

    def __getattr__(self, name):
        if name not in ATOMIC:
            assert self.lock.locked(), f"{name} without the lock"
            self.used += 1
        return getattr(self.guarded, name)


def _special(name):
    def method(self, *arguments):
        return self.__getattr__(name)(*(one.guarded if isinstance(one, Guarded) else one for one in arguments))

    return method


for name in ("__getitem__", "__setitem__", "__delitem__", "__contains__", "__iter__", "__or__"):
    setattr(Guarded, name, _special(name))


def guarded(state, *names):
    """Each of these attributes of a state; returns what stands for them."""
    guards = [Guarded(getattr(state, name), state._lock) for name in names]
    for name, guard in zip(names, guards, strict=True):
        setattr(state, name, guard)
    return guards


@pytest.mark.parametrize("name", CALLS)
def test_every_method_of_a_state_holds_its_lock(name):
    state = LocalState(cache_bytes=100)
    guards = guarded(state, "_counters", "_answers", "_flights")
    CALLS[name](state)
    assert any(guard.used for guard in guards)


@pytest.mark.parametrize("name", OF_SHARES)
def test_every_method_of_a_share_holds_its_lock(name):
    share = LocalShare(share_of=2, clock=Clock())
    guards = guarded(share, "_counters", "_noted", "_flying")
    OF_SHARES[name](share)
    assert any(guard.used for guard in guards)


def test_no_method_is_forgotten_here():
    def methods(kind):
        return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}

    assert methods(LocalState) == CALLS.keys() | NOTHING_SHARED
    assert methods(LocalShare) - methods(LocalState) == OF_SHARES.keys()
