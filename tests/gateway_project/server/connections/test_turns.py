"""Management requests compute one after the other, so that work gets the interpreter between them."""

import sys
import threading
import time
from io import BytesIO

import pytest

from gateway_project.server.connections.turns import BRIEF_SWITCHES, END_TURN, USUAL_SWITCHES, Turns
from gateway_project.server.management_bodies import ManagementBodies


class Views:
    """Threads that each wait for a turn and keep it until they are released."""

    def __init__(self, turns: Turns) -> None:
        self.turns, self.release = turns, threading.Event()
        self.most = self.running = 0
        self._lock = threading.Lock()

    def run(self, count: int, seconds: float = 0.0) -> None:
        threads = [threading.Thread(target=self._run, args=[seconds]) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)

    def _run(self, seconds: float) -> None:
        with self.turns.turn():
            with self._lock:
                self.running += 1
                self.most = max(self.most, self.running)
            time.sleep(seconds)
            with self._lock:
                self.running -= 1


@pytest.mark.parametrize("total", [1, 3])
def test_no_more_than_so_many_have_one(total):
    views = Views(Turns(total, seconds=10))
    views.run(12, seconds=0.01)
    assert views.most == total


def test_a_turn_ends_in_time_though_its_view_waits():
    turns = Turns(1, seconds=0.05)
    with turns.turn():
        begun = time.monotonic()
        with turns.turn():
            assert 0.04 < time.monotonic() - begun < 1
            with turns.turn():
                assert 0.09 < time.monotonic() - begun < 2


def test_a_view_that_waits_gives_its_turn_to_the_next():
    turns = Turns(1, seconds=10)
    with turns.turn() as end:
        next_one = threading.Thread(target=Views(turns).run, args=[1])
        next_one.start()
        next_one.join(0.05)
        assert next_one.is_alive()
        end()
        end()  # once more changes nothing
        next_one.join(5)
        assert not next_one.is_alive()


def test_a_failure_ends_it():
    turns = Turns(1, seconds=10)
    for _ in range(3):
        with pytest.raises(KeyError), turns.turn():
            raise KeyError


def test_while_one_has_a_turn_the_others_get_the_interpreter_soon():
    assert sys.getswitchinterval() == USUAL_SWITCHES
    turns = Turns(2, seconds=10)
    with turns.turn():
        with turns.turn():
            assert sys.getswitchinterval() == pytest.approx(BRIEF_SWITCHES)
        assert sys.getswitchinterval() == pytest.approx(BRIEF_SWITCHES)
    assert sys.getswitchinterval() == USUAL_SWITCHES


@pytest.mark.parametrize("has_arrived", [True, False])
def test_who_waits_for_a_body_ends_it(has_arrived):
    ended = []
    environ = {"wsgi.input": BytesIO(b"{}"), "PATH_INFO": "/keys/", END_TURN: lambda: ended.append(True)}
    with ManagementBodies(1, lambda: None, lambda _: has_arrived).bound_body(environ):
        assert environ["wsgi.input"].read(2) == b"{}"
    assert ended == ([] if has_arrived else [True])
