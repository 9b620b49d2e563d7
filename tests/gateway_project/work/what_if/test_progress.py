"""How far a replay is, and that it ends when nobody wants it any more: while it reads, and while it is stored."""

import threading
import time
from datetime import timedelta
from itertools import pairwise

import pytest
from django.db import connection

from gateway_project.work.snapshot.loading import load_all
from gateway_project.work.snapshot.records import Snapshot
from gateway_project.work.what_if import replay, running
from gateway_project.work.what_if.drafts import Draft
from gateway_project.work.what_if.limits import LimitSides
from gateway_project.work.what_if.replay import Cancelled, Replay
from rules.models import WhatIf
from rules.what_if.services import begin_what_if, claim_next
from tests.gateway_project.work.what_if.test_viewsets import MOMENT, allowed, begun, bob, provider, served

pytestmark = [pytest.mark.either_store, pytest.mark.django_db(transaction=True)]
__all__ = ["allowed", "bob", "provider", "served"]

DAYS, SECONDS = timedelta(days=2), 10


def replayed(report, **options):
    snapshot = Snapshot()
    load_all(snapshot)
    return Replay(snapshot, snapshot, report, **options).run(MOMENT, MOMENT + DAYS)


class Wanted:
    """A report of so many calls: the one behind them raises Cancelled."""

    def __init__(self, calls: int) -> None:
        self.calls, self.shares = calls, []

    def __call__(self, share: float) -> None:
        self.shares.append(share)
        if len(self.shares) > self.calls:
            raise Cancelled


def test_the_share_rises_from_part_to_part_and_ends_at_one(served):
    served(40, every=3600)
    shares = []
    outcome = replayed(shares.append)
    assert outcome.total.requests == 40
    assert (shares[0], shares[-1]) == (0, 1)
    assert all(before < after for before, after in pairwise(shares))
    assert len([share for share in shares if 0 < share < 1]) >= 7


def test_the_parts_behind_the_one_that_is_cancelled_are_never_read(served, django_assert_num_queries):
    served(40, every=3600)
    snapshot, report = Snapshot(), Wanted(1)
    load_all(snapshot)
    with django_assert_num_queries(1), pytest.raises(Cancelled):
        Replay(snapshot, snapshot, report).run(MOMENT, MOMENT + DAYS)
    assert len(report.shares) == 2


def test_a_long_part_is_cancelled_in_the_middle(served, monkeypatch):
    served(100, every=1)
    monkeypatch.setattr(replay, "REPORT_EVERY", 10)
    report = Wanted(4)
    with pytest.raises(Cancelled):
        replayed(report, limits=LimitSides(Draft(), MOMENT))
    assert report.shares == [0] * 5


class PausedHeartbeat(running.Heartbeat):
    """Stands still at its second report until it is released."""

    last: "PausedHeartbeat"

    def __init__(self, claim: str) -> None:
        super().__init__(claim)
        self.shares: list[float] = []
        self.paused, self.released = threading.Event(), threading.Event()
        PausedHeartbeat.last = self

    def report(self, share: float) -> None:
        self.shares.append(share)
        if len(self.shares) == 2:
            self.progress = round(share, 3)
            self.paused.set()
            assert self.released.wait(SECONDS)
        super().report(share)


@pytest.fixture
def working(monkeypatch):
    """A what-if that a thread works on, which stands still behind its first part; its heartbeat."""
    monkeypatch.setattr(running, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(running, "Heartbeat", PausedHeartbeat)
    threads = []

    def work():
        thread = threading.Thread(target=run, args=[claim_next()])
        threads.append(thread)
        thread.start()
        until(lambda: getattr(PausedHeartbeat, "last", None) is not None and PausedHeartbeat.last.paused.is_set())
        return thread, PausedHeartbeat.last

    yield work
    for thread in threads:
        thread.join(SECONDS)
    del PausedHeartbeat.last


def run(what_if):
    try:
        running.run_claimed(what_if)
    finally:
        connection.close()


def until(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_is_cancelled_while_it_is_worked_on_ends_within_seconds(admin, served, working):
    served(1)
    number = begun(admin)
    thread, heartbeat = working()
    until(lambda: 0 < admin.get(f"/what-if/{number}/", flat=True).json()["data"]["progress"] < 1)
    assert admin.delete(f"/what-if/{number}/").status_code == 200
    until(lambda: not heartbeat.is_wanted)
    heartbeat.released.set()
    thread.join(SECONDS)
    assert not thread.is_alive()
    assert len(heartbeat.shares) == 2
    row = admin.get(f"/what-if/{number}/", flat=True).json()["data"]
    assert (row["state"], row["result"], row["error"]) == ("cancelled", None, "")


def test_what_another_process_has_claimed_meanwhile_is_left_to_it(db, working):
    what_if = begin_what_if(user_id=1, user_name="a", draft={}, start=MOMENT, end=MOMENT + DAYS)
    thread, heartbeat = working()
    WhatIf.objects.filter(pk=what_if.pk).update(claim="another")
    until(lambda: not heartbeat.is_wanted)
    heartbeat.released.set()
    thread.join(SECONDS)
    what_if.refresh_from_db()
    assert (what_if.state, what_if.claim, len(heartbeat.shares)) == ("running", "another", 2)
    assert claim_next() is None
