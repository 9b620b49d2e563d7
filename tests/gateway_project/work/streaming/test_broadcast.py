"""The window of a broadcast: the fastest subscriber is waited for, and slow ones miss chunks."""

import threading
import time

import pytest

from gateway_project.errors import ServiceUnavailable
from gateway_project.work.streaming import broadcast
from gateway_project.work.streaming.broadcast import Broadcast, Result
from providers.transport.calls import Call, End, Interrupted
from tests.support.pace import patience

pytestmark = pytest.mark.either_store


class TestBroadcast:
    """What is beyond the kept chunks: the fastest is waited for, and others miss what leaves the window."""

    @pytest.fixture
    def call(self):
        return Call(client=None, total_seconds=60)

    def subscribed(self, call, number):
        one = Broadcast(None, [], call, "")
        return one, [one.subscribe(Call(client=None, total_seconds=60)) for _ in range(number)]

    def next(self, subscription, seconds=0.0):
        return subscription.broadcast.next_data(subscription, time.monotonic() + seconds)

    def test_a_slow_one_misses_what_left_the_window(self, call):
        one, (quick, slow) = self.subscribed(call, 2)
        chunk = b"x" * 1_000_000
        for _ in range(broadcast.WINDOW_BYTES // len(chunk) + 3):
            one.publish(chunk)
            assert self.next(quick) == chunk
        with pytest.raises(ServiceUnavailable):
            self.next(slow)

    @pytest.mark.long
    def test_the_provider_waits_for_the_fastest_and_for_nobody_who_has_left(self, call):
        call.idle_seconds = 0.1
        call.note_arrival()
        one, (quick, _) = self.subscribed(call, 2)
        chunk = b"x" * (broadcast.WINDOW_BYTES // 2)
        writer = threading.Thread(target=lambda: [one.publish(chunk) for _ in range(4)], daemon=True)
        writer.start()
        writer.join(0.3)
        assert writer.is_alive()
        assert call.overdue(time.monotonic()) is None  # the provider's time does not run
        for _ in range(3):
            assert self.next(quick, 5) == chunk
        writer.join(patience(5))
        assert not writer.is_alive()

    @pytest.mark.parametrize("end", ["all leave", "the call ends"])
    def test_it_does_not_wait_for_ever(self, call, end):
        one, (only,) = self.subscribed(call, 1)
        chunk = b"x" * broadcast.WINDOW_BYTES

        def write():
            for _ in range(3):
                one.publish(chunk)
            one.end(Result())

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        if end == "all leave":
            only.leave()
        else:
            call.interrupt(End.STOPPING)
        writer.join(patience(5))
        assert not writer.is_alive()

    def test_one_whose_call_ends_wakes_at_once(self, call):
        _, (one,) = self.subscribed(call, 1)
        timer = threading.Timer(0.2, one.call.interrupt, [End.TOTAL])
        timer.start()
        with pytest.raises(Interrupted):
            self.next(one, 60)
