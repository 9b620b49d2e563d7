"""A call to a provider, ended by another thread than the one that makes it."""

import socket

import pytest

from providers.transport.calls import End, Interrupted
from tests.support.locking import guarded
from tests.support.providers.asking import new_call

pytestmark = pytest.mark.either_store


@pytest.fixture
def ends():
    near, far = socket.socketpair()
    with near, far:
        far.settimeout(5)
        yield near, far


def test_an_interrupted_call_shuts_its_socket_down_and_gets_no_other(ends):
    near, far = ends
    call = new_call()
    call.attach(near)
    call.interrupt(End.CLIENT_CLOSED)
    assert far.recv(1) == b""
    with pytest.raises(Interrupted):
        call.attach(near)


def test_a_socket_that_was_detached_is_left_alone(ends):
    near, far = ends
    call = new_call()
    call.attach(near)
    call.detach()
    call.interrupt(End.STOPPING)
    near.send(b"still there")
    assert far.recv(20) == b"still there"


def test_what_ended_a_call_first_is_what_ended_it():
    call = new_call()
    call.interrupt(End.IDLE)
    call.interrupt(End.TOTAL)
    assert call.end == End.IDLE


@pytest.mark.parametrize(
    ("end", "goes_on"),
    [
        (End.CONNECT, True),
        (End.FIRST_BYTE, True),
        (End.IDLE, True),
        (End.ATTEMPT, True),
        (End.TOTAL, False),
        (End.CLIENT_CLOSED, False),
        (End.STOPPING, False),
    ],
)
def test_another_provider_is_tried_where_the_last_one_used_up_its_own_time(end, goes_on):
    call = new_call()
    call.attempt(0.001)
    call.interrupt(end)
    assert call.prepare_retry() is goes_on
    assert call.remaining_seconds() > 1


def test_the_end_and_the_socket_are_changed_under_the_lock(ends):
    call = new_call()
    guarded(call, call._lock, "_socket", "end", reads=False)
    call.attach(ends[0])
    call.interrupt(End.IDLE)
    assert call.prepare_retry()
    call.detach()


def test_the_time_that_a_client_is_waited_for_is_not_the_providers(ends):
    near, _ = ends
    call = new_call(1000)
    call.client, call.idle_seconds = near, 10
    call.attempt(100)
    call.note_arrival()
    until, since = call.attempt_deadline, call.waiting_since
    call.pause(near)
    assert call.overdue(since + 500) is None
    assert call.overdue(since + 1000) is End.TOTAL
    call.resume()
    call.resume()  # of whoever paused it too
    waited = call.waiting_since - since
    assert 0 < waited < 5
    assert call.attempt_deadline - until == pytest.approx(waited)
    assert call.overdue(call.waiting_since + 10) is End.IDLE


@pytest.mark.parametrize("go_on", [lambda call: call.detach_client(), lambda call: call.abandon()])
def test_a_call_that_goes_on_without_its_client_does_not_wait_for_it(ends, go_on):
    near, _ = ends
    call = new_call(1000)
    call.client, call.idle_seconds = near, 10
    call.outlive_client_if(lambda: True)
    call.note_arrival()
    call.pause(near)
    go_on(call)
    call.pause(near)
    assert call.overdue(call.waiting_since + 10) in (End.IDLE, End.ATTEMPT)
