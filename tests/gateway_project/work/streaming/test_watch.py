"""A call ends when its time is up or its client has gone, and never a moment after it is over."""

import socket
import threading
import time

import pytest

from gateway_project.work.streaming.watch import CLIENT_GRACE_SECONDS, Watcher
from providers.transport.calls import Call, End, Interrupted
from tests.support.pace import patience, slowness


@pytest.fixture
def watcher():
    watcher = Watcher()
    watcher.start()
    yield watcher
    watcher.stop()


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def client():
    """A client's connection over TCP: the gateway's end, and the client's."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
        with ours, theirs:
            yield ours, theirs


def new_call(client=None, seconds=10):
    return Call(client=client, total_seconds=seconds)


def ended(call, within=30):
    """Why a call was ended, once it was; None if it was not in time."""
    deadline = time.monotonic() + within
    while call.end is None and time.monotonic() < deadline:
        time.sleep(0.01)
    return call.end


@pytest.mark.long
@pytest.mark.parametrize("phase", [End.CONNECT, End.FIRST_BYTE, End.IDLE])
def test_each_phase_has_its_time_and_its_name(watcher, pair, phase):
    call = new_call()
    call.attach(pair[0])
    with watcher.watch_call(call):
        call.expect(phase, 0.3)
        begun = time.monotonic()
        assert pair[0].recv(1) == b""  # woken by the watcher
    assert 0.3 <= time.monotonic() - begun < patience(0.6)
    with pytest.raises(Interrupted) as caught:
        call.check()
    assert caught.value.end is phase


@pytest.mark.long
def test_the_whole_call_has_a_time_that_no_phase_extends(watcher):
    call = new_call(seconds=0.3)
    with watcher.watch_call(call):
        call.expect(End.FIRST_BYTE, 100)
        assert ended(call) is End.TOTAL


@pytest.mark.long
def test_a_shortened_call_ends_earlier_and_a_lengthened_one_does_not(watcher):
    shortened, lengthened = new_call(seconds=100), new_call(seconds=0.2)
    shortened.shorten(0.2)
    lengthened.shorten(100)
    with watcher.watch_call(shortened), watcher.watch_call(lengthened):
        assert (ended(shortened), ended(lengthened)) == (End.TOTAL, End.TOTAL)


@pytest.mark.long
def test_whoever_is_heard_has_its_time_anew(watcher):
    call = new_call()
    call.idle_seconds = 2
    with watcher.watch_call(call):
        for _ in range(8):
            call.note_arrival()
            time.sleep(0.3)
        assert call.end is None
        assert ended(call) is End.IDLE


def leave(theirs):
    theirs.close()


def half_close(theirs):
    theirs.shutdown(socket.SHUT_WR)


def reset(theirs):
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    theirs.close()


@pytest.mark.long
@pytest.mark.parametrize("goes", [leave, half_close, reset])
def test_a_client_that_goes_ends_its_call(watcher, client, pair, goes):
    call = new_call(client[0])
    call.attach(pair[0])
    with watcher.watch_call(call):
        time.sleep(CLIENT_GRACE_SECONDS + 0.1)
        assert call.end is None
        goes(client[1])
        assert pair[0].recv(1) == b""
        assert ended(call) is End.CLIENT_CLOSED


@pytest.mark.long
def test_a_client_that_sends_on_is_there(watcher, client):
    call = new_call(client[0])
    with watcher.watch_call(call):
        client[1].sendall(b"GET / HTTP/1.1\r\n")
        assert ended(call, within=0.6) is None


@pytest.mark.long
def test_one_clients_leave_is_nobody_elses(watcher, client):
    going, staying = new_call(client[0]), new_call(client[1])
    with watcher.watch_call(going), watcher.watch_call(staying):
        client[1].shutdown(socket.SHUT_WR)
        assert ended(going) is End.CLIENT_CLOSED
        assert staying.end is None


@pytest.mark.long
def test_a_client_whose_socket_is_closed_already_disturbs_nobody(watcher, client, pair):
    abandoned_call = new_call(client[0])
    client[0].close()
    other = new_call(pair[0], seconds=0.5)
    with watcher.watch_call(abandoned_call), watcher.watch_call(other):
        assert ended(other) is End.TOTAL


@pytest.mark.long
def test_a_call_that_is_not_watched_any_more_goes_on(watcher, client):
    call = new_call(client[0], seconds=0.3)
    with watcher.watch_call(call):
        pass
    client[1].close()
    assert ended(call, within=0.6) is None


def test_a_socket_given_back_is_never_shut_down():
    """The watcher and a finishing call race for the socket; the next request must find it whole."""
    for _ in range(300):
        ours, theirs = socket.socketpair()
        call = new_call()
        call.attach(ours)
        start = threading.Barrier(2)
        watching = threading.Thread(target=lambda call=call, start=start: (start.wait(), call.interrupt(End.IDLE)))
        watching.start()
        start.wait()
        call.detach()
        rest = call.end is None
        watching.join()
        if rest:
            theirs.sendall(b"x")
            assert ours.recv(1) == b"x"
        ours.close()
        theirs.close()


def test_a_socket_of_a_call_that_ended_is_not_taken(pair):
    call = new_call()
    call.interrupt(End.CLIENT_CLOSED)
    with pytest.raises(Interrupted):
        call.attach(pair[0])
    pair[1].sendall(b"x")
    assert pair[0].recv(1) == b"x"


def test_the_first_reason_stands():
    call = new_call()
    call.interrupt(End.FIRST_BYTE)
    call.interrupt(End.CLIENT_CLOSED)
    assert call.end is End.FIRST_BYTE


@pytest.mark.long
@pytest.mark.parametrize(
    ("end", "goes_on"), [(End.CONNECT, True), (End.FIRST_BYTE, True), (End.TOTAL, False), (End.CLIENT_CLOSED, False)]
)
def test_another_provider_may_try_after_one_took_too_long(watcher, end, goes_on):
    call = new_call()
    call.expect(End.FIRST_BYTE, 0.01)
    call.interrupt(end)
    assert call.prepare_retry() is goes_on
    with watcher.watch_call(call):
        time.sleep(0.25)
        assert (call.end is None) is goes_on


def test_when_the_gateway_stops_every_call_ends(watcher, pair):
    calls = [new_call() for _ in range(10)]
    for call in calls:
        watcher.add(call)
    calls[0].attach(pair[0])
    watcher.interrupt_all(End.STOPPING)
    assert {call.end for call in calls} == {End.STOPPING}
    assert pair[0].recv(1) == b""


def test_one_thread_watches_a_thousand_calls():
    watcher, calls = Watcher(), [new_call(seconds=100) for _ in range(1000)]
    for call in calls:
        watcher.add(call)
    begun = time.process_time()
    watcher.run_once()
    assert time.process_time() - begun < 0.1 * slowness()
