"""The thread that carries live streams: nothing is lost, nothing waits in it, and what is hard goes back."""

import socket
import ssl
import threading
import time
from contextlib import ExitStack, suppress

import pytest

from gateway_project.server.http1.messages import PACE
from gateway_project.work.streaming import relay as relay_module
from gateway_project.work.streaming.stream import ClientConnection, heartbeat_after
from providers.transport.calls import End, Interrupted
from providers.transport.http_response import HTTPResponse
from providers.transport.provider_response import Connection, ProviderResponse
from tests.support.certificates import encrypted
from tests.support.pace import patience
from tests.support.relayed_streams import Road, Stream, carried, event, feed, framed, joined

pytestmark = pytest.mark.embedded

BEAT = b": heartbeat\n\n"


def test_chunks_come_as_chunks_of_http_and_the_end_is_the_readers(relay, road):
    thread = carried(relay, road)
    for word in (b"one", b"two", b"the end"):
        road.provider.sendall(word)
        assert road.far.recv(100) == b"%X\r\n%b\r\n" % (len(word), word)
    assert joined(thread) is None
    assert road.source.gettimeout() is None  # as it was


@pytest.mark.long
def test_a_client_that_reads_late_gets_everything(relay, road):
    thread = carried(relay, road)
    feeder = feed(road, b"x" * 1_000_000 + b"end")
    time.sleep(0.2)
    assert feeder.is_alive()  # what the client does not take is not taken from the provider either
    reading = threading.Thread(target=lambda: pieces.extend(iter(lambda: road.far.recv(65536), b"")), daemon=True)
    pieces: list[bytes] = []
    reading.start()
    assert joined(thread) is None
    road.call.client.shutdown(socket.SHUT_WR)
    reading.join(patience(10))
    assert b"".join(pieces).count(b"x") == 1_000_000


def test_a_client_that_does_not_read_holds_up_nobody_else(relay, road):
    stuck = carried(relay, road)
    feed(road, b"x" * 1_000_000)
    with ExitStack() as resources:
        other = Road(resources)
        thread = carried(relay, other)
        other.provider.sendall(b"end")
        assert joined(thread) is None
        assert other.received() == [b"end"]
    road.far.close()
    assert joined(stuck).end is End.CLIENT_CLOSED


@pytest.mark.long
def test_silences_are_filled(relay, road):
    thread = carried(relay, road, BEAT)
    assert road.far.recv(100) == b"D\r\n: heartbeat\n\n\r\n"
    assert road.far.recv(100) == b"D\r\n: heartbeat\n\n\r\n"
    road.provider.sendall(b"end")
    assert joined(thread) is None
    assert [piece for piece in road.received() if piece != BEAT] == [b"end"]


def test_no_heartbeat_comes_into_the_middle_of_a_chunk_or_behind_the_end(road):
    relayed = road.relayed(iter(()))
    relayed.unsent = b"what the client has not taken yet"
    relayed.send_heartbeat(BEAT)
    relayed.unsent, relayed.ended = b"", True
    relayed.send_heartbeat(BEAT)
    assert road.received() == []


@pytest.mark.parametrize(
    ("last", "beat"),
    [
        (b"", BEAT), (b"data: 1\n\n", BEAT), (b"data: 1\r\n\r\n", BEAT), (b"data: 1\r\r", BEAT),
        (b"event: x\n", b": heartbeat\n"), (b"event: x\r\n", b": heartbeat\n"), (b"\n", b": heartbeat\n"),
        (b"data: the beginn", b""),
    ],
)  # fmt: skip
def test_a_heartbeat_is_a_line_of_its_own_and_ends_no_event(road, last, beat):
    relayed = road.relayed(iter([last]))
    relayed.step()
    relayed.ended = False
    relayed.send_heartbeat(BEAT)
    assert road.received() == [chunk for chunk in (last, beat) if chunk]
    assert heartbeat_after(last, BEAT) == beat
    assert heartbeat_after(last, b"") == b""


def test_a_client_that_left_in_a_silence_ends_the_call(relay, road):
    road.far.close()
    assert joined(carried(relay, road, BEAT)).end is End.CLIENT_CLOSED
    assert road.call.end is End.CLIENT_CLOSED


def test_a_client_that_left_while_chunks_flow_ends_the_stream(relay, road):
    road.far.close()
    thread = carried(relay, road)
    road.provider.sendall(b"one")
    assert joined(thread).end is End.CLIENT_CLOSED


