"""Identical requests at once, and a client that leaves."""

import time
from concurrent.futures import ThreadPoolExecutor


def at_once(world, ask, number):
    """The results of so many calls at the same time."""
    assert world.key  # made here: the threads have no connection to the database
    world.settle()
    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(ask, range(number)))


def who_leaves(world, provider):
    """The log entry of the second of two identical requests, whose client leaves while the first one is answered."""
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(world.ask)
        provider.wait_for(1)
        leaving = world.send({}, f"X-Svc-Request-ID: leaves-{world.number}")
        time.sleep(0.4)
        leaving.close()
        assert first.result().status_code == 200
    return world.entry(f"leaves-{world.number}")
