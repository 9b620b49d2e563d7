"""Slows guessing from many addresses, or at many accounts, without locking an owner out.

Where the throttle's wider counts are used up, a login has to wait for its turn: the first attempt is refused with the
seconds to wait, and one attempt after that is checked, however many others guess meanwhile. No thread waits.
"""

import hashlib
import math
import time

from accounts.guessing.stores import Store

FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 5, 300
DOUBLES_EVERY = 5  # failures
TURN_SECONDS = 600  # how long a turn may be used once it has come
PACE_SECONDS = 1


def delay_seconds(excess: float) -> int:
    """How long a login waits after so many failures beyond a limit: 5 s at first, twice that after each five more."""
    doublings = min(max(0, excess - 1) // DOUBLES_EVERY, 10)
    return min(LONGEST_DELAY_SECONDS, int(FIRST_DELAY_SECONDS * 2**doublings))


def seconds_until_turn(store: Store, delay: int, *names: str) -> int:
    """0 if the turn of this login has come, which uses it up; else the seconds until it comes, `delay` at most."""
    key, now = _key("turn", *names), time.time()
    store.add(key, math.ceil(now + delay), delay + TURN_SECONDS)
    begins = store.get(key)
    if type(begins) is int and begins <= now:
        return 0 if store.delete(key) else delay  # of two attempts at once, one has the turn
    return min(delay, math.ceil(begins - now)) if type(begins) is int else delay


def takes_pace(store: Store, *names: str) -> bool:
    """Whether this is the first attempt of these names within a second."""
    return store.add(_key("pace", *names), int(time.time()), PACE_SECONDS)


def _key(kind: str, *names: str) -> str:
    # Hashed: names are of any length and may contain characters that cache keys must not have.
    return f"login:{kind}:" + hashlib.sha256("\0".join(names).encode("utf-8", "replace")).hexdigest()
