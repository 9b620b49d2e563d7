"""The thread that carries live streams: nothing is lost, nothing waits in it, and what is hard goes back."""

import socket
import ssl
import threading
import time
from contextlib import ExitStack, suppress
from types import SimpleNamespace

import pytest

from gateway_project.work.exchange import Incoming
from gateway_project.work.relay import Carriage, Relay
from providers.calls import Call, End, Interrupted
from providers.conversation import Conversation, Line
from providers.reply import Reply
from tests.certificates import encrypted
from tests.pace import patience

BEAT = b": heartbeat\n\n"
SILENCE = 0.1


class Road:
    """A provider's socket and a client's, and a stream between them that ends with the word "end"."""

    def __init__(self, resources):
        self.provider, self.source = map(resources.enter_context, socket.socketpair())
        self.far, near = map(resources.enter_context, socket.socketpair())
        self.far.settimeout(30)
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        self.call = Call(client=near, total_seconds=60)
        self.call.attach(self.source)
        self.reader = SimpleNamespace(is_over=False)
        conversation = SimpleNamespace(source=self.source, has_more=False)
        self.stream = SimpleNamespace(reader=self.reader, conversation=conversation)

    def chunks(self):
        while not self.reader.is_over:
            try:
                data = self.source.recv(1000)
            except BlockingIOError:
                yield None
                continue
            self.call.heard()
            self.call.check()
            if not data:
                raise ValueError("it was cut")
            self.reader.is_over = data.endswith(b"end")
            yield data

    def received(self):
        """All that has come to the client, out of its chunks of HTTP, once the stream has ended."""
        self.call.client.shutdown(socket.SHUT_WR)
        raw, pieces = self.far.makefile("rb"), []
        while size := raw.readline():
            pieces.append(raw.read(int(size, 16)))
            assert raw.read(2) == b"\r\n"
        return pieces


@pytest.fixture
def relay():
    made = Relay(heartbeat_seconds=SILENCE)
    made.start()
    return made


@pytest.fixture
def road():
    with ExitStack() as resources:
        yield Road(resources)


def carried(relay, road, heartbeat=b""):
    """Carry a stream in a thread of its own; what it came to is in `raised` when it is joined."""

    def run():
        try:
            relay.carry(Carriage(road.stream, road.call, road.chunks()), heartbeat)
        except Exception as error:
            thread.raised = error

    thread = threading.Thread(target=run, daemon=True)
    thread.raised = None
    thread.start()
    return thread


def feed(road, data):
    """Send it to the relay from a thread of its own, for as long as somebody takes it."""

    def run():
        with suppress(OSError):
            road.provider.sendall(data)

    feeder = threading.Thread(target=run, daemon=True)
    feeder.start()
    return feeder


def joined(thread):
    thread.join(patience(10))
    assert not thread.is_alive()
    return thread.raised


def test_chunks_come_as_chunks_of_http_and_the_end_is_the_readers(relay, road):
    thread = carried(relay, road)
    for word in (b"one", b"two", b"the end"):
        road.provider.sendall(word)
        assert road.far.recv(100) == b"%X\r\n%b\r\n" % (len(word), word)
    assert joined(thread) is None
    assert road.source.gettimeout() is None  # as it was


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


def test_silences_are_filled(relay, road):
    thread = carried(relay, road, BEAT)
    assert road.far.recv(100) == b"D\r\n: heartbeat\n\n\r\n"
    assert road.far.recv(100) == b"D\r\n: heartbeat\n\n\r\n"
    road.provider.sendall(b"end")
    assert joined(thread) is None
    assert [piece for piece in road.received() if piece != BEAT] == [b"end"]


def test_a_client_that_left_in_a_silence_ends_the_call(relay, road):
    road.far.close()
    assert joined(carried(relay, road, BEAT)).end is End.CLIENT_CLOSED
    assert road.call.end is End.CLIENT_CLOSED


def test_a_client_that_left_while_chunks_flow_ends_the_stream(relay, road):
    road.far.close()
    thread = carried(relay, road)
    road.provider.sendall(b"one")
    assert joined(thread).end is End.CLIENT_CLOSED


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
            said = b"".join(piece for piece in road.received() if piece != BEAT)
            assert said == b"%d " % number * 5 + b"end"


def test_what_tls_holds_back_is_not_waited_for(relay, road, tmp_path):
    with ExitStack() as resources:
        road.call.client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 100_000)
        provider, road.source = encrypted(resources, tmp_path / "both.pem")
        reply = Reply(road.source, limit=1_000_000)
        provider.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 15003\r\n\r\n")
        reply.read_head()
        road.stream.conversation = Conversation(None, Line("", road.source), reply, road.call)
        pieces = road.stream.conversation.pieces()
        road.chunks = lambda: pieces
        thread = carried(relay, road)
        provider.sendall(b"x" * 15_000 + b"end")  # one record, of which a read takes a part
        assert joined(thread) is None
        assert b"".join(road.received()) == b"x" * 15_000 + b"end"


@pytest.mark.parametrize(
    ("client", "protocol"), [(None, "HTTP/1.1"), (ssl.SSLSocket, "HTTP/1.1"), (socket.socket, "HTTP/1.0")]
)
def test_only_plain_sockets_and_chunks_are_its_business(relay, client, protocol):
    made = client and client.__new__(client)
    assert not relay.takes(Incoming({"SERVER_PROTOCOL": protocol}, client=made))
    assert relay.takes(Incoming({"SERVER_PROTOCOL": "HTTP/1.1"}, client=socket.socket.__new__(socket.socket)))
