"""Many users who come and go, on the active uses of one shared state: what 50 threads of one process saw.

As a program it is one of several processes that press on one Redis; it takes a prefix of names and its number.
"""

import json
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

MAX_USES, LIFE_SECONDS, PRESS_SECONDS, THREADS = 9, 1, 6, 50


class Seen(NamedTuple):
    """One request, by the clock that all processes of a machine share; a refused one has no ending."""

    user: int
    asked: float
    told: float
    ending: float = 0.0
    ended: float = 0.0


def press(state, seed: int = 0) -> list[Seen]:
    """What all threads saw."""
    until = time.monotonic() + PRESS_SECONDS
    with ThreadPoolExecutor(THREADS) as pool:
        observations = pool.map(
            lambda number: list(_work(state, random.Random(seed * THREADS + number), until)), range(THREADS)
        )
        return [one for some in observations for one in some]


def _work(state, chance: random.Random, until: float):
    while (now := time.monotonic()) < until:
        # Who is at work changes: uses lapse, and others take their place.
        user = int(now / 0.8) * 5 + chance.randrange(14)
        yield _request(state, user, f"{chance.getrandbits(64):016x}", chance.random() * 0.05)


def _request(state, user: int, token: str, seconds: float) -> Seen:
    from gateway_project.work.limits.checks import USE, LimitCheck, Settlement

    duration = time.monotonic()
    admission = state.admit([LimitCheck("uses", MAX_USES, LIFE_SECONDS, USE, member=str(user))], "", token)
    result = time.monotonic()
    time.sleep(seconds)
    if admission.refused is not None:
        return Seen(user, duration, result)
    ending = time.monotonic()
    state.settle(Settlement(token, admission.holds, [0] * len(admission.holds)))
    return Seen(user, duration, result, ending, time.monotonic())


def most_at_once(request: list[Seen]) -> int:
    """The most users whose uses were certainly live at one moment."""
    events = []
    life = LIFE_SECONDS - 0.002  # Redis counts milliseconds
    for user, begin, end in _merged([(one.user, one.told, one.ending + life) for one in request if one.ending]):
        events += [(begin, 1, user), (end, -1, user)]
    live = most = 0
    for _, step, _ in sorted(events):
        live += step
        most = max(most, live)
    return most


def refused_for_nothing(request: list[Seen]) -> list[Seen]:
    """The refusals during which fewer uses can have been live than there are."""
    late = 0.01  # Redis counts milliseconds, and a lapse is noticed by the next request
    live = _merged([(one.user, one.asked, one.ended + LIFE_SECONDS + late) for one in request if one.ending])
    refusals = [one for one in request if not one.ending]
    return [
        one for one in refusals if len({user for user, a, b in live if a <= one.told and b >= one.asked}) < MAX_USES
    ]


def _merged(spans: list[tuple[int, float, float]]) -> list[tuple[int, float, float]]:
    """The spans of each user, those that overlap as one."""
    results: list[tuple[int, float, float]] = []
    for user, begin, end in sorted(spans):
        if results and results[-1][0] == user and results[-1][2] >= begin:
            results[-1] = (user, results[-1][1], max(end, results[-1][2]))
        else:
            results.append((user, begin, end))
    return results


if __name__ == "__main__":
    import django

    django.setup()
    from tests.gateway_project.work.conftest import redis_state

    print(json.dumps(press(redis_state(prefix=sys.argv[1], connections=THREADS), int(sys.argv[2]))))
