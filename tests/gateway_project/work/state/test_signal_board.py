"""How the processes show each other what they have measured."""

import pytest

from gateway_project.work.state.signal_board import SlotBoard
from telemetry.metrics.slots import Slots
from tests.gateway_project.work.conftest import needs_redis, redis_state


@pytest.mark.embedded
class TestOneServer:
    def test_each_sees_the_others(self):
        slots = Slots(4)
        boards = [SlotBoard(slots, slots.take()) for _ in range(3)]
        assert [list(board.swap(b"%d" % number)) for number, board in enumerate(boards)] == [[], [b"0"], [b"0", b"1"]]
        assert boards[0].swap(b"new") == [b"1", b"2"]
        assert boards[1].swap(b"1") == [b"new", b"2"]

    def test_a_process_without_a_slot_is_alone(self):
        slots = Slots(1)
        SlotBoard(slots, slots.take()).swap(b"shown")
        assert SlotBoard(slots, slots.take()).swap(b"hidden") == ()
        assert SlotBoard(None, None).swap(b"hidden") == ()


@pytest.mark.servers
@needs_redis
class TestRedis:
    def test_each_sees_the_others(self):
        first = redis_state()
        second = redis_state(prefix=first._prefix)
        for state in (first, second):
            state.probe()  # so that the others know of it
        first.signal_board.swap(b"one")
        assert second.signal_board.swap(b"two") == [b"one"]
        assert first.signal_board.swap(b"three") == [b"two"]

    def test_while_redis_is_down_a_process_is_alone(self, redis_at):
        board = redis_at("redis://127.0.0.1:1/0").signal_board
        assert board.swap(b"one") == ()