@pytest.mark.long
def test_a_client_that_is_waited_for_too_long_is_hung_up_on(relay, road, monkeypatch):
    monkeypatch.setattr(relay_module, "LAG_SECONDS", 0.05)
    road.client_seconds = 0.1
    thread = carried(relay, road)
    feed(road, b"x" * 1_000_000)
    assert joined(thread).end is End.CLIENT_CLOSED
    with pytest.raises(BrokenPipeError):  # nothing can follow the chunk that was cut off
        road.call.client.send(b"0\r\n\r\n")


@pytest.mark.long
def test_a_slow_client_does_not_use_up_the_providers_time(relay, road):
    road.call.idle_seconds = 0.2
    thread = carried(relay, road)
    feed(road, b"x" * 1_000_000 + b"end")
    time.sleep(0.5)
    assert road.call.overdue(time.monotonic()) is None
    reading = threading.Thread(target=road.receiving, daemon=True)
    reading.start()
    assert joined(thread) is None
    road.call.client.shutdown(socket.SHUT_WR)
    reading.join(patience(10))


@pytest.mark.long
def test_a_call_that_ends_while_its_client_is_waited_for_is_not_kept(relay, road):
    thread = carried(relay, road)
    feed(road, b"x" * 1_000_000)
    time.sleep(0.2)
    road.call.interrupt(End.TOTAL)
    assert joined(thread).end is End.TOTAL


def test_what_goes_wrong_is_raised_where_the_stream_belongs(relay, road):
    thread = carried(relay, road)
    road.provider.sendall(b"one")
    assert road.far.recv(100) == b"3\r\none\r\n"
    road.provider.close()
    assert isinstance(joined(thread), ValueError)


def test_the_watcher_can_end_it(relay, road):
    thread = carried(relay, road)
    road.call.interrupt(End.IDLE)
    raised = joined(thread)
    assert isinstance(raised, Interrupted)
    assert raised.end is End.IDLE


def test_a_stream_that_is_over_before_it_is_carried_ends_at_once(relay, road):
    road.reader.is_over = True
    assert joined(carried(relay, road)) is None


def test_a_hundred_at_once_do_not_mix(relay):
    with ExitStack() as resources:
        roads = [Road(resources) for _ in range(100)]
        threads = [carried(relay, road, BEAT) for road in roads]
        for turn in range(5):
            for number, road in enumerate(roads):
                road.provider.sendall(b"%d " % number + (b"end" if turn == 4 else b""))
        assert [joined(thread) for thread in threads] == [None] * 100
        for number, road in enumerate(roads):
            reply = b"".join(piece for piece in road.received() if piece != BEAT)
            assert reply == b"%d " % number * 5 + b"end"


def test_what_tls_holds_back_is_not_waited_for(relay, road, tmp_path):
    with ExitStack() as resources:
        road.call.client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 100_000)
        provider, road.source = encrypted(resources, tmp_path / "both.pem")
        reply = HTTPResponse(road.source, limit=1_000_000)
        provider.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 15003\r\n\r\n")
        reply.read_head()
        road.stream.provider_response = ProviderResponse(None, Connection("", road.source), reply, road.call)
        pieces = road.stream.provider_response.pieces()
        road.chunks = lambda: pieces
        thread = carried(relay, road)
        provider.sendall(b"x" * 15_000 + b"end")  # one record, of which a read takes a part
        assert joined(thread) is None
        assert b"".join(road.received()) == b"x" * 15_000 + b"end"


PIECES = [event(text) for text in ("a", "bc", "ä", 'q"', "d" * 300, "\n", "", "e")]
LAST = b"data: [DONE]\n\n"


@pytest.mark.parametrize("encrypts", [False, True], ids=["plain", "TLS"])
def test_chunks_like_the_one_before_go_on_as_they_came_and_are_told_of(relay, tmp_path, encrypts):
    with ExitStack() as resources:
        road = Stream(resources, source=encrypted(resources, tmp_path / "both.pem") if encrypts else None)
        thread = carried(relay, road)
        for piece in PIECES:
            road.provider.sendall(framed(piece))
            time.sleep(0.02)
        road.provider.sendall(framed(LAST) + b"0\r\n\r\n")
        assert joined(thread) is None
        assert road.received() == [event("first"), *PIECES, LAST]
        # Those that hold a quote or an end of a line are looked at, and so is the mark of the end.
        assert road.forwarded == [piece for piece in PIECES if b"\\" not in piece]
        assert road.reply.body_bytes == len(b"".join([event("first"), *PIECES, LAST]))
        assert road.reply.is_complete


