"""The threads of requests: few of them warm, no task lost, whatever happens."""

import atexit
import sys
import threading
import time

import pytest

from gateway_project.server.threads import LifoThreadPool
from tests.support.locking import guarded
from tests.support.pace import patience


class Work:
    """Tasks that note which thread did them."""

    def __init__(self):
        self.threads = []
        self.done = threading.Semaphore(0)
        self.may_end = threading.Event()

    def quick(self):
        self.threads.append(threading.current_thread().name)
        self.done.release()

    def long(self):
        self.threads.append(threading.current_thread().name)
        assert self.may_end.wait(30)
        self.done.release()

    def wait_for(self, count):
        for _ in range(count):
            assert self.done.acquire(timeout=30)


@pytest.fixture
def work():
    work = Work()
    yield work
    work.may_end.set()


def until(condition):
    deadline = time.monotonic() + patience(5)
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_there_is_room_while_a_thread_is_free_or_can_be_started(work):
    pool = LifoThreadPool(2, "t")
    for expected in (True, True, False):
        assert pool.has_room is expected
        pool.submit(work.long)
    work.may_end.set()
    work.wait_for(3)
    until(lambda: pool.has_room)


def test_there_is_no_room_from_when_the_system_refuses_a_thread_until_one_is_free(work, monkeypatch):
    pool = LifoThreadPool(3, "t")
    pool.submit(work.long)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    pool.submit(work.quick)
    assert not pool.has_room
    work.may_end.set()
    work.wait_for(2)
    until(lambda: pool.has_room)


def refuse(thread):
    raise RuntimeError("can't start new thread")


def test_all_threads_can_be_started_at_once(work):
    pool = LifoThreadPool(3, "t")
    pool.start()
    until(lambda: len(pool._idle) == 3)
    pool.submit(work.quick)
    work.wait_for(1)
    until(lambda: len(pool._idle) == 3)


def test_who_was_busy_last_works_next(work):
    pool = LifoThreadPool(10, "t")
    for _ in range(5):
        pool.submit(work.long)
    work.may_end.set()
    work.wait_for(5)
    until(lambda: len(pool._idle) == 5)
    del work.threads[:]
    for _ in range(20):
        pool.submit(work.quick)
        work.wait_for(1)
        until(lambda: len(pool._idle) == 5)
    assert len(set(work.threads)) == 1


def test_no_more_are_made_than_are_needed_or_allowed(work):
    pool = LifoThreadPool(3, "t")
    for _ in range(10):
        pool.submit(work.long)
    until(lambda: len(work.threads) == 3)
    time.sleep(0.05)
    assert sorted(work.threads) == ["t-0", "t-1", "t-2"]
    work.may_end.set()
    work.wait_for(10)
    assert set(work.threads) == {"t-0", "t-1", "t-2"}


def test_what_waits_has_its_turn_in_order():
    pool, order, result = LifoThreadPool(1, "t"), [], threading.Event()
    initializer = threading.Event()
    pool.submit(lambda: initializer.wait(30))
    for number in range(50):
        pool.submit(lambda number=number: order.append(number))
    pool.submit(result.set)
    initializer.set()
    assert result.wait(30)
    assert order == list(range(50))


def test_not_one_of_many_short_tasks_is_left_lying(work):
    pool = LifoThreadPool(4, "t")
    for _ in range(20_000):
        pool.submit(work.quick)
    work.wait_for(20_000)
    assert len(work.threads) == 20_000


def test_a_task_that_fails_costs_no_thread(work, caplog):
    pool = LifoThreadPool(1, "t")
    pool.submit(lambda: 1 / 0)
    pool.submit(work.quick)
    work.wait_for(1)
    assert "A task failed." in caplog.text


def test_each_thread_begins_once(work):
    begun = []
    pool = LifoThreadPool(2, "t", lambda: begun.append(threading.get_ident()))
    for _ in range(2):
        pool.submit(work.long)
    work.may_end.set()
    work.wait_for(2)
    pool.submit(work.quick)
    work.wait_for(1)
    assert len(begun) == len(set(begun)) == 2


def test_where_the_system_has_no_more_threads_those_there_are_do_the_work(work, monkeypatch):
    pool = LifoThreadPool(10, "t")
    pool.submit(work.quick)
    work.wait_for(1)
    refuse_threads(monkeypatch)
    for _ in range(5):
        pool.submit(work.quick)
    work.wait_for(5)
    assert set(work.threads) == {"t-0"}


def test_where_it_has_none_at_all_that_is_said(monkeypatch):
    refuse_threads(monkeypatch)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        LifoThreadPool(10, "t").submit(lambda: None)


def refuse_threads(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)


def test_the_end_waits_for_what_is_still_to_be_done(work):
    pool = LifoThreadPool(1, "t")
    pool.wait()
    pool.submit(work.long)
    pool.submit(work.quick)
    ending = threading.Thread(target=pool.wait)
    ending.start()
    ending.join(0.1)
    assert ending.is_alive()
    work.may_end.set()
    ending.join(30)
    assert len(work.threads) == 2
    assert not ending.is_alive()


def test_nothing_that_a_task_raises_costs_its_thread(work):
    pool = LifoThreadPool(1, "t")
    pool.submit(lambda: sys.exit(1))
    pool.submit(work.quick)
    work.wait_for(1)
    pool.wait()


def test_the_pool_is_changed_under_its_lock():
    pool = LifoThreadPool(1, "guarded")
    atexit.unregister(pool.wait)  # which only looks
    guarded(pool, pool._lock, "_idle", "_queue", "_started")
    result, may_end = threading.Semaphore(0), threading.Event()
    pool.submit(lambda: may_end.wait(30))
    pool.submit(result.release)  # it waits: there is one thread
    may_end.set()
    assert result.acquire(timeout=30)
