"""All processes agree on how fast and how busy each target is."""

import json
import secrets
import time
from types import SimpleNamespace

import pytest

from gateway_project.work.routing.signals import Signals
from gateway_project.work.tasks import signal_sharing
from telemetry.metrics import slots
from tests.gateway_project.work.conftest import needs_redis, redis_state

KEY = (1, "fast", True)


class OneBoard:
    """The boards of a test: everybody sees all that was shown, and what somebody else has written there."""

    def __init__(self):
        self.shown = {}

    def of(self, name):
        def swap(payload):
            self.shown[name] = payload
            return [one for other, one in self.shown.items() if other != name]

        return SimpleNamespace(swap=swap)


def process(board, *, needs_measurements=True):
    gateway = SimpleNamespace(
        state=SimpleNamespace(signal_board=board),
        signals=Signals(),
        snapshot=SimpleNamespace(aliases=SimpleNamespace(needs_measurements=needs_measurements)),
    )
    return gateway.signals, signal_sharing.signal_sharing(gateway)


def measure(signals, seconds):
    sending = signals.begin(KEY)
    sending.started -= seconds
    sending.note_first_token()


@pytest.mark.embedded
class TestAnyBoard:
    def test_two_processes_agree(self):
        board = OneBoard()
        (first, share_first), (second, share_second) = (process(board.of(name)) for name in "ab")
        measure(first, 2)
        measure(second, 4)
        for share in (share_first, share_second, share_first):
            share()
        views = [signals.view(KEY) for signals in (first, second)]
        assert [view.in_flight for view in views] == [2, 2]
        for view in views:
            assert view.first_token_seconds == pytest.approx(3, abs=0.1)

    @pytest.mark.parametrize("rows", [None, 7, [1], [[1]], [[None] * 9], [{"a": 1}], "rows"])
    def test_what_cannot_be_read_is_left_out(self, rows):
        self.ignores(json.dumps({"process": "x", "at": time.time(), "rows": rows}).encode())

    @pytest.mark.parametrize("payload", [b"{", b"[]", b"7", b'{"at": 1}'])
    def test_nor_is_what_is_no_export(self, payload):
        self.ignores(payload)

    def test_nor_is_what_is_old(self):
        row = [1, "fast", True, 7, 0, 0, 0, 0, -1]
        self.ignores(json.dumps({"process": "x", "at": time.time() - 11, "rows": [row]}).encode())

    def ignores(self, payload):
        board = OneBoard()
        signals, share = process(board.of("a"))
        signals.begin(KEY)
        board.shown["x"] = payload
        share()
        assert signals.in_flight(1, "fast") == 1

    def test_nothing_is_shown_while_nobody_wants_it(self):
        board = OneBoard()
        _, share = process(board.of("a"), needs_measurements=False)
        share()
        assert board.shown == {}


@pytest.mark.embedded
def test_the_workers_of_a_server_share_without_redis(monkeypatch):
    shared = slots.Slots(2)
    monkeypatch.setattr(slots, "signals", shared)
    processes = []
    for number in range(2):
        monkeypatch.setattr(slots, "own_slot", number)
        processes.append(process(OneBoard().of(number)))
    (first, share_first), (second, share_second) = processes
    measure(first, 2)
    share_first()
    share_second()
    assert second.in_flight(1, "fast") == 1


@pytest.mark.servers
@needs_redis
def test_machines_share_through_redis():
    prefix = f"test-{secrets.token_hex(6)}"
    states = [redis_state(prefix=prefix) for _ in range(2)]
    for state in states:
        state.probe()
    (first, share_first), (second, share_second) = (process(state.signal_board) for state in states)
    measure(first, 2)
    share_first()
    share_second()
    assert second.in_flight(1, "fast") == 1
    assert second.view(KEY).first_token_seconds == pytest.approx(2, abs=0.2)