@pytest.mark.long
@pytest.mark.parametrize("step", [1, 7, 50, 83, 84, 90, 200, 1000])
def test_wherever_the_network_cuts_them_all_of_them_arrive(relay, step):
    with ExitStack() as resources:
        road = Stream(resources)
        thread = carried(relay, road)
        request = b"".join(map(framed, [*PIECES * 3, LAST])) + b"0\r\n\r\n"
        for start in range(0, len(request), step):
            road.provider.sendall(request[start : start + step])
            time.sleep(0.0005)
        assert joined(thread) is None
        assert b"".join(road.received()) == b"".join([event("first"), *PIECES * 3, LAST])


def test_an_error_behind_chunks_that_went_on_is_found(relay):
    with ExitStack() as resources:
        road = Stream(resources)
        thread = carried(relay, road)
        for piece in (event("a"), event("b"), b'data: {"error": {"message": "overloaded"}}\n\n', event("c")):
            road.provider.sendall(framed(piece))
            time.sleep(0.02)
        assert joined(thread) is None
        assert "overloaded" in road.reader.error.message
        assert b"".join(road.received()) == event("first") + event("a") + event("b")


@pytest.mark.long
def test_an_answer_without_end_meets_its_bound(relay):
    with ExitStack() as resources:
        road = Stream(resources, limit=40_000)
        thread = carried(relay, road)
        reading = threading.Thread(target=road.receiving, daemon=True)
        reading.start()
        while thread.is_alive():
            road.provider.sendall(framed(event("x" * 20)))
            time.sleep(0.001)
        assert "longer than 40000 bytes" in str(joined(thread))
        assert road.reply.body_bytes < 40_000 + 70 * 100
        road.call.client.shutdown(socket.SHUT_WR)
        reading.join(patience(10))


def test_a_reset_behind_chunks_that_went_on_is_told_as_one(relay):
    with ExitStack() as resources:
        road = Stream(resources)
        thread = carried(relay, road)
        road.brings(framed(event("a")))
        road.source.sendall(b"?")  # what is unread when a side closes resets the other
        road.provider.close()
        assert "it reset the connection" in str(joined(thread))
        assert road.forwarded == [event("a")]


def test_what_went_on_before_the_client_left_is_told_of(relay):
    with ExitStack() as resources:
        road = Stream(resources)
        thread = carried(relay, road)
        road.brings(framed(event("a")))
        road.far.close()
        while thread.is_alive():
            with suppress(OSError):
                road.provider.sendall(framed(event("b")))
            time.sleep(0.01)
        assert joined(thread).end is End.CLIENT_CLOSED
        assert road.forwarded[0] == event("a")


@pytest.mark.long
def test_a_client_that_reads_late_gets_what_goes_on_as_it_came(relay):
    with ExitStack() as resources:
        road = Stream(resources)
        road.call.client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        thread = carried(relay, road)
        pieces = [event(f"{number:05}" * 100) for number in range(1000)]
        feed(road, b"".join(map(framed, [*pieces, LAST])) + b"0\r\n\r\n")
        time.sleep(0.3)
        reading = threading.Thread(target=lambda: texts.extend(road.receiving()), daemon=True)
        texts: list[bytes] = []
        reading.start()
        assert joined(thread) is None
        road.call.client.shutdown(socket.SHUT_WR)
        reading.join(patience(10))
        assert b"".join(texts) == b"".join([event("first"), *pieces, LAST])


@pytest.mark.parametrize(
    ("client", "protocol"), [(None, "HTTP/1.1"), (ssl.SSLSocket, "HTTP/1.1"), (socket.socket, "HTTP/1.0")]
)
def test_only_plain_sockets_and_chunks_are_its_business(relay, client, protocol):
    row = client and client.__new__(client)
    environ = {"SERVER_PROTOCOL": "HTTP/1.1", PACE: object()}
    assert not relay.supports(ClientConnection({**environ, "SERVER_PROTOCOL": protocol}, client=row))
    plain = socket.socket.__new__(socket.socket)
    assert relay.supports(ClientConnection(environ, client=plain))
    assert not relay.supports(ClientConnection({**environ, PACE: None}, client=plain))


@pytest.mark.parametrize("write", ["step", "send_heartbeat"])
def test_what_goes_to_the_client_is_written_under_the_lock_of_its_stream(road, write):
    class Client:
        def send(self, data, flags):
            assert stream.lock.locked()
            return len(data)

    road.call.client = Client()
    stream = road.relayed(iter([b"chunk"]))
    assert stream.step() if write == "step" else stream.send_heartbeat(BEAT) is None
    assert stream.error is None
