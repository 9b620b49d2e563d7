"""Many requests at once on limits of every kind and subject: what the threads of one process saw.

As a program it is one of several processes that press on one Redis: it says that it is ready, waits for a line, and
tells what it saw. It takes a prefix of names, a seed, how many rounds, and how many seconds its clock is wrong.
"""

import json
import random
import sys
import threading
import time
from bisect import bisect_left, bisect_right
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from itertools import accumulate
from typing import NamedTuple

THREADS = 50
SUBJECTS = ("key", "user", "group", "provider")
NANO = 10**9
# Of each kind: its amount, and between which bounds a request wants some of it, in the units that are counted.
KINDS = {
    ("requests", "minute"): (40, (1, 1)),
    ("requests", "day"): (30, (1, 1)),
    ("requests", "month"): (50, (1, 1)),
    ("tokens", "minute"): (2000, (10, 200)),
    ("tokens", "day"): (1500, (1, 400)),
    ("tokens", "month"): (300, (30, 30)),
    ("cost", "minute"): (5, (NANO // 100, NANO)),
    ("cost", "day"): (Decimal("0.000041"), (9_000, 13_500)),
    ("cost", "month"): (1, (1, NANO // 7)),
    ("concurrent", "none"): (3, (1, 1)),
}


class Seen(NamedTuple):
    """One request by the clock that all processes of a machine share: a refused one has no ending.

    It took `take` at first, or wanted it at least, and came to `amount`.
    """

    limit: str
    take: int
    asked: float
    told: float
    ending: float = 0.0
    ended: float = 0.0
    amount: int = 0


def checks_of(kind):
    """The checks of one kind, for one subject each."""
    from gateway_project.work.limits.book import LimitBook, LimitRow
    from gateway_project.work.limits.kinds import Subject

    long_ago, (amount, _) = datetime(2020, 1, 1, tzinfo=UTC), KINDS[kind]
    book = LimitBook()
    return [book.check(LimitRow(Subject(name, 1), "it", *kind, Decimal(amount), long_ago)) for name in SUBJECTS]


def make_whole(state) -> dict[str, int]:
    """Nothing was used of any of them; their amounts, by name."""
    results = [check for kind in KINDS for check in checks_of(kind)]
    for check in [check for check in results if check.since]:
        state.rebuild([(lost, 0) for lost in state.admit([check]).lost])
    return {check.name: check.amount for check in results}


def press(state, seed: int, rounds: int) -> list[Seen]:
    """What all threads saw, all of them at one kind after the other."""
    over = threading.Event()
    threading.Thread(target=lambda: [state.renew_holds() for _ in iter(lambda: over.wait(0.5), True)]).start()
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            observations = pool.map(
                lambda number: list(_work(state, random.Random(seed + number), rounds)), range(THREADS)
            )
            return [one for some in observations for one in some]
    finally:
        over.set()


def _work(state, chance: random.Random, rounds: int):
    for kind, (_, expected) in KINDS.items():
        for _ in range(rounds):
            yield _request(state, chance.choice(checks_of(kind)), chance.randint(*expected), chance)


def _request(state, check, want: int, chance: random.Random) -> Seen:
    from gateway_project.work.limits.checks import RESERVE, Settlement

    token, seconds = f"{chance.getrandbits(64):016x}", chance.random() * 0.01
    bounded = check.kind != RESERVE or chance.random() < 0.9
    check = check._replace(take=want, minimum=want if bounded else 1)
    of_provider = check.limit.subject.kind == "provider"
    duration = time.monotonic()
    admission = (
        state.admit((), "", token, candidate_checks=[[check]]) if of_provider else state.admit([check], "", token)
    )
    result = time.monotonic()
    assert not admission.lost
    if admission.refused is not None:
        return Seen(check.name, check.minimum, duration, result)
    take = admission.holds[0].take if check.kind == RESERVE else 1
    amount = chance.randrange(take // 2 + 1) if check.kind == RESERVE else int(check.kind == "n")
    time.sleep(seconds)
    ending = time.monotonic()
    state.settle(Settlement(token, admission.holds, [amount] * len(admission.holds)))
    return Seen(check.name, take, duration, result, ending, time.monotonic(), amount)


def most_at_once(request: list[Seen]) -> int:
    """The most that was certainly taken, or used, at one moment."""
    admitted = [one for one in request if one.ending]
    steps = [(one.told, one.take) for one in admitted] + [(one.ending, one.amount - one.take) for one in admitted]
    return max(accumulate(step for _, step in sorted(steps)), default=0)


def refused_for_nothing(request: list[Seen], amount: int) -> list[Seen]:
    """The refusals during which there was room at every moment, whatever was on its way."""
    admitted = [one for one in request if one.ending]
    steps = [(one.asked, one.take) for one in admitted] + [(one.ended, one.amount - one.take) for one in admitted]
    steps.sort(key=lambda step: (step[0], -step[1]))
    moments, totals = [moment for moment, _ in steps], [0, *accumulate(step for _, step in steps)]

    def most(one: Seen) -> int:
        return max(totals[bisect_left(moments, one.asked) : bisect_right(moments, one.told) + 1])

    return [one for one in request if not one.ending and most(one) + one.take <= amount]


if __name__ == "__main__":
    prefix, seed, rounds, wrong = sys.argv[1], *map(int, sys.argv[2:])
    right = time.time
    time.time = lambda: right() + wrong

    from tests.gateway_project.work.conftest import redis_state

    state = redis_state(prefix=prefix, connections=THREADS)  # none waits for another's
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(press(state, seed, rounds)))
